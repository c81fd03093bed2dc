#include "os/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/syscalls.h"

/* openat2 gives up with EAGAIN when a rename races with ".." below a confined root. */
enum { RESOLVE_TRIES = 64 };

static int open_resolved(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	/* openat2 refuses a mode that would not be used. */
	bool creates = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = creates ? mode : 0,
		.resolve = resolve | RESOLVE_NO_MAGICLINKS,
	};

	for (int i = 0; i < RESOLVE_TRIES; i++) {
		int fd = sys_openat2(dir_fd, path, &how);
		if (fd >= 0)
			return fd;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -EAGAIN;
}

int path_open_beneath(int dir_fd, const char *path, int flags, mode_t mode)
{
	return open_resolved(dir_fd, path, flags, mode, RESOLVE_BENEATH);
}

/* The same by hand, for inside a sandbox, where the filter hides openat2 (its mode is out of the
 * filter's sight): one component after the other, none of them a link. */
static int walk_plain(int dir_fd, const char *path, int flags, mode_t mode)
{
	char name[NAME_MAX + 1];
	auto_close int at = -1;

	for (;;) {
		const char *end = strchrnul(path, '/');
		size_t len = (size_t)(end - path);
		const char *next = end + strspn(end, "/");

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		if (len == 0 || (len == 2 && memcmp(path, "..", 2) == 0))
			return len == 0 ? -EINVAL : -EXDEV;
		memcpy(name, path, len);
		name[len] = 0;
		bool is_last = *next == 0;
		int how = is_last ? flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW;
		int fd = openat(at >= 0 ? at : dir_fd, name, how | O_CLOEXEC, mode);
		if (fd < 0 || is_last)
			return fd < 0 ? -errno : fd;
		fd_closep(&at);
		at = fd;
		path = next;
	}
}

int path_open_plain(int dir_fd, const char *path, int flags, mode_t mode)
{
	int fd = open_resolved(dir_fd, path, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	if (fd != -ENOSYS)
		return fd;
	return walk_plain(dir_fd, path, flags, mode);
}

int path_open_in_root(int dir_fd, const char *path, int flags, mode_t mode)
{
	return open_resolved(dir_fd, path, flags, mode, RESOLVE_IN_ROOT);
}

/* Makes one directory in parent_fd and hands it over. The name may be swapped before it is opened:
 * what is opened must still be ours before it changes owner. */
static int make_dir(int parent_fd, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	struct stat st;

	if (mkdirat(parent_fd, name, 0700) < 0)
		return -errno;
	auto_close int fd = path_open_plain(parent_fd, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != (uid_t)setfsuid((uid_t)-1))
		return -EEXIST;
	if (uid != (uid_t)-1 && fchown(fd, uid, gid) < 0)
		return -errno;
	if (fchmod(fd, mode) < 0)
		return -errno;

	int path_fd = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return path_fd < 0 ? -errno : path_fd;
}

int path_make_dirs(int root_fd, const char *path, mode_t mode, uid_t uid, gid_t gid, int *ret_fd)
{
	auto_close int at = path_open_in_root(root_fd, ".", O_PATH | O_DIRECTORY, 0);

	if (at < 0)
		return at;
	auto_free char *prefix = strdup(path);
	if (!prefix)
		return -ENOMEM;
	for (char *name = prefix; *name;) {
		char *end = strchrnul(name, '/');
		char stop = *end;

		if (end == name) {
			name++;
			continue;
		}
		*end = '\0';
		int next = path_open_in_root(root_fd, prefix, O_PATH | O_DIRECTORY, 0);
		if (next == -ENOENT)
			next = make_dir(at, name, mode, uid, gid);
		if (next == -EEXIST) /* someone was faster; not a link, or it fails here */
			next = path_open_plain(at, name, O_PATH | O_DIRECTORY, 0);
		if (next < 0)
			return next;
		fd_closep(&at);
		at = next;
		*end = stop;
		name = end;
	}
	*ret_fd = take_fd(&at);
	return 0;
}

int path_dir(int dir_fd, const char *name, mode_t mode)
{
	if (mkdirat(dir_fd, name, mode) < 0 && errno != EEXIST)
		return -errno;
	return path_open_plain(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
}

/*
 * Removal goes down by name and up by "..", with the last few levels kept open in a ring, so that
 * neither stack nor descriptors grow with the depth of the tree. A directory is read in passes
 * until one finds nothing: some file systems shift read positions when entries go away.
 */
enum { REMOVE_LEVELS = 32, REMOVE_BYTES = 32 * 1024 };

struct removal {
	int ring[REMOVE_LEVELS]; /* fd of level n at n % REMOVE_LEVELS; -1: reopen by ".." */
	bool has_removed[REMOVE_LEVELS];
	size_t level;
	char *entries;
};

struct kernel_entry { /* linux_dirent64 of getdents64(2) */
	uint64_t inode;
	int64_t next;
	uint16_t length;
	uint8_t type;
	char name[];
};

static bool is_self_or_above(const struct kernel_entry *entry)
{
	return strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0;
}

/* One component below, on the same mount; by hand where openat2 is hidden. */
static int open_below(int dir_fd, const char *name)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
	uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
	struct statx here, there;
	int opened = open_resolved(dir_fd, name, flags, 0, resolve);

	if (opened != -ENOSYS)
		return opened;
	auto_close int fd = openat(dir_fd, name, flags | O_CLOEXEC);
	if (fd < 0 || sys_statx(dir_fd, STATX_MNT_ID, &here) < 0 ||
	    sys_statx(fd, STATX_MNT_ID, &there) < 0)
		return -errno;
	return here.stx_mnt_id == there.stx_mnt_id ? take_fd(&fd) : -EXDEV;
}

static int enter(int dir_fd, const char *name)
{
	int fd = open_below(dir_fd, name);

	/* A directory its owner locked away from itself. */
	if (fd == -EACCES && fchmodat(dir_fd, name, 0700, 0) == 0)
		fd = open_below(dir_fd, name);
	return fd;
}

/* 0: gone; 1: a directory with something in it. */
static int remove_entry(int dir_fd, const struct kernel_entry *entry)
{
	int flags = entry->type == DT_DIR ? AT_REMOVEDIR : 0;

	if (unlinkat(dir_fd, entry->name, flags) == 0 || errno == ENOENT)
		return 0;
	if (flags == 0 && errno == EISDIR && unlinkat(dir_fd, entry->name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno == ENOTEMPTY || errno == EEXIST)
		return 1;
	return errno == EBUSY ? -EXDEV : -errno;
}

/* Empties what one getdents64 answer names. 0: all gone; 1: went one level down. */
static int remove_entries(struct removal *removal, int dir_fd, size_t len, int64_t position)
{
	size_t slot = removal->level % REMOVE_LEVELS;

	for (size_t at = 0; at < len;) {
		const struct kernel_entry *entry = (const void *)(removal->entries + at);

		at += entry->length;
		if (is_self_or_above(entry)) {
			position = entry->next;
			continue;
		}
		int r = remove_entry(dir_fd, entry);
		if (r < 0)
			return r;
		removal->has_removed[slot] = true;
		if (r == 0) {
			position = entry->next;
			continue;
		}
		int child = enter(dir_fd, entry->name);
		if (child < 0)
			return child;
		/* Read on from this very entry when the child is empty; where that is not
		 * possible, the next pass sees it. */
		(void)lseek(dir_fd, position, SEEK_SET);
		slot = ++removal->level % REMOVE_LEVELS;
		fd_closep(&removal->ring[slot]);
		removal->ring[slot] = child;
		removal->has_removed[slot] = false;
		return 1;
	}
	return 0;
}

/* 1: there may be more to do at the (new) level; 0: this level is empty. */
static int remove_some(struct removal *removal)
{
	size_t slot = removal->level % REMOVE_LEVELS;
	int dir_fd = removal->ring[slot];
	int64_t position = lseek(dir_fd, 0, SEEK_CUR);
	long len = syscall(SYS_getdents64, dir_fd, removal->entries, REMOVE_BYTES);

	if (len < 0)
		return -errno;
	if (len > 0) {
		int r = remove_entries(removal, dir_fd, (size_t)len, position);
		return r < 0 ? r : 1;
	}
	if (!removal->has_removed[slot])
		return 0;
	removal->has_removed[slot] = false;
	return lseek(dir_fd, 0, SEEK_SET) < 0 ? -errno : 1;
}

static int leave(struct removal *removal)
{
	int child = removal->ring[removal->level % REMOVE_LEVELS];
	size_t slot = --removal->level % REMOVE_LEVELS;

	if (removal->ring[slot] < 0) {
		int fd = openat(child, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		removal->ring[slot] = fd;
		removal->has_removed[slot] = true;
	}
	fd_closep(&removal->ring[(removal->level + 1) % REMOVE_LEVELS]);
	return 0;
}

int path_remove_below(int dir_fd)
{
	auto_free char *entries = malloc(REMOVE_BYTES);
	struct removal removal = {.entries = entries};
	int r = 1;

	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < REMOVE_LEVELS; i++)
		removal.ring[i] = -1;
	removal.ring[0] = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (removal.ring[0] < 0)
		return -errno;
	while (r >= 0) {
		r = remove_some(&removal);
		if (r == 0 && removal.level == 0)
			break;
		if (r == 0)
			r = leave(&removal);
	}
	for (size_t i = 0; i < REMOVE_LEVELS; i++)
		fd_closep(&removal.ring[i]);
	return r;
}

int path_is_empty_dir(int dir_fd)
{
	_Alignas(struct kernel_entry) char entries[1024]; /* has room for one of any name */

	for (;;) {
		long len = syscall(SYS_getdents64, dir_fd, entries, sizeof(entries));
		if (len <= 0)
			return len < 0 ? -errno : 1;
		for (size_t at = 0; at < (size_t)len;) {
			const struct kernel_entry *entry = (const void *)(entries + at);
			if (!is_self_or_above(entry))
				return 0;
			at += entry->length;
		}
	}
}

void path_spread(int dir_fd)
{
	int flags = 0;

	if (ioctl(dir_fd, FS_IOC_GETFLAGS, &flags) < 0 || flags & FS_TOPDIR_FL)
		return;
	flags |= FS_TOPDIR_FL;
	(void)ioctl(dir_fd, FS_IOC_SETFLAGS, &flags); /* then it is as it was */
}
