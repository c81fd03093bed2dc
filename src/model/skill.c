/*
 * The front matter is YAML, of which we read what skills use: "key: value" at the left margin,
 * plain, quoted, or as a block of indented lines. Keys we do not know, and what is indented below
 * them, are left alone: they belong to agents.
 */
#include "model/skill.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

void skill_free(struct skill *skill)
{
	if (!skill)
		return;
	for (size_t i = 0; i < skill->count; i++) {
		free(skill->files[i].path);
		free(skill->files[i].bytes);
	}
	free(skill->files);
	free(skill->name);
	free(skill->about);
	free(skill);
}

void skill_freep(struct skill **skill)
{
	skill_free(*skill);
	*skill = NULL;
}

bool skill_is_name(const char *text)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return len > 0 && len <= SKILL_NAME && text[len] == '\0' && text[0] != '-' &&
	       text[len - 1] != '-';
}

/* --- files --- */

/* Parts of letters that mean the same to everybody; none is hidden, "." or "..". */
static bool is_path(const char *path)
{
	if (!*path || strlen(path) > SKILL_PATH)
		return false;
	for (;;) {
		size_t len = strcspn(path, "/");

		if (len == 0 || path[0] == '.' || path[0] == '-')
			return false;
		for (size_t i = 0; i < len; i++) {
			if ((unsigned char)path[i] <= ' ' || path[i] == '\\' || path[i] == 0x7f)
				return false;
		}
		if (!path[len])
			return true;
		path += len + 1;
	}
}

int skill_add(struct skill *skill, const char *path, char *bytes, size_t len, bool is_program,
              struct err *err)
{
	char shown[80];

	str_escape(shown, sizeof(shown), path, strlen(path));
	for (size_t i = 0; i < skill->count; i++) {
		if (str_eq(skill->files[i].path, path)) {
			free(bytes);
			return err_set(err, ERR_INVALID, "file '%s' is there twice", shown);
		}
	}
	if (!is_path(path) || !str_is_utf8(path, strlen(path))) {
		free(bytes);
		return err_set(err, ERR_INVALID,
		               "'%s' is no name of a file in a skill: no blank, no hidden part, "
		               "nothing outside of its folder",
		               shown);
	}
	if (skill->count == SKILL_FILES || len > SKILL_BYTES - skill->bytes) {
		free(bytes);
		return err_set(err, ERR_TOO_LARGE, "a skill has at most %d files and %d KiB",
		               SKILL_FILES, SKILL_BYTES / 1024);
	}
	skill->files = mem_resize(skill->files, skill->count + 1, sizeof(*skill->files));
	skill->files[skill->count++] =
		(struct skill_file){mem_strdup(path), bytes, len, is_program};
	skill->bytes += len;
	return 0;
}

/* --- front matter --- */

struct lines {
	const char *at, *end;
};

/* The next line without its end; false after the last. */
static bool next_line(struct lines *lines, const char **ret, size_t *ret_len)
{
	const char *end;

	if (lines->at >= lines->end)
		return false;
	end = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
	*ret = lines->at;
	*ret_len = (size_t)((end ? end : lines->end) - lines->at);
	lines->at = end ? end + 1 : lines->end;
	while (*ret_len > 0 && ((*ret)[*ret_len - 1] == '\r' || (*ret)[*ret_len - 1] == ' '))
		(*ret_len)--;
	return true;
}

static bool is_indented(const struct lines *lines)
{
	return lines->at < lines->end && (*lines->at == ' ' || *lines->at == '\t' ||
	                                  *lines->at == '\n' || *lines->at == '\r');
}

/* Lines below the key, indented: joined by blanks, or kept as lines. */
static void read_block(struct lines *lines, char style, struct buf *buf)
{
	const char *line;
	size_t len;

	while (is_indented(lines) && next_line(lines, &line, &len)) {
		for (; len > 0 && (*line == ' ' || *line == '\t'); len--)
			line++;
		if (buf_len(buf) > 0 && len > 0)
			(void)!buf_puts(buf,
			                style == '|' ? "\n" : " "); /* too long is seen later */
		(void)!buf_put(buf, line, len);
	}
}

static void read_quoted(const char *text, size_t len, struct buf *buf)
{
	char quote = text[0];

	for (size_t i = 1; i + 1 < len; i++) {
		if (quote == '"' && text[i] == '\\' && i + 2 < len)
			i++;
		else if (quote == '\'' && text[i] == '\'' && text[i + 1] == '\'')
			i++;
		(void)!buf_put(buf, &text[i], 1); /* too long is seen later */
	}
}

static int read_value(struct lines *lines, const char *text, size_t len, char **ret,
                      struct err *err)
{
	struct buf buf;

	for (; len > 0 && *text == ' '; len--)
		text++;
	if (*ret)
		return err_set(err, ERR_INVALID, SKILL_FILE ": a key is there twice");
	buf_init(&buf, 4 * SKILL_ABOUT);
	if (len > 0 && (*text == '|' || *text == '>')) {
		read_block(lines, *text, &buf);
	} else if (len > 1 && (*text == '"' || *text == '\'') && text[len - 1] == *text) {
		read_quoted(text, len, &buf);
	} else {
		(void)!buf_put(&buf, text, len); /* too long is seen later */
		read_block(lines, '>', &buf);
	}
	*ret = buf_take_string(&buf);
	buf_done(&buf);
	return 0;
}

static int read_keys(struct lines *lines, char **ret_name, char **ret_about, struct err *err)
{
	const char *line;
	size_t len;

	while (next_line(lines, &line, &len)) {
		const char *colon = memchr(line, ':', len);
		size_t key = colon ? (size_t)(colon - line) : 0;
		char **to = NULL;

		if (len == 3 && memcmp(line, "---", 3) == 0)
			return 0;
		if (key == 4 && memcmp(line, "name", 4) == 0)
			to = ret_name;
		else if (key == 11 && memcmp(line, "description", 11) == 0)
			to = ret_about;
		if (to && read_value(lines, colon + 1, len - key - 1, to, err) < 0)
			return -1;
	}
	return err_set(err, ERR_INVALID, SKILL_FILE ": the front matter does not end with ---");
}

int skill_read_front(const char *text, size_t len, char **ret_name, char **ret_about,
                     struct err *err)
{
	struct lines lines = {text, text + len};
	auto_free char *name = NULL, *about = NULL;
	const char *line;
	size_t line_len;

	if (!str_is_utf8(text, len) || memchr(text, '\0', len))
		return err_set(err, ERR_INVALID, SKILL_FILE " is no text in UTF-8");
	if (!next_line(&lines, &line, &line_len) || line_len != 3 || memcmp(line, "---", 3) != 0)
		return err_set(err, ERR_INVALID,
		               SKILL_FILE
		               " must begin with front matter: ---, name, description, ---");
	if (read_keys(&lines, &name, &about, err) < 0)
		return -1;
	if (!name || !skill_is_name(name))
		return err_set(err, ERR_INVALID,
		               SKILL_FILE
		               ": 'name' must be at most %d of a-z 0-9 -, without a '-' at "
		               "an end",
		               SKILL_NAME);
	if (!about || !*about || strlen(about) > SKILL_ABOUT)
		return err_set(err, ERR_INVALID,
		               SKILL_FILE ": 'description' must have 1 to %d bytes", SKILL_ABOUT);
	*ret_name = take_ptr(name);
	*ret_about = take_ptr(about);
	return 0;
}

int skill_check(struct skill *skill, const char *folder, struct err *err)
{
	const struct skill_file *file = NULL;

	for (size_t i = 0; i < skill->count && !file; i++) {
		if (str_eq(skill->files[i].path, SKILL_FILE))
			file = &skill->files[i];
	}
	if (!file)
		return err_set(err, ERR_INVALID, "a skill has a file " SKILL_FILE);
	free(skill->name);
	free(skill->about);
	skill->name = skill->about = NULL;
	if (skill_read_front(file->bytes, file->len, &skill->name, &skill->about, err) < 0)
		return -1;
	must(skill->name);
	if (folder && !str_eq(folder, skill->name))
		return err_set(err, ERR_INVALID,
		               SKILL_FILE ": 'name' is '%s', but its folder is '%.64s'",
		               skill->name, folder);
	return 0;
}
