/*
 * Zygotes: two small processes the broker forks before it has anything in memory, so that forking
 * from them is cheap and slow kernel work never waits on the broker's loop. A zygote takes one
 * message at a time and forks a child for it; fd 0 of every message is the socket on which the
 * child answers. They end when the broker does: their socket then reads end of file.
 *
 *   launch   children are keepers: they outlive everything
 *   tasks    children undo sandboxes, drive workers, remove layers, run checks: they die with the
 * zygote
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"
#include "wire/wire.h"

/* Runs in the child, which ends with the status returned. Takes the fds out of msg. */
typedef int (*zygote_fn)(struct wire_msg *msg, void *ctx);

struct zygote_role {
	const char *name;   /* "cloche:launch", at most 15 characters */
	bool outlives;      /* children are not killed when the zygote ends */
	void (*warm)(void); /* called once in the zygote; may be NULL */
	zygote_fn run;
	void *ctx;       /* read in the child: copied by fork */
	const int *keep; /* fds children need besides what messages carry */
	size_t keep_count;
};

struct zygote {
	const struct zygote_role *role;
	pid_t pid;
	int sock;
};

/* Forks. The role must stay valid. */
int zygote_start(struct zygote *zygote, const struct zygote_role *role, struct err *err) NODISCARD;
/* Ends it and waits. */
void zygote_stop(struct zygote *zygote);
/* Hands a message over; a zygote that died is started anew first. ERR_LIMITED when it is busy. */
int zygote_send(struct zygote *zygote, const struct wire_out *out, struct err *err) NODISCARD;
