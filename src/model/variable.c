#include "model/variable.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/entry.h"

static const struct {
	const char *name;
	bool is_reserved;
	const char *why;
} refused[] = {
#define RESERVED(name, why) {name, true, why},
#define BLOCKED(name, why)  {name, false, why},
#include "model/variables.def"
#undef RESERVED
#undef BLOCKED
};

static bool is_meant(const char *pattern, const char *name)
{
	size_t len = strlen(pattern);

	if (pattern[len - 1] == '*')
		return strncmp(pattern, name, len - 1) == 0;
	return str_eq(pattern, name);
}

int variable_check_name(const char *name, struct err *err)
{
	char shown[64];

	str_escape(shown, sizeof(shown), name, strlen(name));
	if (!entry_is_env_name(name))
		return err_set(err, ERR_INVALID,
		               "variable '%s': a name is letters, digits and _, and does not start "
		               "with a digit",
		               shown);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		if (is_meant(refused[i].name, name))
			return err_set(err, ERR_INVALID, "variable '%s' is %s: %s", shown,
			               refused[i].is_reserved ? "reserved" : "not possible",
			               refused[i].why);
	}
	return 0;
}

int variable_check_list(const struct strings *list, struct err *err)
{
	size_t bytes = 0;

	if (list->count > VARIABLE_MOST)
		return err_set(err, ERR_INVALID, "%zu variables are more than %d", list->count,
		               VARIABLE_MOST);
	for (size_t i = 0; i < list->count; i++) {
		auto_free char *name = mem_strndup(list->items[i], strcspn(list->items[i], "="));

		if (variable_check_name(name, err) < 0)
			return -1;
		bytes += strlen(list->items[i]) + 1;
	}
	if (bytes > VARIABLE_BYTES)
		return err_set(err, ERR_TOO_LARGE, "the variables have more than %d bytes",
		               VARIABLE_BYTES);
	return 0;
}
