/*
 * How a hostile archive stays inside: a name is cleaned (no "..", not absolute), its parent is
 * opened with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, and everything is made by openat-style
 * calls in that one directory, under a temporary name that is then renamed: so nothing existing
 * is ever written through, and a link planted by an earlier entry is replaced or refused, never
 * followed. Directories get their mode at the end, so that it cannot lock us out meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/tar.h"
#include "os/inodes.h"
#include "os/path.h"
#include "os/treetar.h"

enum { TEMP_LEN = 32 };

struct made_dir {
	char *name;
	mode_t mode;
	struct timespec mtime;
};

struct treetar_unpack {
	int dir_fd; /* borrowed */
	uint64_t bytes_left;
	uint64_t entries_left;
	uint64_t entries;
	char *top;
	struct tar_reader tar;
	char name[LIMIT_PATH_LEN + 1]; /* of the entry at hand, cleaned */
	int parent_fd;                 /* its directory */
	char parent[LIMIT_PATH_LEN + 1];
	int file_fd; /* the file being written, in parent_fd under temp */
	char temp[TEMP_LEN];
	struct made_dir *dirs;
	size_t dir_count;
	struct inodes ours; /* what was made: the only files a hard link may lead to */
};

int treetar_unpack_new(int dir_fd, const struct treetar_options *options,
                       struct treetar_unpack **ret)
{
	char clean[256];
	if (options->top && (tar_clean_name(options->top, clean, sizeof(clean)) < 0 || !clean[0] ||
	                     strchr(clean, '/')))
		return -EINVAL;
	struct treetar_unpack *unpack = mem_new(struct treetar_unpack);
	unpack->dir_fd = dir_fd;
	unpack->bytes_left = options->max_bytes;
	unpack->entries_left = options->max_entries;
	unpack->top = options->top ? mem_strdup(clean) : NULL;
	unpack->parent_fd = -1;
	unpack->file_fd = -1;
	tar_reader_init(&unpack->tar);
	*ret = unpack;
	return 0;
}

void treetar_unpack_free(struct treetar_unpack *unpack)
{
	if (!unpack)
		return;
	if (unpack->file_fd >= 0)
		(void)unlinkat(unpack->parent_fd, unpack->temp, 0); /* half a file helps nobody */
	fd_closep(&unpack->file_fd);
	fd_closep(&unpack->parent_fd);
	for (size_t i = 0; i < unpack->dir_count; i++)
		free(unpack->dirs[i].name);
	free(unpack->dirs);
	inodes_done(&unpack->ours);
	free(unpack->top);
	tar_reader_done(&unpack->tar);
	free(unpack);
}

void treetar_unpack_freep(struct treetar_unpack **unpack)
{
	treetar_unpack_free(*unpack);
	*unpack = NULL;
}

const char *treetar_unpack_where(const struct treetar_unpack *unpack)
{
	return unpack->tar.entry.name ? unpack->tar.entry.name : unpack->name;
}

uint64_t treetar_unpack_entries(const struct treetar_unpack *unpack)
{
	return unpack->entries;
}

/* --- names and directories --- */

/* The cleaned name with its first part replaced where that was asked for. */
static int entry_name(const struct treetar_unpack *unpack, const char *raw, char *out, size_t size)
{
	int r = tar_clean_name(raw, out, size);
	if (r < 0 || !unpack->top || !out[0])
		return r;
	char *rest = strchr(out, '/');
	auto_free char *changed = mem_printf("%s%s", unpack->top, rest ? rest : "");
	return tar_clean_name(changed, out, size);
}

/* One directory that must not exist. */
static int make_one(struct treetar_unpack *unpack, const char *name, mode_t mode)
{
	struct stat st;
	char above_name[LIMIT_PATH_LEN + 1];
	const char *slash = strrchr(name, '/');
	size_t len = slash ? (size_t)(slash - name) : 0;
	memcpy(above_name, name, len);
	above_name[len] = '\0';
	auto_close int above =
		path_open_plain(unpack->dir_fd, len ? above_name : ".", O_PATH | O_DIRECTORY, 0);
	if (above < 0)
		return above;
	const char *base = slash ? slash + 1 : name;
	if (mkdirat(above, base, mode) < 0)
		return -errno;
	if (fstatat(above, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	inodes_add(&unpack->ours, &st, NULL);
	return 0;
}

/* Opens the directory called name, making what is missing of it. */
static int open_dir(struct treetar_unpack *unpack, const char *name)
{
	char part[LIMIT_PATH_LEN + 1];
	int fd = path_open_plain(unpack->dir_fd, name[0] ? name : ".", O_PATH | O_DIRECTORY, 0);
	if (fd != -ENOENT)
		return fd;
	for (const char *end = name; *end;) {
		end += strspn(end, "/");
		end += strcspn(end, "/");
		memcpy(part, name, (size_t)(end - name));
		part[end - name] = '\0';
		int r = make_one(unpack, part, 0755);
		if (r < 0 && r != -EEXIST)
			return r;
	}
	return path_open_plain(unpack->dir_fd, name, O_PATH | O_DIRECTORY, 0);
}

/* parent_fd for unpack->name; returns its last part, or NULL with *ret_error set. */
static const char *open_parent(struct treetar_unpack *unpack, int *ret_error)
{
	char parent[LIMIT_PATH_LEN + 1];
	const char *slash = strrchr(unpack->name, '/');
	size_t len = slash ? (size_t)(slash - unpack->name) : 0;
	memcpy(parent, unpack->name, len);
	parent[len] = '\0';
	if (unpack->parent_fd < 0 || strcmp(parent, unpack->parent) != 0) {
		fd_closep(&unpack->parent_fd);
		int fd = open_dir(unpack, parent);
		if (fd < 0) {
			*ret_error = fd;
			return NULL;
		}
		unpack->parent_fd = fd;
		memcpy(unpack->parent, parent, len + 1);
	}
	return slash ? slash + 1 : unpack->name;
}

static void new_temp(struct treetar_unpack *unpack)
{
	uint64_t random = 0;
	must(getrandom(&random, sizeof(random), 0) == sizeof(random));
	(void)snprintf(unpack->temp, sizeof(unpack->temp), ".cloche-%016llx",
	               (unsigned long long)random);
}

/* The temporary thing takes its name; what was there goes, unless it is a directory. */
static int place(struct treetar_unpack *unpack, const char *base)
{
	if (renameat(unpack->parent_fd, unpack->temp, unpack->parent_fd, base) == 0)
		return 0;
	int r = -errno;
	(void)unlinkat(unpack->parent_fd, unpack->temp, 0); /* the first error is the one to tell */
	return r;
}

/* --- entries --- */

static int begin_file(struct treetar_unpack *unpack)
{
	int r = 0;
	struct stat st;
	const struct tar_entry *entry = &unpack->tar.entry;
	if (entry->size > unpack->bytes_left)
		return -EFBIG;
	unpack->bytes_left -= entry->size;
	const char *base = open_parent(unpack, &r);
	if (!base)
		return r;
	if (fstatat(unpack->parent_fd, base, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		return -EISDIR;
	new_temp(unpack);
	unpack->file_fd = openat(unpack->parent_fd, unpack->temp,
	                         O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return unpack->file_fd < 0 ? -errno : 0;
}

static int end_file(struct treetar_unpack *unpack)
{
	struct stat st;
	const struct tar_entry *entry = &unpack->tar.entry;
	const struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = entry->mtime_s, .tv_nsec = (long)entry->mtime_ns},
	};
	if (fchmod(unpack->file_fd, entry->mode & 0777) < 0)
		return -errno;
	(void)futimens(unpack->file_fd,
	               times); /* a time the file system cannot hold is no failure */
	if (fstat(unpack->file_fd, &st) < 0)
		return -errno;
	const char *slash = strrchr(unpack->name, '/');
	int r = place(unpack, slash ? slash + 1 : unpack->name);
	fd_closep(&unpack->file_fd);
	if (r == 0)
		inodes_add(&unpack->ours, &st, NULL);
	return r;
}

static int make_dir(struct treetar_unpack *unpack)
{
	const struct tar_entry *entry = &unpack->tar.entry;
	if (!unpack->name[0])
		return 0; /* the top exists; its mode is its owner's business */
	struct stat st;
	auto_close int fd = open_dir(unpack, unpack->name);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* one that was there before keeps its mode and time */
	if (!inodes_find(&unpack->ours, &st))
		return 0;
	if ((unpack->dir_count & (unpack->dir_count - 1)) == 0)
		unpack->dirs = mem_resize(unpack->dirs, MAX(2 * unpack->dir_count, (size_t)16),
		                          sizeof(*unpack->dirs));
	unpack->dirs[unpack->dir_count++] = (struct made_dir){
		.name = mem_strdup(unpack->name),
		.mode = entry->mode & 0777,
		.mtime = {entry->mtime_s, (long)entry->mtime_ns},
	};
	return 0;
}

static int make_symlink(struct treetar_unpack *unpack)
{
	int r = 0;
	const char *base = open_parent(unpack, &r);
	if (!base)
		return r;
	new_temp(unpack);
	if (symlinkat(unpack->tar.entry.target, unpack->parent_fd, unpack->temp) < 0)
		return -errno;
	const struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{unpack->tar.entry.mtime_s, (long)unpack->tar.entry.mtime_ns},
	};
	/* as for files: a time that cannot be held is no failure */
	(void)utimensat(unpack->parent_fd, unpack->temp, times, AT_SYMLINK_NOFOLLOW);
	return place(unpack, base);
}

/* Links the target, then looks at what was linked: a name swapped meanwhile is caught. */
static int link_checked(struct treetar_unpack *unpack, int from_fd, const char *from)
{
	struct stat st;
	new_temp(unpack);
	if (linkat(from_fd, from, unpack->parent_fd, unpack->temp, 0) < 0)
		return -errno;
	if (fstatat(unpack->parent_fd, unpack->temp, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode) && inodes_find(&unpack->ours, &st))
		return 0;
	(void)unlinkat(unpack->parent_fd, unpack->temp, 0); /* refused anyway */
	return -EPERM;
}

static int make_hardlink(struct treetar_unpack *unpack)
{
	char target[LIMIT_PATH_LEN + 1];
	int r = entry_name(unpack, unpack->tar.entry.target, target, sizeof(target));
	if (r < 0)
		return r;
	if (strcmp(target, unpack->name) == 0)
		return -EPERM;
	char *slash = strrchr(target, '/');
	auto_close int from_fd = -1;
	if (slash)
		*slash = '\0';
	from_fd = path_open_plain(unpack->dir_fd, slash ? target : ".", O_PATH | O_DIRECTORY, 0);
	if (from_fd < 0)
		return from_fd == -ENOENT ? -EPERM : from_fd;
	const char *base = open_parent(unpack, &r);
	if (!base)
		return r;
	r = link_checked(unpack, from_fd, slash ? slash + 1 : target);
	if (r < 0)
		return r == -ENOENT ? -EPERM : r;
	/* rename(2) does nothing when both are the same file already */
	r = place(unpack, base);
	(void)unlinkat(unpack->parent_fd, unpack->temp, 0);
	return r;
}

static int begin_entry(struct treetar_unpack *unpack)
{
	const struct tar_entry *entry = &unpack->tar.entry;
	if (unpack->entries_left == 0)
		return -E2BIG;
	unpack->entries_left--;
	unpack->entries++;
	int r = entry_name(unpack, entry->name, unpack->name, sizeof(unpack->name));
	if (r < 0)
		return r;
	if (!unpack->name[0] && entry->type != TAR_DIR)
		return -EINVAL;
	switch (entry->type) {
	case TAR_FILE:
		return begin_file(unpack);
	case TAR_DIR:
		return make_dir(unpack);
	case TAR_SYMLINK:
		return make_symlink(unpack);
	case TAR_HARDLINK:
		return make_hardlink(unpack);
	case TAR_SPECIAL:
		return -EPERM;
	case TAR_OTHER:
		break;
	}
	return -ENOTSUP;
}

int treetar_unpack_feed(struct treetar_unpack *unpack, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	const uint8_t *content = NULL;
	size_t content_len = 0;
	for (;;) {
		int event = tar_read(&unpack->tar, &at, &len, &content, &content_len);
		int r = 0;
		if (event < 0 || event == TAR_MORE || event == TAR_END)
			return event < 0 ? event : 0;
		if (event == TAR_ENTRY)
			r = begin_entry(unpack);
		else if (event == TAR_CONTENT)
			r = io_write_all(unpack->file_fd, content, content_len);
		else if (unpack->file_fd >= 0)
			r = end_file(unpack);
		if (r < 0)
			return r;
	}
}

int treetar_unpack_finish(struct treetar_unpack *unpack)
{
	int r = tar_reader_finish(&unpack->tar);
	if (r < 0)
		return r;
	/* backwards: what is inside a directory comes after it, and is done before it may close */
	for (size_t i = unpack->dir_count; i-- > 0;) {
		const struct made_dir *dir = &unpack->dirs[i];
		const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, dir->mtime};
		auto_close int fd =
			path_open_plain(unpack->dir_fd, dir->name, O_RDONLY | O_DIRECTORY, 0);
		if (fd < 0)
			return fd;
		(void)futimens(fd, times); /* as for files */
		if (fchmod(fd, dir->mode) < 0)
			return -errno;
	}
	return 0;
}
