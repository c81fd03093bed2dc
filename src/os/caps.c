#include "os/caps.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "os/syscalls.h"

struct sets {
	uint64_t effective;
	uint64_t permitted;
	uint64_t inheritable;
};

static int get_sets(struct sets *ret)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	ret->effective = data[0].effective | (uint64_t)data[1].effective << 32;
	ret->permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	ret->inheritable = data[0].inheritable | (uint64_t)data[1].inheritable << 32;
	return 0;
}

/* Inheritable empty (which also empties ambient). */
static int set_sets(uint64_t effective, uint64_t permitted)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
		{.effective = (uint32_t)effective, .permitted = (uint32_t)permitted},
		{.effective = (uint32_t)(effective >> 32),
	         .permitted = (uint32_t)(permitted >> 32)},
	};

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static int set_caps(uint64_t caps)
{
	return set_sets(caps, caps);
}

static int limit_bounding(uint64_t keep)
{
	/* Asks the kernel for each number: a newer one has capabilities we know no name for. */
	for (int cap = 0; cap < 64; cap++) {
		if (keep & CAPS_BIT(cap) || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		int failed = errno;
		/* Without the right to drop it is enough that there is nothing to drop. */
		int is_set = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
		if (is_set < 0)
			break;
		if (is_set)
			return -failed;
	}
	return 0;
}

int caps_keep(uint64_t keep)
{
	struct sets have = {0};
	int r = get_sets(&have);

	return r < 0 ? r : set_caps(keep & have.permitted);
}

int caps_limit(uint64_t keep)
{
	int r = limit_bounding(keep);

	return r < 0 ? r : caps_keep(keep);
}

int caps_drop_bounding(void)
{
	return limit_bounding(0);
}

int caps_clear(void)
{
	return set_caps(0);
}

int caps_raise_permitted(uint64_t except)
{
	struct sets have = {0};
	int r = get_sets(&have);

	return r < 0 ? r : set_sets(have.permitted & ~except, have.permitted);
}

bool caps_has(int cap)
{
	struct sets have = {0};

	return get_sets(&have) == 0 && have.effective & CAPS_BIT(cap);
}

int caps_no_new_privs(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int caps_not_dumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

static int drop_groups(void)
{
	if (setgroups(0, NULL) == 0)
		return 0;
	/* A user namespace with one mapped id denies setgroups to everybody, its root included:
	 * there the groups are those the namespace's owner has anyway. */
	if (errno == EPERM && caps_has(CAP_SETGID))
		return 0;
	return errno == EPERM && getgroups(0, NULL) == 0 ? 0 : -errno;
}

int caps_become(uid_t uid, gid_t gid, uint64_t keep)
{
	struct sets have = {0};

	if (keep && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return -errno;
	int r = drop_groups();
	if (r < 0)
		return r;
	if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return -errno;
	r = get_sets(&have);
	if (r == 0)
		r = set_caps(keep & have.permitted);
	if (r < 0)
		return r;
	if (keep)
		return prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0 ? -errno : 0;
	/* A setuid that can be undone is none. */
	if (uid != 0 && setresuid((uid_t)-1, 0, (uid_t)-1) == 0)
		return -ENOTRECOVERABLE;
	return 0;
}

int caps_close_fds_except(const int *keep, size_t count)
{
	unsigned int from = 0;

	for (;;) {
		unsigned int next = UINT_MAX;

		for (size_t i = 0; i < count; i++) {
			if (keep[i] >= 0 && (unsigned int)keep[i] >= from)
				next = MIN(next, (unsigned int)keep[i]);
		}
		if (next == UINT_MAX)
			return sys_close_range(from, UINT_MAX, 0) < 0 ? -errno : 0;
		if (next > from && sys_close_range(from, next - 1, 0) < 0)
			return -errno;
		from = next + 1;
	}
}
