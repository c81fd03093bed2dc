/*
 * Building a sandbox: an ordered table of steps, run by the keeper while it is still privileged.
 * A failed step names itself; what the steps before it made is undone by the broker's reap, the
 * same code that cleans up after a crash, so there is one clean-up path and faults test it.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"
#include "keeper/rootfs.h"
#include "keeper/slot.h"
#include "keeper/uplink.h"
#include "os/cgroup.h"

enum { LAUNCH_MECHANISMS = 16 };

struct launch {
	struct slot *slot;
	uint8_t *bytes;              /* room for a message, LIMIT_WIRE_BYTES; not owned */
	struct cgroup_layout layout; /* from keeper_warm */
	struct cgroup cgroup;
	struct cgroup_door work_door; /* kept: a new spawner is let in by it */
	bool is_real_root;            /* not root of a mere user namespace */
	int userns;
	int out_dir;              /* sandboxes/<id>/out, kept */
	int listener;             /* run/<id>.sock, kept */
	int control[2], spawn[2]; /* [0] ours, kept; [1] init's */
	struct rootfs rootfs;     /* its disk is kept, for meters */
	int guest;                /* the API inside, kept */
	int ruleset;              /* Landlock's, until it is entered */
	struct uplink uplink;     /* kept: what leaves comes here */
	bool has_dropped;         /* init and the spawner have no rights any more */
	pid_t init_pid, spawner_pid;
	int init_pidfd;
	struct disk_spec made;                  /* of a blank one: the disk it has */
	struct cgroup_limits made_limits;       /* and those it was made for */
	bool is_changed;                        /* it was blank, and made for others */
	char mechanisms[LAUNCH_MECHANISMS][64]; /* name=value, what is in force */
	size_t mechanism_count;
};

void launch_init(struct launch *launch, struct slot *slot, const struct cgroup_layout *layout,
                 uint8_t *bytes);
void launch_done(struct launch *launch);
/* The steps that need no image: processes, namespaces, cgroups, disk. May lie there for long. */
int launch_ground(struct launch *launch, struct err *err) NODISCARD;
/* Waits for what a blank one shall be. False: nobody wants it any more. */
bool launch_await(struct launch *launch, struct err *err) NODISCARD;
/* The other steps: builds its root; on success the caller is unprivileged. */
int launch_finish(struct launch *launch, struct err *err) NODISCARD;
/* Waits for init; on success the workload may start. */
int launch_ready(struct launch *launch, struct err *err) NODISCARD;
