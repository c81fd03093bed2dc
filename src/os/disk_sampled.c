/*
 * Counting a tree that its owner may change meanwhile. Directories are entered by name below an
 * open parent and left by closing: going up by ".." could lead anywhere when one is moved.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/disk_internal.h"
#include "os/path.h"

/* Deeper trees count as full: each level costs a descriptor. */
enum { DEPTH_MAX = 128 };

struct walk {
	DIR *dirs[DEPTH_MAX];
	size_t depth;
	struct disk_usage usage;
};

static int push(struct walk *walk, int fd)
{
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd; /* just changed */
	if (walk->depth == DEPTH_MAX) {
		walk->usage.is_full = true;
		fd_closep(&fd);
		return 0;
	}
	DIR *dir = fdopendir(fd);
	if (!dir) {
		int r = -errno;
		fd_closep(&fd);
		return r;
	}
	walk->dirs[walk->depth++] = dir;
	return 0;
}

static void pop(struct walk *walk)
{
	(void)closedir(walk->dirs[--walk->depth]); /* read only: nothing to lose */
}

static int count_entry(struct walk *walk, int dir_fd, const char *name)
{
	struct stat st;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	/* A file with several names is met once a name; a directory's links are its children. */
	uint64_t names = S_ISDIR(st.st_mode) || st.st_nlink == 0 ? 1 : st.st_nlink;
	walk->usage.bytes += (uint64_t)st.st_blocks * 512 / names;
	walk->usage.inodes++;
	if (!S_ISDIR(st.st_mode))
		return 0;
	return push(walk, path_open_plain(dir_fd, name, O_RDONLY | O_DIRECTORY, 0));
}

int disk_sampled_usage(const struct disk_spec *spec, int fd, struct disk_usage *ret)
{
	struct walk walk = {0};
	int top = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = top < 0 ? -errno : push(&walk, top);

	while (r == 0 && walk.depth > 0) {
		DIR *dir = walk.dirs[walk.depth - 1];
		const struct dirent *entry = readdir(dir);

		if (!entry)
			pop(&walk);
		else
			r = count_entry(&walk, dirfd(dir), entry->d_name);
		if (walk.usage.inodes >= spec->inodes || walk.usage.bytes >= spec->bytes)
			walk.usage.is_full = true;
		if (walk.usage.inodes >= spec->inodes)
			break;
	}
	while (walk.depth > 0)
		pop(&walk);
	if (r == 0)
		*ret = walk.usage;
	return r;
}
