/*
 * Users by name or number from the image's own /etc/passwd and /etc/group: hostile text, read with
 * bounds, no NSS. Runs inside the sandbox.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

struct account {
	uid_t uid;
	gid_t gid;
	char name[64];
	char home[256];
	char shell[256];
};

/* text is "agent", "1000", "1000:1000" or "name:group". ERR_INVALID names it. Unknown numbers are
 * allowed: home is then "/" and the shell /bin/sh. */
int account_find(const char *text, struct account *ret, struct err *err) NODISCARD;
