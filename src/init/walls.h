/*
 * What every command inside inherits and can never take off: Landlock and the system call filter.
 * The filter is put up by init and the spawner before anything else, Landlock by the spawner alone,
 * for all it will ever fork. A rule holds for what is there when it is made: where mounts come in
 * later, before the first command, another spawner takes the place of the first. Init itself, which
 * runs no foreign code, stays outside of Landlock.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct walls {
	bool is_up;
	int listener;    /* of the filter, for refusals.h; -1: none. Owned by whoever takes it. */
	bool is_bounded; /* the bounding set is empty already */
};

/* The filter, now. Landlock waits for walls_close. */
int walls_put_up(struct walls *walls, struct err *err) NODISCARD;
/* Landlock, if it is not up. In the process that forks commands, before the first one. -errno. */
int walls_close(struct walls *walls) NODISCARD;
