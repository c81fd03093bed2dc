/* Version 2: one tree; controllers are handed down by cgroup.subtree_control. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/io.h"
#include "os/cgroup_internal.h"

enum { CPU_PERIOD_US = 100000, CPU_MIN_QUOTA_US = 1000 };

static int enable(int dir)
{
	static const char *const controllers[] = {"+memory", "+pids", "+cpu"};
	int r = 0;

	/* One by one: a single write with one missing controller enables none. What is missing
	 * (ENOENT, or EINVAL by older kernels) was seen by cgroup_detect. */
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(controllers); i++) {
		r = cgroup_write(dir, "cgroup.subtree_control", controllers[i]);
		if (r == -ENOENT || r == -EINVAL)
			r = 0;
	}
	return r;
}

static int write_limit(int dir, const char *file, uint64_t number)
{
	if (number == 0)
		return 0;
	if (number == UINT64_MAX)
		return cgroup_write(dir, file, "max");
	return cgroup_write_number(dir, file, number);
}

static int set_cpu(int dir, uint64_t milli)
{
	char text[64];
	uint64_t quota = MAX(milli * (CPU_PERIOD_US / 1000), (uint64_t)CPU_MIN_QUOTA_US);

	if (milli == 0)
		return 0;
	if (milli == UINT64_MAX)
		return cgroup_write(dir, "cpu.max", "max 100000");
	(void)snprintf(text, sizeof(text), "%llu %d", (unsigned long long)quota,
	               CPU_PERIOD_US); /* cannot be too long */
	return cgroup_write(dir, "cpu.max", text);
}

static int set_limits(const struct cgroup *cgroup, enum cgroup_part part,
                      const struct cgroup_limits *limits)
{
	int dir = cgroup->dir[0][part];
	int r;

	if (dir < 0)
		return 0;
	r = cgroup_write(dir, "memory.swap.max", "0");
	if (r == 0)
		r = cgroup_write(dir, "memory.oom.group", "0");
	if (r == 0)
		r = write_limit(dir, "memory.max", limits->memory);
	if (r == 0)
		r = set_cpu(dir, limits->cpu_milli);
	return r < 0 ? r : write_limit(dir, "pids.max", limits->pids);
}

static int freeze(const struct cgroup *cgroup, enum cgroup_part part, bool on)
{
	int dir = cgroup->dir[0][part];

	if (dir < 0)
		return -EOPNOTSUPP;
	return io_write_ctl(dir, "cgroup.freeze", on ? "1" : "0");
}

static int is_frozen(const struct cgroup *cgroup, enum cgroup_part part)
{
	return cgroup_number(cgroup->dir[0][part], "cgroup.events", "frozen") == 1;
}

static int kill_all(const struct cgroup *cgroup)
{
	int dir = cgroup->dir[0][CGROUP_TOP];

	return dir < 0 ? 0 : io_write_ctl(dir, "cgroup.kill", "1");
}

static int read_usage(const struct cgroup *cgroup, struct cgroup_usage *ret)
{
	int dir = cgroup->dir[0][CGROUP_WORK];

	*ret = (struct cgroup_usage){0};
	if (dir < 0)
		return 0;
	ret->memory = cgroup_number(dir, "memory.current", NULL);
	ret->memory_peak = cgroup_number(dir, "memory.peak", NULL);
	/* memory.peak came with 5.19. */
	ret->memory_peak = MAX(ret->memory_peak, ret->memory);
	ret->oom_kills = cgroup_number(dir, "memory.events", "oom_kill");
	ret->pids = cgroup_number(dir, "pids.current", NULL);
	ret->pids_denied = cgroup_number(dir, "pids.events", "max");
	ret->cpu_us = cgroup_number(dir, "cpu.stat", "usage_usec");
	return 0;
}

static const char *const keeper_files[] = {"cgroup.freeze", "cgroup.kill", NULL};

const struct cgroup_ops cgroup_v2_ops = {
	.enable = enable,
	.set_limits = set_limits,
	.freeze = freeze,
	.is_frozen = is_frozen,
	.kill = kill_all,
	.read = read_usage,
	.keeper_files = keeper_files,
};
