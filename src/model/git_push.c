#include "model/git_push.h"

#include "base/str.h"

enum { HEAD = 4, SHA1_HEX = 40, SHA256_HEX = 64 };

static int digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Of a pkt-line, its four digits included; -1: these are none. */
static int line_length(const uint8_t *bytes)
{
	int length = 0;

	for (size_t i = 0; i < HEAD; i++) {
		int value = digit(bytes[i]);

		if (value < 0)
			return -1;
		length = length * 16 + value;
	}
	return length;
}

/* Digits and a blank; 0: something else. */
static size_t object_length(const char *text, size_t len)
{
	size_t digits = 0;

	while (digits < len && digit((uint8_t)text[digits]) >= 0)
		digits++;
	if ((digits != SHA1_HEX && digits != SHA256_HEX) || digits == len || text[digits] != ' ')
		return 0;
	return digits + 1;
}

static bool begins(const char *text, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

static int refuse_form(struct err *err)
{
	return err_set(err, ERR_INVALID, "this is no push: its list of references is malformed");
}

/* "OLD NEW REFERENCE", then perhaps a NUL and what the client can, then perhaps a newline. */
static int check_line(const char *line, size_t len, const char *branch, struct err *err)
{
	size_t old = object_length(line, len);
	size_t new = old > 0 ? object_length(line + old, len - old) : 0;
	const char *name = line + old + new;
	size_t name_len = strnlen(name, len - old - new);
	char shown[120];

	if (begins(line, len, "shallow "))
		return 0;
	if (begins(line, len, "push-cert"))
		return err_set(err, ERR_FORBIDDEN, "signed pushes are not passed on");
	if (new == 0)
		return refuse_form(err);
	if (name_len > 0 && name[name_len - 1] == '\n')
		name_len--;
	if (begins(name, name_len, "refs/heads/") &&
	    strlen(branch) == name_len - strlen("refs/heads/") &&
	    memcmp(name + strlen("refs/heads/"), branch, strlen(branch)) == 0)
		return 0;
	str_escape(shown, sizeof(shown), name, name_len);
	return err_set(err, ERR_FORBIDDEN,
	               "this run pushes to its branch '%.80s' and to nothing else, not to %s",
	               branch, shown);
}

int git_push_read(const uint8_t *bytes, size_t len, const char *branch, struct err *err)
{
	size_t at = 0;

	while (len - at >= HEAD) {
		int length = line_length(bytes + at);

		if (length == 0)
			return 1;
		if (length <= HEAD)
			return refuse_form(err);
		if ((size_t)length > len - at)
			break;
		if (check_line((const char *)bytes + at + HEAD, (size_t)length - HEAD, branch,
		               err) < 0)
			return -1;
		at += (size_t)length;
	}
	if (len >= GIT_PUSH_LIST)
		return err_set(err, ERR_INVALID, "a push names too many references at once");
	return 0;
}
