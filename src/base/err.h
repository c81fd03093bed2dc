/*
 * struct err: why something failed, as a value. Caller-owned, zero-initialised, filled by the
 * callee, wrapped on the way up. No allocation: usable between clone and exec, and it can cross
 * a socket as three fields.
 *
 * base/ and os/ return -errno and take no err; everything above takes `struct err *err` last.
 */
#pragma once

#include "base/base.h"

enum err_code {
#define ERROR(code, name, http, cli) ERR_##code,
#include "base/errors.def"
#undef ERROR
	ERR_COUNT_
};

struct err {
	enum err_code code;
	int sys; /* errno where there was one, else 0 */
	char msg[480];
};

/* Fill *err (when not NULL) and return -1, so that `return err_set(...)` reads well. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF(3, 4);
/* As err_set with "…: strerror"; the code is derived from sys (ENOENT is still ERR_IO: a missing
 * file of ours must never become a 404). `sys` is a positive errno. */
int err_sys(struct err *err, int sys, const char *fmt, ...) PRINTF(3, 4);
/* Put "context: " before what is already there; keeps code and errno. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF(2, 3);

/* Lets a reader that sees one source file at a time, clang-tidy, know that these never return
 * anything else; otherwise it follows every failure as if it might have been a success. */
static inline int err_failed(int r)
{
	if (r != -1)
		__builtin_unreachable();
	return -1;
}

#define err_set(...)  err_failed(err_set(__VA_ARGS__))
#define err_sys(...)  err_failed(err_sys(__VA_ARGS__))
#define err_wrap(...) err_failed(err_wrap(__VA_ARGS__))

/* Another one beside the first: "first; other". If there is none yet, it is the first. Where the
 * reason of the other does not fit, what it is about does. */
void err_also(struct err *err, const struct err *other);

const char *err_name(enum err_code code);
int err_http(enum err_code code);
int err_exit(enum err_code code);
/* ERR_INTERNAL for a number this build does not know. */
enum err_code err_from_number(uint64_t number);
