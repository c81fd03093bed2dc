/*
 * Down by name, up by "..". Only the last few levels stay open; a level above is opened again from
 * its child when the walk comes back, must then be the same directory, and is read on from the
 * position remembered.
 */
#include "worker/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

enum { OPEN_LEVELS = 32 };

struct level {
	dev_t device;
	ino_t inode;
	DIR *dir;      /* NULL: closed for now */
	long position; /* where to read on, when closed */
};

struct walk {
	struct level *levels;
	size_t depth; /* levels in use */
	size_t room;
	dev_t device;
};

static int open_level(struct level *level, int dir_fd, const char *name)
{
	struct stat st;
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	level->dir = fdopendir(fd);
	if (!level->dir)
		return -errno;
	(void)take_fd(&fd);
	level->device = st.st_dev;
	level->inode = st.st_ino;
	return 0;
}

static void close_level(struct level *level)
{
	if (level->dir)
		(void)closedir(level->dir); /* was only read */
	level->dir = NULL;
}

static int push(struct walk *walk, int dir_fd, const char *name)
{
	if (walk->depth == walk->room) {
		walk->room = MAX(2 * walk->room, (size_t)64);
		walk->levels = mem_resize(walk->levels, walk->room, sizeof(struct level));
	}
	struct level *level = &walk->levels[walk->depth];
	*level = (struct level){0};
	int r = open_level(level, dir_fd, name);
	if (r < 0)
		return r;
	walk->depth++;
	if (walk->depth > OPEN_LEVELS) {
		struct level *old = &walk->levels[walk->depth - 1 - OPEN_LEVELS];
		if (old->dir)
			old->position = telldir(old->dir);
		close_level(old);
	}
	return 0;
}

static int pop(struct walk *walk)
{
	struct level *child = &walk->levels[--walk->depth];
	struct level *parent = walk->depth > 0 ? child - 1 : NULL;
	int r = 0;

	if (parent && !parent->dir) {
		struct level again = {0};
		r = open_level(&again, dirfd(child->dir), "..");
		if (r == 0 && (again.inode != parent->inode || again.device != parent->device)) {
			close_level(&again);
			r = -ESTALE;
		}
		if (r == 0) {
			parent->dir = again.dir;
			seekdir(parent->dir, parent->position);
		}
	}
	close_level(child);
	return r;
}

static int visit(struct walk *walk, const char *name, tree_on_entry on_entry, void *ctx)
{
	int dir_fd = dirfd(walk->levels[walk->depth - 1].dir);
	struct tree_entry entry = {.dir_fd = dir_fd, .name = name, .depth = walk->depth};

	if (fstatat(dir_fd, name, &entry.st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return errno == ENOENT ? 0 : -errno;
	int r = on_entry(&entry, ctx);
	if (r < 0)
		return r;
	if (r > 0 || !S_ISDIR(entry.st.st_mode) || entry.st.st_dev != walk->device)
		return 0;
	r = push(walk, dir_fd, name);
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
}

static int step(struct walk *walk, tree_on_entry on_entry, void *ctx)
{
	DIR *dir = walk->levels[walk->depth - 1].dir;

	must(dir); /* only levels above the last are ever closed */
	errno = 0;
	struct dirent *entry = readdir(dir); /* NOLINT(concurrency-mt-unsafe): one thread */

	if (!entry)
		return errno ? -errno : pop(walk);
	if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
		return 0;
	return visit(walk, entry->d_name, on_entry, ctx);
}

int tree_walk(int dir_fd, tree_on_entry on_entry, void *ctx)
{
	struct walk walk = {0};
	int r = push(&walk, dir_fd, ".");

	if (r == 0)
		walk.device = walk.levels[0].device;
	while (r == 0 && walk.depth > 0)
		r = step(&walk, on_entry, ctx);
	for (size_t i = 0; i < walk.depth; i++)
		close_level(&walk.levels[i]);
	free(walk.levels);
	return r;
}
