/* What cgroup.c, cgroup_detect.c, cgroup_v1.c and cgroup_v2.c share. Nobody else includes this. */
#pragma once

#include "os/cgroup.h"

#define CGROUP_FOLDER "cloche"
/* v2 allows no process in a group that hands controllers on: the broker lives in this leaf. */
#define CGROUP_LEAF "broker"
/* For our own processes: far above what they need, far below what hurts. */
#define CGROUP_OWN_MEMORY (UINT64_C(256) << 20)

/* One hierarchy version. Every function takes an opened group; parts that are not there (-1) are
 * skipped. */
struct cgroup_ops {
	/* Makes a group ready to have children: dir is <base>, cloche/ or cloche/<name>. */
	int (*enable)(int dir);
	int (*set_limits)(const struct cgroup *cgroup, enum cgroup_part part,
	                  const struct cgroup_limits *limits);
	int (*freeze)(const struct cgroup *cgroup, enum cgroup_part part, bool on);
	int (*is_frozen)(const struct cgroup *cgroup, enum cgroup_part part);
	/* One attempt to kill everything. */
	int (*kill)(const struct cgroup *cgroup);
	int (*read)(const struct cgroup *cgroup, struct cgroup_usage *ret);
	/* Files of `work` the keeper writes; NULL at the end. */
	const char *const *keeper_files;
};

extern const struct cgroup_ops cgroup_v1_ops;
extern const struct cgroup_ops cgroup_v2_ops;

/* How many rows of cgroup.dir and layout.base count: one on v2. */
static inline size_t cgroup_hierarchies(int version)
{
	return version == 2 ? 1 : version == 1 ? CGROUP_CONTROLLERS_ : 0;
}

/* Writes a control file; a file this kernel does not have is fine. */
int cgroup_write(int dir, const char *file, const char *text) NODISCARD;
int cgroup_write_number(int dir, const char *file, uint64_t number) NODISCARD;
/* The number a file holds, or the one after `key ` in a flat-keyed file; 0 when there is none. */
uint64_t cgroup_number(int dir, const char *file, const char *key);
/* Sends SIGKILL to every process named in dir's cgroup.procs. How many, or -errno. */
int cgroup_signal_all(int dir);
bool cgroup_is_empty(int dir);
