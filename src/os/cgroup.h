/*
 * Control groups, v1 and v2 behind one set of words. A machine has either one v2 hierarchy or a
 * set of v1 hierarchies (each controller in its own, or some together); cgroup_detect reads
 * /proc/self/mountinfo-like text and decides. Groups live below <own cgroup or root>/cloche/.
 * -errno; never logs. `root` paths can be a fake tree in unit tests.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

enum cgroup_controller {
	CGROUP_MEMORY,
	CGROUP_CPU,
	CGROUP_CPUACCT,
	CGROUP_PIDS,
	CGROUP_FREEZER,
	CGROUP_CONTROLLERS_
};

struct cgroup_layout {
	int version; /* 1, 2, or 0: none usable */
	/* v2: only [0] is used. v1: mount point + our parent group for each controller; "" if
	 * absent. Two controllers mounted together have the same path. */
	char base[CGROUP_CONTROLLERS_][256];
	bool has[CGROUP_CONTROLLERS_];
};

/* From /proc/self/mountinfo and /proc/self/cgroup (or the texts given, for tests). Chooses where a
 * folder `cloche` can be made: on v1 the hierarchy's root or own group, on v2 the delegated own
 * group. */
int cgroup_detect(struct cgroup_layout *ret) NODISCARD;
int cgroup_detect_from(const char *mountinfo, const char *self_cgroup, const char *prefix,
                       struct cgroup_layout *ret) NODISCARD;

struct cgroup_limits {
	uint64_t memory;    /* bytes; UINT64_MAX = none. Swap is forbidden where the kernel can. */
	uint64_t cpu_milli; /* UINT64_MAX = none */
	uint64_t pids;      /* UINT64_MAX = none. Of all three 0 = leave it as it is. */
};

/* OWN: keeper and init. */
enum cgroup_part { CGROUP_TOP, CGROUP_OWN, CGROUP_WORK, CGROUP_PARTS_ };

/* v2 only (0 and nothing done on v1): moves the caller, and what else sits in the layout's own
 * delegated group, to the leaf cloche/broker, and hands the controllers on to cloche/. Call once at
 * the broker's start, before any child. */
int cgroup_enter_leaf(const struct cgroup_layout *layout) NODISCARD;
/* v1 only (0 and nothing done on v2): moves the caller, and so whoever it will give birth to, into
 * cloche/ itself, where keepers and inits stay. */
int cgroup_enter_folder(const struct cgroup_layout *layout) NODISCARD;

/* Directory fds of one sandbox: [controller][part]; on v2 all controllers share the same fds ([0]),
 * on v1 most controllers have work only. */
struct cgroup {
	int version;
	int dir[CGROUP_CONTROLLERS_][CGROUP_PARTS_];
};

void cgroup_init(struct cgroup *cgroup); /* all -1 */
void cgroup_done(struct cgroup *cgroup); /* closes */
/* Makes cloche/<name> with its parts, writes limits to `work` (memory, pids, cpu) and, on v2, small
 * fixed ones to `own`; opens the dirs; gives the files the keeper needs later (to freeze) to
 * keeper_uid, unless that is (uid_t)-1. Idempotent.
 * With layout version 0 there are no groups: *ret is empty, and attach, limits and remove on it do
 * nothing; the caller decides whether it may start so. */
int cgroup_create(const struct cgroup_layout *layout, const char *name,
                  const struct cgroup_limits *limits, uid_t keeper_uid,
                  struct cgroup *ret) NODISCARD;
/* Opens what exists of a sandbox's groups; parts that are missing are -1. */
int cgroup_open(const struct cgroup_layout *layout, const char *name, struct cgroup *ret) NODISCARD;
/* As cgroup_open, one part only. */
int cgroup_open_part(const struct cgroup_layout *layout, const char *name, enum cgroup_part part,
                     struct cgroup *ret) NODISCARD;
/* Of the work part. */
int cgroup_set_limits(const struct cgroup *cgroup, const struct cgroup_limits *limits) NODISCARD;
/* Moves a process (0 = self) in every hierarchy that has the part. May wait for an RCU period (10
 * ms) on v1. */
int cgroup_attach(const struct cgroup *cgroup, enum cgroup_part part, pid_t pid) NODISCARD;
/* The door of a part, opened now for a process that will have no rights: whoever holds it can move
 * processes in with cgroup_attach_by. It is opened as `owner` (the caller is root, or owner
 * itself), to whom the files are given: the kernel then lets only processes of that uid (v1) or of
 * this sandbox's own groups (v2) through, not every process of the machine. Closed doors are -1. */
struct cgroup_door {
	int procs[CGROUP_CONTROLLERS_];
};
int cgroup_open_door(const struct cgroup *cgroup, enum cgroup_part part, uid_t owner,
                     struct cgroup_door *ret) NODISCARD;
void cgroup_close_door(struct cgroup_door *door);
int cgroup_attach_by(const struct cgroup_door *door, pid_t pid) NODISCARD;
/* v2: the fd for CLONE_INTO_CGROUP; -1 on v1. */
int cgroup_clone_fd(const struct cgroup *cgroup, enum cgroup_part part);
/* Waits until everything is frozen (-ETIMEDOUT: it stays on its way there). -EOPNOTSUPP without a
 * freezer. */
int cgroup_freeze(const struct cgroup *cgroup, enum cgroup_part part, bool on,
                  int timeout_ms) NODISCARD;
/* SIGKILL to everything below the group (all parts), repeated until empty or timeout. Needs rights
 * on the processes (v1) or on cgroup.kill (v2). Never from inside the group. -ETIMEDOUT. The group
 * is of no use afterwards: on v1 it may no longer fork. */
int cgroup_kill(const struct cgroup_layout *layout, const char *name, int timeout_ms) NODISCARD;
/* The halves of cgroup_remove: all but what counts memory, which says whether processes are inside,
 * and then that. Pages of files that go too are best gone before the second half, which else has to
 * look for them. */
int cgroup_vacate(const struct cgroup_layout *layout, const char *name) NODISCARD;
int cgroup_remove_memory(const struct cgroup_layout *layout, const char *name) NODISCARD;
/* rmdir of all parts in all hierarchies; missing ones are fine. -EBUSY while processes are inside.
 */
int cgroup_remove(const struct cgroup_layout *layout, const char *name) NODISCARD;
/* Calls fn for each sandbox folder below cloche/ in any hierarchy (names repeat). */
int cgroup_each(const struct cgroup_layout *layout, void (*fn)(const char *name, void *ctx),
                void *ctx);

struct cgroup_usage {
	uint64_t cpu_us;
	uint64_t memory;
	uint64_t memory_peak;
	uint64_t pids;
	uint64_t oom_kills;
	uint64_t pids_denied;
};
/* From the work part; absent controllers leave zeros. */
int cgroup_read(const struct cgroup *cgroup, struct cgroup_usage *ret) NODISCARD;
