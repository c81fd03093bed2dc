#include "base/err.h"

#include <errno.h>
#include <stdarg.h>

static const struct {
	const char *name;
	int http;
	int cli;
} table[] = {
#define ERROR(code, name, http, cli) [ERR_##code] = {name, http, cli},
#include "base/errors.def"
#undef ERROR
};
static_assert(ARRAY_LEN(table) == ERR_COUNT_, "one row a code");

static enum err_code code_of_errno(int sys)
{
	switch (sys) {
	case ENOSPC:
	case EDQUOT:
		return ERR_NO_SPACE;
	case EMFILE:
	case ENFILE:
	case EAGAIN:
	case ENOMEM:
		return ERR_UNAVAILABLE;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	default:
		return ERR_IO;
	}
}

/* Cuts at the end of the message: half a reason is better than none. */
static void append(struct err *err, size_t used, const char *text)
{
	for (const char *piece = ": "; *piece && used < sizeof(err->msg) - 1; piece++)
		err->msg[used++] = *piece;
	size_t len = MIN(strlen(text), sizeof(err->msg) - 1 - used);
	memcpy(err->msg + used, text, len);
	err->msg[used + len] = 0;
}

int(err_set)(struct err *err, enum err_code code, const char *fmt, ...)
{
	if (!err)
		return -1;
	va_list va;
	va_start(va, fmt);
	err->code = code;
	err->sys = 0;
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, va); /* truncation is fine in a message */
	va_end(va);
	return -1;
}

/* Never translated, and never of a buffer that others write. */
static const char *describe(int sys)
{
#ifdef __GLIBC__
	const char *text = strerrordesc_np(sys);
	return text ? text : "unknown error";
#else
	return strerror(sys);
#endif
}

int(err_sys)(struct err *err, int sys, const char *fmt, ...)
{
	if (!err)
		return -1;
	va_list va;
	va_start(va, fmt);
	err->code = code_of_errno(sys);
	err->sys = sys;
	int n = vsnprintf(err->msg, sizeof(err->msg), fmt, va);
	va_end(va);
	size_t used = n < 0 ? 0 : MIN((size_t)n, sizeof(err->msg) - 1);
	append(err, used, describe(sys));
	return -1;
}

int(err_wrap)(struct err *err, const char *fmt, ...)
{
	if (!err)
		return -1;
	struct err inner = *err;
	va_list va;
	va_start(va, fmt);
	int n = vsnprintf(err->msg, sizeof(err->msg), fmt, va);
	va_end(va);
	size_t used = n < 0 ? 0 : MIN((size_t)n, sizeof(err->msg) - 1);
	append(err, used, inner.msg);
	return -1;
}

void err_also(struct err *err, const struct err *other)
{
	size_t used = strlen(err->msg), room = sizeof(err->msg) - used, len = strlen(other->msg);
	if (used == 0) {
		*err = *other;
		return;
	}
	if (len + 3 > room) { /* "; " and the end */
		const char *reason = strstr(other->msg, ": ");
		reason = reason ? strstr(reason + 2, ": ") : NULL;
		len = reason ? (size_t)(reason - other->msg) : len;
	}
	if (len + 3 <= room)
		(void)snprintf(err->msg + used, room, "; %.*s", (int)len, other->msg);
	else
		memcpy(err->msg + MIN(used, sizeof(err->msg) - 6), "; …", sizeof("; …"));
}

const char *err_name(enum err_code code)
{
	return table[code].name;
}

int err_http(enum err_code code)
{
	return table[code].http;
}

int err_exit(enum err_code code)
{
	return table[code].cli;
}

enum err_code err_from_number(uint64_t number)
{
	return number < ERR_COUNT_ ? (enum err_code)number : ERR_INTERNAL;
}
