#include "os/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/path.h"
#include "os/syscalls.h"

/* The kernel's interface up to ABI 7 under names of our own: the installed <linux/landlock.h> may
 * know less. */
enum {
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_ABI_1 = (1 << 13) - 1,
	FS_REFER = 1 << 13,     /* ABI 2 */
	FS_TRUNCATE = 1 << 14,  /* ABI 3 */
	FS_IOCTL_DEV = 1 << 15, /* ABI 5 */
	FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
	NET_TCP = 1 << 0 | 1 << 1, /* ABI 4: bind, connect */
	SCOPE_ABSTRACT = 1 << 0,   /* ABI 6 */
	SCOPE_SIGNAL = 1 << 1,     /* ABI 6 */
	CREATE_VERSION = 1 << 0,
	RULE_PATH_BENEATH = 1,
};

struct ruleset_attr {
	uint64_t fs;
	uint64_t net;
	uint64_t scoped;
};

struct __attribute__((packed)) path_beneath_attr {
	uint64_t allowed;
	int32_t parent_fd;
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);

	return abi < 0 ? -errno : (int)abi;
}

static uint64_t fs_known(int abi)
{
	uint64_t known = FS_ABI_1;

	if (abi >= 2)
		known |= FS_REFER;
	if (abi >= 3)
		known |= FS_TRUNCATE;
	if (abi >= 5)
		known |= FS_IOCTL_DEV;
	return known;
}

static uint64_t fs_allowed(enum landlock_access access)
{
	static const uint64_t allowed[] = {
		[LANDLOCK_READ] = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR,
		[LANDLOCK_WRITE_FILES] = FS_OF_FILES | FS_READ_DIR,
		[LANDLOCK_ALL] = UINT64_MAX,
	};

	return allowed[access];
}

static int add_rule(int ruleset, int root_fd, const struct landlock_rule *rule, uint64_t known)
{
	struct path_beneath_attr attr = {.allowed = fs_allowed(rule->access) & known};
	struct stat st;
	int from_fd = rule->from_fd > 0 ? rule->from_fd : root_fd;
	auto_close int opened = rule->path ? path_open_in_root(from_fd, rule->path, O_PATH, 0) : -1;
	int fd = rule->path ? opened : from_fd;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		attr.allowed &= FS_OF_FILES; /* the kernel refuses directory rights on a file */
	attr.parent_fd = fd;
	long r = syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0);
	return r < 0 ? -errno : 0;
}

int landlock_make(int root_fd, const struct landlock_rule *rules, size_t count,
                  enum landlock_flags flags, int *ret_fd)
{
	int abi = landlock_abi();
	uint64_t scoped = SCOPE_ABSTRACT | (flags & LANDLOCK_MAY_SIGNAL ? 0 : SCOPE_SIGNAL);

	if (abi < 0)
		return abi;
	/* Fields this kernel does not know are zero, which it accepts whatever their size. */
	struct ruleset_attr attr = {
		.fs = fs_known(abi),
		.net = flags & LANDLOCK_NO_TCP && abi >= 4 ? NET_TCP : 0,
		.scoped = abi >= 6 ? scoped : 0,
	};
	auto_close int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (ruleset < 0)
		return -errno;
	for (size_t i = 0; i < count; i++) {
		int r = add_rule(ruleset, root_fd, &rules[i], attr.fs);
		if (r < 0)
			return r;
	}
	*ret_fd = take_fd(&ruleset);
	return 0;
}

int landlock_enter(int ruleset_fd)
{
	return syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0 ? -errno : 0;
}

int landlock_restrict(int root_fd, const struct landlock_rule *rules, size_t count,
                      enum landlock_flags flags)
{
	auto_close int ruleset = -1;
	int r = landlock_make(root_fd, rules, count, flags, &ruleset);

	return r < 0 ? r : landlock_enter(ruleset);
}
