/*
 * Version 1: each controller has its own tree. Killing is freeze, SIGKILL, thaw, because there is
 * no cgroup.kill and a fork bomb outruns a walk over cgroup.procs.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "os/cgroup_internal.h"

/* SOCKET_SHARE: what part of the memory limit socket buffers may take on top of it. */
enum { CPU_PERIOD_US = 100000, CPU_MIN_QUOTA_US = 1000, SOCKET_SHARE = 4 };

static int enable(int dir)
{
	/* Only kernels before 5.11 know flat memory groups; the file is there in memory trees. */
	int r = cgroup_write(dir, "memory.use_hierarchy", "1");

	/* EINVAL/EBUSY: already so, inherited from the parent. */
	return r == -EINVAL || r == -EBUSY || r == -EACCES ? 0 : r;
}

static int set_memory(int dir, uint64_t bytes)
{
	int r;

	if (dir < 0 || bytes == 0)
		return 0;
	if (bytes == UINT64_MAX) {
		r = cgroup_write(dir, "memory.memsw.limit_in_bytes", "-1");
		return r < 0 ? r : cgroup_write(dir, "memory.limit_in_bytes", "-1");
	}
	r = cgroup_write_number(dir, "memory.limit_in_bytes", bytes);
	/* Memory + swap may never be below memory: if it is in the way it is opened, and closed
	 * after. It is absent where swap is not counted. */
	if (r == -EINVAL) {
		r = cgroup_write(dir, "memory.memsw.limit_in_bytes", "-1");
		if (r == 0)
			r = cgroup_write_number(dir, "memory.limit_in_bytes", bytes);
	}
	if (r < 0)
		return r;
	r = cgroup_write_number(dir, "memory.memsw.limit_in_bytes", bytes);
	if (r < 0)
		return r;
	/* Buffers of TCP and UDP are counted apart, and not at all until they have a limit. */
	r = cgroup_write_number(dir, "memory.kmem.tcp.limit_in_bytes", bytes / SOCKET_SHARE);
	if (r < 0)
		return r;
	return cgroup_write(dir, "memory.swappiness", "0");
}

static int set_cpu(int dir, uint64_t milli)
{
	if (dir < 0 || milli == 0)
		return 0;
	if (milli == UINT64_MAX)
		return cgroup_write(dir, "cpu.cfs_quota_us", "-1");
	/* The kernel's own period is this one, and to write it costs as much as the quota. */
	int r = cgroup_number(dir, "cpu.cfs_period_us", NULL) == CPU_PERIOD_US
	                ? 0
	                : cgroup_write_number(dir, "cpu.cfs_period_us", CPU_PERIOD_US);
	if (r < 0)
		return r;
	uint64_t quota = milli * (CPU_PERIOD_US / 1000);
	return cgroup_write_number(dir, "cpu.cfs_quota_us", MAX(quota, (uint64_t)CPU_MIN_QUOTA_US));
}

static int set_limits(const struct cgroup *cgroup, enum cgroup_part part,
                      const struct cgroup_limits *limits)
{
	int pids = cgroup->dir[CGROUP_PIDS][part];
	int r = set_memory(cgroup->dir[CGROUP_MEMORY][part], limits->memory);

	if (r == 0)
		r = set_cpu(cgroup->dir[CGROUP_CPU][part], limits->cpu_milli);
	if (r < 0 || pids < 0 || limits->pids == 0)
		return r;
	if (limits->pids == UINT64_MAX)
		return cgroup_write(pids, "pids.max", "max");
	return cgroup_write_number(pids, "pids.max", limits->pids);
}

static int freeze(const struct cgroup *cgroup, enum cgroup_part part, bool on)
{
	int dir = cgroup->dir[CGROUP_FREEZER][part];

	if (dir < 0)
		return -EOPNOTSUPP;
	return io_write_ctl(dir, "freezer.state", on ? "FROZEN" : "THAWED");
}

static int is_frozen(const struct cgroup *cgroup, enum cgroup_part part)
{
	auto_free char *text = NULL;
	size_t len;
	int dir = cgroup->dir[CGROUP_FREEZER][part];
	int r = io_read_file(dir, "freezer.state", 64, &text, &len);

	if (r < 0)
		return r;
	/* "FREEZING" is on the way there. */
	return strncmp(text, "FROZEN", 6) == 0;
}

static int kill_all(const struct cgroup *cgroup)
{
	int r = 0;

	for (int part = CGROUP_TOP; part < CGROUP_PARTS_; part++) {
		int pids = cgroup->dir[CGROUP_PIDS][part];
		if (pids >= 0 && cgroup_write(pids, "pids.max", "0") < 0)
			continue; /* helps against fork bombs; the walk below decides */
	}
	bool has_freezer = freeze(cgroup, CGROUP_TOP, true) == 0;
	for (int i = 0; i < CGROUP_CONTROLLERS_; i++) {
		for (int part = 0; part < CGROUP_PARTS_; part++) {
			int dir = cgroup->dir[i][part];
			int n = dir < 0 ? 0 : cgroup_signal_all(dir);
			if (n < 0)
				r = n;
		}
	}
	/* A frozen process dies only when thawed, by us or by whoever froze its part. */
	for (int part = 0; has_freezer && part < CGROUP_PARTS_; part++) {
		int thawed = freeze(cgroup, (enum cgroup_part)part, false);
		if (thawed < 0 && thawed != -EOPNOTSUPP)
			r = thawed;
	}
	return r;
}

static int read_usage(const struct cgroup *cgroup, struct cgroup_usage *ret)
{
	int memory = cgroup->dir[CGROUP_MEMORY][CGROUP_WORK];
	int pids = cgroup->dir[CGROUP_PIDS][CGROUP_WORK];
	int cpu = cgroup->dir[CGROUP_CPUACCT][CGROUP_WORK];

	*ret = (struct cgroup_usage){0};
	if (memory >= 0) {
		ret->memory = cgroup_number(memory, "memory.usage_in_bytes", NULL);
		ret->memory_peak = cgroup_number(memory, "memory.max_usage_in_bytes", NULL);
		ret->oom_kills = cgroup_number(memory, "memory.oom_control", "oom_kill");
	}
	if (pids >= 0) {
		ret->pids = cgroup_number(pids, "pids.current", NULL);
		ret->pids_denied = cgroup_number(pids, "pids.events", "max");
	}
	if (cpu >= 0)
		ret->cpu_us = cgroup_number(cpu, "cpuacct.usage", NULL) / 1000;
	return 0;
}

static const char *const keeper_files[] = {"freezer.state", NULL};

const struct cgroup_ops cgroup_v1_ops = {
	.enable = enable,
	.set_limits = set_limits,
	.freeze = freeze,
	.is_frozen = is_frozen,
	.kill = kill_all,
	.read = read_usage,
	.keeper_files = keeper_files,
};
