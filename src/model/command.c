#include "model/command.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/jsonschema.h"

/* First words of the command line, and what may become one. A test compares them with it. */
static const char *const taken[] = {
#define NOUN(word) word,
#include "model/command_nouns.def"
#undef NOUN
};

struct command *command_ref(struct command *command)
{
	command->refs++;
	return command;
}

void command_unref(struct command *command)
{
	if (!command || --command->refs > 0)
		return;
	free(command->file);
	free(command->noun);
	free(command->verb);
	free(command->tool);
	free(command->about);
	free(command->scope);
	free(command->schema_text);
	jsonschema_free(command->schema);
	strings_done(&command->properties);
	service_free(command->service);
	free(command->method);
	free(command->target);
	strings_done(&command->query);
	strings_done(&command->argv);
	free(command->user);
	free(command);
}

void command_unrefp(struct command **command)
{
	command_unref(*command);
	*command = NULL;
}

static bool is_of(const char *text, const char *letters)
{
	size_t len = strspn(text, letters);

	return len > 0 && len <= COMMAND_WORD && text[len] == '\0' && text[0] >= 'a' &&
	       text[0] <= 'z' && text[len - 1] != '-';
}

bool command_is_noun(const char *text)
{
	return is_of(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
}

bool command_is_verb(const char *text)
{
	return is_of(text, "abcdefghijklmnopqrstuvwxyz0123456789-_");
}

bool command_is_taken(const char *noun)
{
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		if (str_eq(taken[i], noun))
			return true;
	}
	return false;
}

bool command_is_file(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                          "0123456789._-");

	return len > 5 && len <= 128 && name[len] == '\0' && name[0] != '.' && name[0] != '-' &&
	       str_has_suffix(name, ".toml");
}

int command_compile(struct command *command, struct err *err)
{
	if (jsonschema_compile(command->schema_text, strlen(command->schema_text), NULL,
	                       &command->schema, err) == 0)
		return 0;
	err->code = ERR_CONFIG;
	return err_wrap(err, "%s: [arguments]", command->file);
}

/* --- filling in --- */

/* The length of a "{name}" that begins here; 0: none does. */
static size_t slot_len(const char *at)
{
	size_t len;

	if (*at != '{')
		return 0;
	len = strspn(at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
	return len > 0 && at[1 + len] == '}' ? len + 2 : 0;
}

/* The index-th value of the name in a slot; NULL: it has no more. */
static const char *value_of(const struct strings *values, const char *slot, size_t len,
                            size_t index)
{
	for (size_t i = 0; i < values->count; i++) {
		const char *item = values->items[i];

		if (strncmp(item, slot + 1, len - 2) != 0 || item[len - 2] != '=')
			continue;
		if (index-- == 0)
			return item + len - 1;
	}
	return NULL;
}

static int refuse_several(const char *slot, size_t len, struct err *err)
{
	return err_set(err, ERR_INVALID, "argument '%.*s' must have one value", (int)len - 2,
	               slot + 1);
}

static void put_encoded(struct buf *buf, const char *value)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-._~";

	for (; *value; value++) {
		if (strchr(plain, *value))
			(void)!buf_put(buf, value, 1); /* its end is looked at */
		else
			(void)!buf_printf(buf, "%%%02X", (unsigned char)*value);
	}
}

/* The text with its slots filled in. 1; 0: one has no value; -1: refused. */
static int fill(const char *text, const struct strings *values, bool encodes, struct buf *buf,
                struct err *err)
{
	while (*text) {
		size_t len = slot_len(text);
		const char *value = len ? value_of(values, text, len, 0) : NULL;

		if (len && !value)
			return 0;
		if (len && value_of(values, text, len, 1))
			return refuse_several(text, len, err);
		if (value && encodes)
			put_encoded(buf, value);
		else
			(void)!buf_put(buf, value ? value : text, value ? strlen(value) : 1);
		text += len ? len : 1;
	}
	/* Room is left for what did not fit: then it is too long. */
	return buf_room(buf) < 64 ? err_set(err, ERR_TOO_LARGE, "the arguments are too long") : 1;
}

static int fill_text(const char *text, const struct strings *values, bool encodes, char **ret,
                     struct err *err)
{
	struct buf buf;
	int r;

	buf_init(&buf, 4 * COMMAND_ARGUMENTS);
	r = fill(text, values, encodes, &buf, err);
	if (r == 1)
		*ret = buf_take_string(&buf);
	buf_done(&buf);
	return r;
}

static int refuse_option(const char *slot, size_t len, struct err *err)
{
	return err_set(err, ERR_INVALID,
	               "argument '%.*s' must not begin with '-': the program would take it for an "
	               "option",
	               (int)len - 2, slot + 1);
}

/* A word that is one slot: as many words as there are values. */
static int add_values(const char *slot, size_t len, const struct strings *values, bool is_safe,
                      struct strings *ret, struct err *err)
{
	const char *value;

	for (size_t i = 0; (value = value_of(values, slot, len, i)); i++) {
		if (*value == '-' && !is_safe)
			return refuse_option(slot, len, err);
		strings_add(ret, value);
	}
	return 0;
}

static int add_word(const char *word, const struct strings *values, bool is_safe,
                    struct strings *ret, struct err *err)
{
	size_t len = slot_len(word);
	char *text = NULL;
	int r;

	if (len && !word[len])
		return add_values(word, len, values, is_safe, ret, err);
	r = fill_text(word, values, false, &text, err);
	if (r <= 0)
		return r;
	must(text);
	strings_take(ret, text);
	return len && *text == '-' && !is_safe ? refuse_option(word, len, err) : 0;
}

int command_argv(const struct command *command, const struct strings *values, struct strings *ret,
                 struct err *err)
{
	bool is_safe = false;
	size_t bytes = 0;

	for (size_t i = 0; i < command->argv.count; i++) {
		const char *word = command->argv.items[i];

		if (add_word(word, values, is_safe, ret, err) < 0)
			return -1;
		is_safe = is_safe || str_eq(word, "--");
	}
	for (size_t i = 0; i < ret->count; i++)
		bytes += strlen(ret->items[i]) + 1;
	if (bytes > COMMAND_ARGUMENTS)
		return err_set(err, ERR_TOO_LARGE, "the arguments are too long");
	return 0;
}

/* What means another place to a server must not come from a value. */
static int check_segments(const char *path, struct err *err)
{
	for (const char *at = path; *at == '/';) {
		size_t len = strcspn(++at, "/");

		if ((len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.') ||
		    (len == 0 && (at[0] == '/' || at != path + 1)))
			return err_set(err, ERR_INVALID,
			               "an argument in the path is empty, '.' or '..'");
		at += len;
	}
	return 0;
}

int command_target(const struct command *command, const struct strings *values, char **ret,
                   struct err *err)
{
	auto_free char *target = NULL;
	bool has_query = false;
	int r = fill_text(command->target, values, true, &target, err);

	if (r == 0)
		return err_set(err, ERR_INVALID, "an argument that stands in the path is missing");
	if (r < 0)
		return -1;
	must(target);
	if (check_segments(target, err) < 0)
		return -1;
	for (size_t i = 0; i < command->query.count; i++) {
		auto_free char *part = NULL;
		char *longer;

		r = fill_text(command->query.items[i], values, true, &part, err);
		if (r < 0)
			return -1;
		if (r == 0)
			continue;
		longer = mem_printf("%s%c%s", target, has_query ? '&' : '?', part);
		free(target);
		target = longer;
		has_query = true;
	}
	*ret = take_ptr(target);
	return 0;
}

static bool text_uses(const char *text, const char *name)
{
	for (; *text; text++) {
		size_t len = slot_len(text);

		if (len && strlen(name) == len - 2 && strncmp(text + 1, name, len - 2) == 0)
			return true;
	}
	return false;
}

bool command_uses(const struct command *command, const char *name)
{
	bool found = command->target && text_uses(command->target, name);

	for (size_t i = 0; i < command->query.count && !found; i++)
		found = text_uses(command->query.items[i], name);
	for (size_t i = 0; i < command->argv.count && !found; i++)
		found = text_uses(command->argv.items[i], name);
	return found;
}
