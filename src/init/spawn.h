/*
 * The spawner: a child of init that stays in the `work` cgroup, so that every command is born under
 * the limits without being moved. Each S_EXEC gets a shim, forked for it or waiting already. A shim
 * is subreaper of its command, so that all descendants of an exec stay below it whatever they fork,
 * and a kill finds them all. It reports on a status socket of its own, which the command never
 * holds.
 */
#pragma once

#include "base/base.h"

struct walls;

/* Loop of the spawner process; ends when the keeper closes the socket. Walls that are not up go up
 * with the first message. is_parked: the sandbox is nobody's yet, and its walls are up. Mounts that
 * come in then end it, and another must take its place. birth: there is no root yet; from there
 * comes a byte when there is, which says is_parked. -1: there is. */
NORETURN void spawn_loop(int sock, struct walls *walls, bool is_parked, int birth);
