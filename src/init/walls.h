/*
 * What every command inside inherits and can never take off: Landlock and the system call filter.
 * The filter is put up by init and the spawner before anything else, Landlock by the spawner, for
 * all it will ever fork, and by the first shim, which is there before. A rule holds for what is
 * there when it is made: where mounts come in later, before the first command, another spawner
 * takes the place of the first. Init itself, which runs no foreign code, stays outside of Landlock.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

struct walls {
	bool is_up;
	int listener;    /* of the filter, for refusals.h; -1: none. Owned by whoever takes it. */
	bool is_bounded; /* the bounding set is empty already */
	bool has_before; /* a root this process stood in, which is none for commands */
	dev_t before_device;
	ino_t before_inode;
};

/* The filter, now. Landlock waits for walls_close. */
int walls_put_up(struct walls *walls, struct err *err) NODISCARD;
/* Of a process that has no root of its own yet: the one it stands in. -errno. */
int walls_remember_root(struct walls *walls) NODISCARD;
/* To init, which keeps it: the listener of this process's filter. -errno. */
int walls_hand_listener(struct walls *walls, int sock) NODISCARD;
/* Landlock, if it is not up. In the process that forks commands, before the first one. -errno;
 * -EXDEV: it still stands in the root it was to leave, and must not run anything. */
int walls_close(struct walls *walls) NODISCARD;
