/*
 * Pid 1 of a sandbox: reaps, signals, and holds the spawner. It listens only to its keeper (fd 3),
 * never to anything inside, is not dumpable, and has an id of its own where there is a range of
 * ids. When the keeper's socket closes it ends, and with it, by the kernel, everything inside.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum { INIT_CONTROL_FD = 3, INIT_SPAWN_FD = 4, INIT_UID = 60999, INIT_AGENT = 1000 };

/* What init and its spawner may, once they know. */
struct init_rights {
	uint32_t range_count;   /* of ids */
	uint64_t nofile, nproc; /* as struct slot has them */
	bool has_range;         /* more than the agent's id */
	bool waits;             /* to be claimed: mounts may still come in */
	bool has_root;          /* else it comes later */
};

/* How privileges go, to what runs inside; keeps fds 0 to 4 and one more. Done by whoever knows the
 * walls: given by main.c. */
typedef int (*init_drop)(const struct init_rights *rights, int keep_fd, struct err *err);

/* The role `cloche init`; returns the exit status. Starts with every privilege of whoever made the
 * namespaces, forks the spawner, and drops them as soon as it can: where there is a range of ids
 * before it has a root (I_DROP), else after (I_SLOT). */
int init_main(int argc, char **argv, init_drop drop);
