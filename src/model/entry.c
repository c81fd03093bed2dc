#include "model/entry.h"

#include "base/limits.h"
#include "base/str.h"

enum { ENV_NAME_LEN = 255, LABEL_KEY_LEN = 63, LABEL_VALUE_LEN = 255 };

/* <ctype.h> asks the locale; names here are ASCII whatever the locale says. */
static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_env_name(const char *name, size_t len)
{
	if (len == 0 || len > ENV_NAME_LEN || !is_letter(name[0]))
		return false;
	for (size_t i = 1; i < len; i++) {
		if (!is_letter(name[i]) && !is_digit(name[i]))
			return false;
	}
	return true;
}

bool entry_is_env_name(const char *name)
{
	return is_env_name(name, strlen(name));
}

int entry_check_env(const char *entry, struct err *err)
{
	const char *equals = strchr(entry, '=');
	size_t len = equals != NULL ? (size_t)(equals - entry) : strlen(entry);
	char shown[64];

	str_escape(shown, sizeof(shown), entry, MIN(len, sizeof(shown)));
	if (!is_env_name(entry, len))
		return err_set(err, ERR_INVALID,
		               "environment variable '%s': a name is letters, digits and _, and "
		               "does not start with a digit",
		               shown);
	if (equals == NULL)
		return err_set(err, ERR_INVALID,
		               "environment variable '%s' has no value: write "
		               "%s=value",
		               shown, shown);
	return 0;
}

static bool is_label_edge(char c)
{
	return (c >= 'a' && c <= 'z') || is_digit(c);
}

static bool is_label_mark(char c)
{
	return c == '.' || c == '_' || c == '/' || c == '-';
}

static bool is_label_key(const char *key, size_t len)
{
	if (len == 0 || len > LABEL_KEY_LEN || !is_label_edge(key[0]) ||
	    !is_label_edge(key[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_label_edge(key[i]) && !is_label_mark(key[i]))
			return false;
	}
	return true;
}

static bool is_label_value(const char *value)
{
	size_t len = strlen(value);

	if (len > LABEL_VALUE_LEN || !str_is_utf8(value, len))
		return false;
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
			return false;
	}
	return true;
}

int entry_check_label(const char *entry, struct err *err)
{
	const char *equals = strchr(entry, '=');
	char shown[64];

	str_escape(shown, sizeof(shown), entry, MIN(strlen(entry), sizeof(shown)));
	if (equals == NULL)
		return err_set(err, ERR_INVALID, "label '%s' has no value: write key=value", shown);
	if (!is_label_key(entry, (size_t)(equals - entry)))
		return err_set(err, ERR_INVALID,
		               "label '%s': a key is at most %d of a-z 0-9 . _ / - and starts and "
		               "ends with a letter or digit",
		               shown, LABEL_KEY_LEN);
	if (!is_label_value(equals + 1))
		return err_set(err, ERR_INVALID,
		               "label '%s': a value is at most %d bytes of text without control "
		               "characters",
		               shown, LABEL_VALUE_LEN);
	return 0;
}

/* Whether an earlier entry has the same key as entry `at`; both contain '='. */
static bool is_repeated(const struct strings *list, size_t at)
{
	size_t len = (size_t)(strchr(list->items[at], '=') - list->items[at]) + 1;

	for (size_t i = 0; i < at; i++) {
		if (strncmp(list->items[i], list->items[at], len) == 0)
			return true;
	}
	return false;
}

static int check_repeated(const char *what, const struct strings *list, size_t at, struct err *err)
{
	const char *entry = list->items[at];

	if (!is_repeated(list, at))
		return 0;
	return err_set(err, ERR_INVALID, "%s '%.*s' is given twice", what,
	               (int)(strchr(entry, '=') - entry), entry);
}

int entry_check_env_list(const struct strings *env, struct err *err)
{
	size_t bytes = 0;

	if (env->count > LIMIT_ENV)
		return err_set(err, ERR_INVALID, "%zu environment variables are more than %d",
		               env->count, LIMIT_ENV);
	for (size_t i = 0; i < env->count; i++) {
		if (entry_check_env(env->items[i], err) < 0 ||
		    check_repeated("environment variable", env, i, err) < 0)
			return -1;
		bytes += strlen(env->items[i]) + 1;
	}
	if (bytes > LIMIT_ARGV_BYTES)
		return err_set(err, ERR_TOO_LARGE, "the environment has %zu bytes, more than %d",
		               bytes, LIMIT_ARGV_BYTES);
	return 0;
}

int entry_check_label_list(const struct strings *labels, struct err *err)
{
	if (labels->count > LIMIT_LABELS)
		return err_set(err, ERR_INVALID, "%zu labels are more than %d", labels->count,
		               LIMIT_LABELS);
	for (size_t i = 0; i < labels->count; i++) {
		if (entry_check_label(labels->items[i], err) < 0 ||
		    check_repeated("label", labels, i, err) < 0)
			return -1;
	}
	return 0;
}
