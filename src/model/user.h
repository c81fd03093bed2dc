/*
 * Who a command runs as inside a sandbox: "name", "uid" or "uid:gid". Names are looked up inside,
 * so here they are only checked for shape.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum {
	USER_AGENT = 1000,     /* the default user inside, uid and gid */
	USER_RESERVED = 60999, /* init's own uid: nobody else may be it */
	USER_MAX = 65534,      /* a range has 65536 ids; the last one means "none" to the kernel */
};

struct user_ref {
	char name[33]; /* "" when given by number */
	uint32_t uid;  /* valid when name is "" */
	uint32_t gid;  /* valid when has_gid */
	bool has_gid;
};

/* ERR_INVALID says which form is expected. */
int user_parse(const char *text, struct user_ref *ret, struct err *err) NODISCARD;
