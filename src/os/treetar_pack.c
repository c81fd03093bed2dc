/*
 * Walks with one open directory per level and hands header, content and padding on through one
 * buffer. What is opened is looked at again through its descriptor, so a name that changes its
 * kind meanwhile can at worst be skipped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/tar.h"
#include "os/inodes.h"
#include "os/treetar.h"

enum { LEVELS_MAX = 200, LINKED_MAX = 1 << 20, CHUNK = 64 * 1024 };

struct level {
	DIR *dir;
	size_t name_len; /* of the archive name of this directory */
};

struct walk {
	struct treetar_pack *pack;
	struct buf out;
	char name[LIMIT_PATH_LEN + 1]; /* of the entry at hand, in the archive */
	struct level *levels;
	size_t level_count;
	struct inodes linked; /* files with several names, under the first one */
};

static int flush(struct walk *walk)
{
	size_t len = buf_len(&walk->out);
	if (len == 0)
		return 0;
	int r = walk->pack->write(walk->pack->ctx, buf_head(&walk->out), len);
	buf_reset(&walk->out);
	return r;
}

static int put_header(struct walk *walk, const struct stat *st, enum tar_type type,
                      const char *target)
{
	struct tar_entry entry = {
		.type = type,
		.name = walk->name,
		.target = target,
		.size = type == TAR_FILE ? (uint64_t)st->st_size : 0,
		.mode = st->st_mode & 07777,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
	};
	walk->pack->entries++;
	int r = buf_room(&walk->out) < TAR_HEADER_MAX ? flush(walk) : 0;
	return r < 0 ? r : tar_put_entry(&walk->out, &entry);
}

/* Exactly `size` bytes go out, whatever happens to the file meanwhile. */
static int put_content(struct walk *walk, int fd, uint64_t size)
{
	bool ended = false;
	for (uint64_t left = size; left > 0;) {
		int r = flush(walk);
		if (r < 0)
			return r;
		size_t want = (size_t)MIN(left, (uint64_t)CHUNK);
		uint8_t *to = buf_reserve(&walk->out, want);
		if (!to)
			return -ENOBUFS;
		ssize_t n = ended ? 0 : read(fd, to, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0) {
			ended = true;
			memset(to, 0, want);
			n = (ssize_t)want;
		}
		buf_commit(&walk->out, (size_t)n);
		left -= (uint64_t)n;
	}
	int r = buf_room(&walk->out) < TAR_BLOCK ? flush(walk) : 0;
	return r < 0 ? r : tar_put_padding(&walk->out, size);
}

/* The first name of this file, or NULL after remembering this one. */
static const char *first_name(struct walk *walk, const struct stat *st)
{
	if (st->st_nlink < 2)
		return NULL;
	const struct inode *first = inodes_find(&walk->linked, st);
	if (first)
		return first->name;
	/* beyond the limit it is packed as a file of its own */
	if (walk->linked.count < LINKED_MAX)
		inodes_add(&walk->linked, st, walk->name);
	return NULL;
}

static int skip(struct walk *walk)
{
	walk->pack->skipped++;
	return 0;
}

static int pack_file(struct walk *walk, int dir_fd, const char *name)
{
	auto_close int fd =
		openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	if (fd < 0)
		return errno == ENOENT || errno == ELOOP ? skip(walk) : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return skip(walk);
	const char *first = first_name(walk, &st);
	if (first)
		return put_header(walk, &st, TAR_HARDLINK, first);
	int r = put_header(walk, &st, TAR_FILE, NULL);
	return r < 0 ? r : put_content(walk, fd, (uint64_t)st.st_size);
}

static int pack_symlink(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
	char target[LIMIT_PATH_LEN + 1];
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));
	if (n < 0)
		return errno == ENOENT || errno == EINVAL ? skip(walk) : -errno;
	if ((size_t)n == sizeof(target))
		return -ENAMETOOLONG;
	target[n] = '\0';
	return n == 0 ? skip(walk) : put_header(walk, st, TAR_SYMLINK, target);
}

static int enter_dir(struct walk *walk, int dir_fd, const char *name)
{
	struct stat st;
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? skip(walk) : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (walk->level_count == LEVELS_MAX)
		return -ELOOP;
	int r = walk->name[0] ? put_header(walk, &st, TAR_DIR, NULL) : 0;
	if (r < 0)
		return r;
	DIR *dir = fdopendir(fd);
	if (!dir)
		return -errno;
	(void)take_fd(&fd);
	walk->levels[walk->level_count++] = (struct level){dir, strlen(walk->name)};
	return 0;
}

static int pack_entry(struct walk *walk, int dir_fd, const char *name)
{
	struct stat st;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? skip(walk) : -errno;
	if (S_ISDIR(st.st_mode))
		return enter_dir(walk, dir_fd, name);
	if (S_ISREG(st.st_mode))
		return pack_file(walk, dir_fd, name);
	if (S_ISLNK(st.st_mode))
		return pack_symlink(walk, dir_fd, name, &st);
	return skip(walk);
}

/* The next entry of the innermost directory, or one level back. */
static int step(struct walk *walk)
{
	struct level *level = &walk->levels[walk->level_count - 1];
	errno = 0;
	struct dirent *entry = readdir(level->dir);
	walk->name[level->name_len] = '\0';
	if (!entry) {
		int r = -errno;
		(void)closedir(level->dir); /* was only read */
		walk->level_count--;
		return r;
	}
	const char *name = entry->d_name;
	if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))
		return 0;
	size_t room = sizeof(walk->name) - level->name_len;
	/* one byte is kept for the slash that marks a directory */
	int n = snprintf(walk->name + level->name_len, room, "%s%s", level->name_len ? "/" : "",
	                 name);
	if ((size_t)n + 1 >= room)
		return -ENAMETOOLONG;
	return pack_entry(walk, dirfd(level->dir), name);
}

static int pack_all(struct walk *walk)
{
	struct treetar_pack *pack = walk->pack;
	size_t len = strlen(pack->as);
	if (len + 1 >= sizeof(walk->name))
		return -ENAMETOOLONG;
	memcpy(walk->name, pack->as, len + 1);
	struct stat st;
	if (fstatat(pack->dir_fd, pack->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (len == 0 && !S_ISDIR(st.st_mode))
		return -ENOTDIR;
	int r = pack_entry(walk, pack->dir_fd, pack->name);
	while (r == 0 && walk->level_count > 0)
		r = step(walk);
	if (r == 0)
		r = flush(walk);
	if (r == 0)
		r = tar_put_end(&walk->out);
	return r < 0 ? r : flush(walk);
}

int treetar_pack(struct treetar_pack *pack)
{
	struct walk *walk = mem_new(struct walk);
	walk->pack = pack;
	walk->levels = mem_resize(NULL, LEVELS_MAX, sizeof(struct level));
	buf_init(&walk->out, 2 * CHUNK);
	int r = pack_all(walk);
	(void)snprintf(pack->where, sizeof(pack->where), "%s", walk->name);
	while (walk->level_count > 0)
		(void)closedir(walk->levels[--walk->level_count].dir); /* was only read */
	inodes_done(&walk->linked);
	free(walk->levels);
	buf_done(&walk->out);
	free(walk);
	return r;
}
