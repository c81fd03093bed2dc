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
	char msg[240];
};

/* Fill *err (when not NULL) and return -1, so that `return err_set(...)` reads well. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF(3, 4);
/* As err_set with "…: strerror"; the code is derived from sys (ENOENT is still ERR_IO: a missing
 * file of ours must never become a 404). `sys` is a positive errno. */
int err_sys(struct err *err, int sys, const char *fmt, ...) PRINTF(3, 4);
/* Put "context: " before what is already there; keeps code and errno. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF(2, 3);

const char *err_name(enum err_code code);
int err_http(enum err_code code);
int err_exit(enum err_code code);
/* ERR_INTERNAL for a number this build does not know. */
enum err_code err_from_number(uint64_t number);
