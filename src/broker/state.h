/*
 * The state directory: where it is, that it is ours alone, and the folders in it. Used by the
 * broker before it starts anything and by `cloche stop` when no broker answers. Paths are
 * resolved once; everything after goes through the directory fds kept here.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

struct state {
	char *path; /* absolute, without symlinks */
	int dir_fd;
	int run_fd;       /* sockets of keepers and of the broker */
	int layers_fd;    /* <layer id>/tree */
	int sandboxes_fd; /* <sandbox id>/ */
	int lock_fd;      /* holds the flock; never inherited by a child that outlives the broker */
};

struct state_owner {
	uid_t uid; /* cloched's user and group, as this process sees them */
	gid_t gid;
	bool is_alone; /* rootless: one user owns everything, so nothing is opened to a group */
};

void state_init(struct state *state);
void state_done(struct state *state);

/* What --state, CLOCHE_STATE, the user and the XDG rules say; NULL `option` = not given. The
 * caller frees. */
char *state_path(const char *option) NODISCARD;
/* Opens (and with `make` makes) the directory. Refuses one that belongs to somebody else or that
 * everybody may write. */
int state_open(struct state *state, const char *path, bool make, struct err *err) NODISCARD;
/* Takes the lock and writes our pid into it. ERR_CONFLICT names the pid that holds it. */
int state_lock(struct state *state, struct err *err) NODISCARD;
/* Makes what is missing and puts right modes and owners of our own folders; opens them.
 * Idempotent. */
int state_prepare(struct state *state, const struct state_owner *owner, struct err *err) NODISCARD;
/* Opens the folders without changing any. ERR_NOT_FOUND when nothing was ever served here. */
int state_open_dirs(struct state *state, struct err *err) NODISCARD;
/* A mount namespace of our own in which the state directory is nosuid, nodev. Mounts made on the
 * host later still arrive, ours never go out. Reopens the directory on that mount. */
int state_confine(struct state *state, struct err *err) NODISCARD;
