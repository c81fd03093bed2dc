/*
 * Starting cloched: as the daemon's user, without any privilege, with exactly the descriptors it is
 * told about. Called by the broker when it is root, and by the starter (rootless.c) otherwise.
 *
 *   0 /dev/null   1, 2 our stderr   3 wire to the broker   4 the listening API socket   6 the one
 * on TCP, if there is one
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

struct spawn {
	int cloched_fd;
	int wire_fd;
	int api_fd;
	int tcp_fd;   /* given as fd 6; -1: none */
	int state_fd; /* given as fd 5 when the path cannot be walked by the daemon's user */
	const char *state_path;
	const char *log_level; /* NULL: what config.toml says */
	bool change_user;      /* to uid and gid below; else it stays who we are */
	uid_t uid;
	gid_t gid;
};

/* All fds stay the caller's. */
int spawn_cloched(const struct spawn *spawn, pid_t *ret_pid, struct err *err) NODISCARD;
