#include "agent/tools.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/command.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

enum {
	FILE_MOST = 16 * 1024 * 1024,
	LINES_MOST = 2000,
	LINE_SHOWN = 2000,
	MATCHES_MOST = 200,
	DEPTH_MOST = 24,
	SECONDS = 120,
	SECONDS_MOST = 3600,
};

/* What does not fit is left out: every answer has room for its beginning. */
static void say(struct buf *answer, const char *text)
{
	(void)!buf_puts(answer, text);
}

static int fail(struct buf *answer, const char *what, int sys)
{
	(void)!buf_printf(answer, "error: %s: %s", what, strerror(sys));
	return -1;
}

static const char *text_of(const json_t *arguments, const char *name)
{
	return json_string_value(json_object_get(arguments, name));
}

static int lacks(struct buf *answer, const char *name)
{
	(void)!buf_printf(answer, "error: the argument '%s' is missing or no text", name);
	return -1;
}

/* Relative paths count from the session's folder. The caller frees. */
static char *full_path(const struct tools_call *call, const char *path)
{
	return *path == '/' ? mem_strdup(path) : mem_printf("%s/%s", call->cwd, path);
}

/* --- run --- */

static int tool_run(const struct tools_call *call, const json_t *arguments, struct buf *answer)
{
	const char *line = text_of(arguments, "command");
	json_int_t seconds = json_integer_value(json_object_get(arguments, "timeoutSeconds"));
	struct command command = {.line = line, .cwd = call->cwd, .watch_fd = call->watch_fd};

	if (!line)
		return lacks(answer, "command");
	command.timeout_ms =
		(uint64_t)(seconds > 0 && seconds <= SECONDS_MOST ? seconds : SECONDS) * 1000;
	command.is_cancelled = call->is_cancelled;
	command.ctx = call->ctx;
	return command_run(&command, answer);
}

/* --- files --- */

static int load(const struct tools_call *call, const char *path, char **ret, size_t *ret_len,
                struct buf *answer)
{
	auto_free char *full = full_path(call, path);
	auto_close int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t got;

	if (fd < 0)
		return fail(answer, path, errno);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return fail(answer, path, fd >= 0 && S_ISDIR(st.st_mode) ? EISDIR : EINVAL);
	if (st.st_size > FILE_MOST)
		return fail(answer, path, EFBIG);
	*ret = mem_zalloc((size_t)st.st_size + 1);
	got = io_read_full(fd, *ret, (size_t)st.st_size);
	if (got < 0) {
		mem_freep(ret);
		return fail(answer, path, (int)-got);
	}
	*ret_len = (size_t)got;
	return 0;
}

static void number_line(struct buf *answer, size_t number, const char *line, size_t len)
{
	(void)!buf_printf(answer, "%6zu  %.*s%s\n", number, (int)MIN(len, (size_t)LINE_SHOWN), line,
	                  len > LINE_SHOWN ? "…" : "");
}

static int tool_read(const struct tools_call *call, const json_t *arguments, struct buf *answer)
{
	const char *path = text_of(arguments, "path");
	json_int_t offset = json_integer_value(json_object_get(arguments, "offset"));
	json_int_t limit = json_integer_value(json_object_get(arguments, "limit"));
	auto_free char *text = NULL;
	size_t len = 0, number = 0, first, most;

	if (!path)
		return lacks(answer, "path");
	if (load(call, path, &text, &len, answer) < 0)
		return -1;
	first = offset > 1 ? (size_t)offset : 1;
	most = limit > 0 && limit < LINES_MOST ? (size_t)limit : LINES_MOST;
	for (const char *at = text; at < text + len;) {
		const char *end = memchr(at, '\n', (size_t)(text + len - at));
		size_t size = end ? (size_t)(end - at) : (size_t)(text + len - at);

		number++;
		if (number >= first && number < first + most)
			number_line(answer, number, at, size);
		at += size + 1;
	}
	if (number >= first + most)
		(void)!buf_printf(answer, "(%zu lines in all)\n", number);
	else if (number < first)
		(void)!buf_printf(answer, "(the file has %zu lines)\n", number);
	return 0;
}

static int make_parents(char *path)
{
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		if (mkdir(path, 0777) < 0 && errno != EEXIST) {
			*at = '/';
			return -errno;
		}
		*at = '/';
	}
	return 0;
}

/* In place: whoever has the file open, or linked, sees it change, as with any editor. */
static int store(const struct tools_call *call, const char *path, const char *text, size_t len,
                 struct buf *answer)
{
	auto_free char *full = full_path(call, path);
	auto_close int fd = -1;
	int r = make_parents(full);

	if (r == 0) {
		fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		          0666);
		r = fd < 0 ? -errno : io_write_all(fd, text, len);
	}
	return r < 0 ? fail(answer, path, -r) : 0;
}

static int tool_write(const struct tools_call *call, const json_t *arguments, struct buf *answer)
{
	const json_t *content = json_object_get(arguments, "content");
	const char *path = text_of(arguments, "path");

	if (!path)
		return lacks(answer, "path");
	if (!json_is_string(content))
		return lacks(answer, "content");
	if (store(call, path, json_string_value(content), json_string_length(content), answer) < 0)
		return -1;
	(void)!buf_printf(answer, "wrote %zu bytes to %s", json_string_length(content), path);
	return 0;
}

static size_t count_of(const char *text, const char *old)
{
	size_t count = 0;

	for (const char *at = strstr(text, old); at; at = strstr(at + strlen(old), old))
		count++;
	return count;
}

static char *replaced(const char *text, const char *old, const char *new, size_t count)
{
	char *out = mem_zalloc(strlen(text) + count * strlen(new) + 1), *to = out;
	const char *at;

	while ((at = strstr(text, old))) {
		memcpy(to, text, (size_t)(at - text));
		to += at - text;
		memcpy(to, new, strlen(new));
		to += strlen(new);
		text = at + strlen(old);
	}
	memcpy(to, text, strlen(text));
	return out;
}

static int tool_edit(const struct tools_call *call, const json_t *arguments, struct buf *answer)
{
	const char *path = text_of(arguments, "path");
	const char *old = text_of(arguments, "old"), *new = text_of(arguments, "new");
	bool all = json_is_true(json_object_get(arguments, "all"));
	auto_free char *text = NULL;
	auto_free char *changed = NULL;
	size_t len = 0, count;

	if (!path || !old || !new)
		return lacks(answer, !path ? "path" : !old ? "old" : "new");
	if (load(call, path, &text, &len, answer) < 0)
		return -1;
	count = *old && strlen(text) == len ? count_of(text, old) : 0;
	if (count == 0 || (count > 1 && !all)) {
		(void)!buf_printf(answer, "error: 'old' is %zu times in %s%s", count, path,
		                  count > 1 ? ": give more of the text around it, or all"
		                  : strlen(text) != len ? ": it is not a text file"
		                                        : "");
		return -1;
	}
	changed = replaced(text, old, new, count);
	if (store(call, path, changed, strlen(changed), answer) < 0)
		return -1;
	(void)!buf_printf(answer, "replaced %zu in %s", count, path);
	return 0;
}

/* --- search --- */

struct search {
	const char *text;
	bool ignores_case;
	size_t matches;
	struct buf *answer;
	const struct tools_call *call;
};

static bool is_full(const struct search *search)
{
	return search->matches >= MATCHES_MOST || buf_room(search->answer) < 4096 ||
	       search->call->is_cancelled(search->call->ctx);
}

static void search_file(struct search *search, int fd, const char *path)
{
	struct stat st;
	auto_free char *text = NULL;
	char *line, *rest;
	size_t number = 0;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MOST)
		return;
	text = mem_zalloc((size_t)st.st_size + 1);
	if (io_read_full(fd, text, (size_t)st.st_size) < 0 ||
	    memchr(text, '\0', (size_t)st.st_size))
		return; /* what is no text is not searched */
	rest = text;
	while (!is_full(search) && (line = strsep(&rest, "\n"))) {
		number++;
		if (search->ignores_case ? !strcasestr(line, search->text)
		                         : !strstr(line, search->text))
			continue;
		search->matches++;
		(void)!buf_printf(search->answer, "%s:%zu:%.400s\n", path, number, line);
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH_MOST bounds it */
static void search_at(struct search *search, int dir_fd, const char *name, const char *path,
                      int depth)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!dir) {
		if (fd >= 0)
			search_file(search, fd, path);
		fd_closep(&fd);
		return;
	}
	while (depth < DEPTH_MOST && !is_full(search) && (entry = readdir(dir))) {
		auto_free char *below = NULL;

		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
		    str_eq(entry->d_name, ".git") || str_eq(entry->d_name, "node_modules"))
			continue;
		below = str_eq(path, ".") ? mem_strdup(entry->d_name)
		                          : mem_printf("%s/%s", path, entry->d_name);
		search_at(search, dirfd(dir), entry->d_name, below, depth + 1);
	}
	closedir(dir);
}

static int tool_search(const struct tools_call *call, const json_t *arguments, struct buf *answer)
{
	const char *path = text_of(arguments, "path");
	struct search search = {.text = text_of(arguments, "text"), .answer = answer, .call = call};
	auto_free char *full = full_path(call, path ? path : ".");

	if (!search.text || !*search.text)
		return lacks(answer, "text");
	search.ignores_case = json_is_true(json_object_get(arguments, "ignoreCase"));
	if (access(full, R_OK) < 0)
		return fail(answer, path ? path : ".", errno);
	search_at(&search, AT_FDCWD, full, path ? path : ".", 0);
	if (search.matches == 0)
		say(answer, "no match");
	else if (is_full(&search))
		say(answer, "(there may be more)");
	return 0;
}

/* --- the table --- */

static const struct tool tools[] = {
#define TOOL(function, name, kind, about, parameters)                                              \
	{name, kind, about, parameters, tool_##function},
#include "agent/tools.def"
#undef TOOL
};

const struct tool *tools_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
		if (str_eq(tools[i].name, name))
			return &tools[i];
	}
	return NULL;
}

json_t *tools_describe(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
		json_t *parameters = json_loads(tools[i].parameters, 0, NULL);

		must(parameters);
		json_array_append_new(list,
		                      json_pack("{s:s, s:{s:s, s:s, s:o}}", "type", "function",
		                                "function", "name", tools[i].name, "description",
		                                tools[i].about, "parameters", parameters));
	}
	return list;
}

char *tools_title(const struct tool *tool, const json_t *arguments)
{
	static const char *const names[] = {"command", "path", "text"};
	char shown[160];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *text = text_of(arguments, names[i]);

		if (!text)
			continue;
		str_escape(shown, sizeof(shown), text, strlen(text));
		return i == 0 ? mem_strdup(shown) : mem_printf("%s %s", tool->name, shown);
	}
	return mem_strdup(tool->name);
}
