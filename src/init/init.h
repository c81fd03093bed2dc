/*
 * Pid 1 of a sandbox: reaps, signals, and holds the spawner. It listens only to its keeper (fd 3),
 * never to anything inside, is not dumpable, and has an id of its own where there is a range of
 * ids. When the keeper's socket closes it ends, and with it, by the kernel, everything inside.
 */
#pragma once

#include "base/base.h"

enum { INIT_CONTROL_FD = 3, INIT_SPAWN_FD = 4, INIT_UID = 60999 };

/* Second argument of one that waits to be claimed: mounts may still come in. */
#define INIT_PARKED "parked"

/* The role `cloche init`; returns the exit status. */
int init_main(int argc, char **argv);
