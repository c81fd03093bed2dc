#include "model/user.h"

#include "base/str.h"

static bool is_account_name(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > sizeof(((struct user_ref *)0)->name) - 1)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		bool letter = (c >= 'a' && c <= 'z') || c == '_';
		bool other = (c >= '0' && c <= '9') || c == '-' || c == '.';

		if (!letter && (i == 0 || !other))
			return false;
	}
	return true;
}

static int parse_id(const char *what, const char *text, uint32_t *ret, struct err *err)
{
	uint64_t id;

	if (str_to_u64(text, &id) < 0 || id > USER_MAX)
		return err_set(err, ERR_INVALID, "user: %s '%.32s' is not a number from 0 to %d",
		               what, text, USER_MAX);
	if (id == USER_RESERVED)
		return err_set(err, ERR_INVALID, "user: %s %d is reserved for the sandbox's init",
		               what, USER_RESERVED);
	*ret = (uint32_t)id;
	return 0;
}

static int parse_numbers(const char *text, struct user_ref *user, struct err *err)
{
	size_t len = strcspn(text, ":");
	char uid[16];

	snprintf(uid, sizeof(uid), "%.*s", (int)MIN(len, sizeof(uid)), text);
	if (parse_id("uid", uid, &user->uid, err) < 0)
		return -1;
	user->has_gid = text[len] == ':';
	return user->has_gid ? parse_id("gid", text + len + 1, &user->gid, err) : 0;
}

int user_parse(const char *text, struct user_ref *ret, struct err *err)
{
	struct user_ref user = {0};
	char shown[64];

	if (text[0] >= '0' && text[0] <= '9') {
		if (parse_numbers(text, &user, err) < 0)
			return -1;
	} else if (is_account_name(text)) {
		snprintf(user.name, sizeof(user.name), "%s", text);
	} else {
		str_escape(shown, sizeof(shown), text, strlen(text));
		return err_set(err, ERR_INVALID,
		               "user '%s' is neither a name, nor uid, nor uid:gid", shown);
	}
	*ret = user;
	return 0;
}
