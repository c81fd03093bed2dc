/*
 * What every command inside inherits and can never take off: Landlock and the system call filter.
 * The filter is put up by init and the spawner before anything else, Landlock by the spawner alone,
 * for all it will ever fork: at once, or, in a sandbox made in advance, with the first message it
 * gets: mounts may still come in before that, and a rule holds for what is there when it is made.
 * Init itself, which runs no foreign code, stays outside of Landlock.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct walls {
	int ruleset; /* Landlock's rules, not yet in force; -1: none */
	bool is_up;
	int listener; /* of the filter, for refusals.h; -1: none. Owned by whoever takes it. */
};

/* The filter, now. Landlock waits for walls_close. */
int walls_put_up(struct walls *walls, struct err *err) NODISCARD;
/* Makes the rules that walls_close will need, if they cannot change before but by walls_forget;
 * what cannot be made now is made then. */
void walls_prepare(struct walls *walls);
/* Forgets what was writable before: walls_close looks again. */
void walls_forget(struct walls *walls);
/* Landlock, if it is not up. In the process that forks commands, before the first one. -errno. */
int walls_close(struct walls *walls) NODISCARD;
