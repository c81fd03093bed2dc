/*
 * The verbs on single files and folders. Nothing here opens a name twice or trusts what it saw
 * before it opened: the sandbox's own processes change the tree at the same time. FIFOs and
 * devices never block us, because every open is non-blocking and only regular files are read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/inside_verbs.h"
#include "os/path.h"

enum { COPY_BYTES = 128 * 1024, FLUSH_BYTES = 32 * 1024, RECORD_BYTES = 64 * 1024 };

static uint8_t copy_bytes[COPY_BYTES];

/* Whoever may read files of a sandbox is not for that reason told what its processes were given:
 * their variables, arguments and memory are files there. */
static bool is_of_processes(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC;
}

int inside_read(const struct inside_args *args, struct err *err)
{
	auto_close int fd = open(args->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return inside_err(err, errno, "%s", args->path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", args->path);
	if (is_of_processes(fd))
		return err_set(err, ERR_FORBIDDEN,
		               "%s tells about processes: read it with a command", args->path);
	if (args->offset != UINT64_MAX && args->offset > INT64_MAX)
		return err_set(err, ERR_INVALID, "offset is too large");
	if (args->offset != UINT64_MAX && lseek(fd, (off_t)args->offset, SEEK_SET) < 0)
		return inside_err(err, errno, "%s", args->path);
	for (uint64_t left = args->length; left > 0;) {
		ssize_t got = read(fd, copy_bytes, MIN(left, sizeof(copy_bytes)));

		if (got < 0)
			return inside_err(err, errno, "read %s", args->path);
		if (got == 0)
			break;
		int r = io_write_all(STDOUT_FILENO, copy_bytes, (size_t)got);

		if (r < 0)
			return err_sys(err, -r, "write the answer");
		left -= (uint64_t)got;
	}
	return 0;
}

/* stdin to fd; with a known size, exactly that many bytes. */
static int receive(int fd, uint64_t size, const char *path, struct err *err)
{
	uint64_t total = 0;

	for (;;) {
		ssize_t got = read(STDIN_FILENO, copy_bytes, sizeof(copy_bytes));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, errno, "read the content of %s", path);
		if (got == 0)
			break;
		total += (uint64_t)got;
		if (total > size)
			return err_set(err, ERR_INVALID, "more bytes came than were announced");
		int r = io_write_all(fd, copy_bytes, (size_t)got);

		if (r < 0)
			return inside_err(err, -r, "write %s", path);
	}
	if (size != UINT64_MAX && total < size)
		return err_set(err, ERR_INVALID, "only %llu of %llu bytes came",
		               (unsigned long long)total, (unsigned long long)size);
	return 0;
}

struct temp {
	int dir_fd; /* not owned */
	int fd;
	bool named; /* name exists in dir_fd */
	char name[32];
};

static void temp_done(struct temp *temp)
{
	fd_closep(&temp->fd);
	if (temp->named)
		(void)unlinkat(temp->dir_fd, temp->name, 0); /* gone already is as good */
}

/* An unnamed file vanishes by itself when this process is killed; where the file system has none,
 * a named one is removed by temp_done. */
static int temp_open(struct temp *temp, int dir_fd)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	*temp = (struct temp){.dir_fd = dir_fd, .fd = -1};
	(void)snprintf(temp->name, sizeof(temp->name), ".cloche-%016llx",
	               (unsigned long long)random); /* fits */
	if (access("/proc/self/fd", X_OK) == 0)
		temp->fd = openat(dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (temp->fd >= 0)
		return 0;
	temp->fd = openat(dir_fd, temp->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	                  0600);
	if (temp->fd < 0)
		return -errno;
	temp->named = true;
	return 0;
}

static int temp_publish(struct temp *temp, const char *name)
{
	char link[40];

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", temp->fd); /* fits */
	if (fsync(temp->fd) < 0)
		return -errno;
	if (!temp->named && linkat(AT_FDCWD, link, temp->dir_fd, temp->name, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	temp->named = true;
	if (renameat(temp->dir_fd, temp->name, temp->dir_fd, name) < 0)
		return -errno;
	temp->named = false;
	/* A folder opened with O_PATH (no read permission) cannot be synced; the file was. */
	(void)fsync(temp->dir_fd);
	return 0;
}

int inside_write(const struct inside_args *args, struct err *err)
{
	auto_close int dir_fd = -1;
	auto_(temp_done) struct temp temp = {.dir_fd = -1, .fd = -1};
	const char *name;
	mode_t mode;
	struct stat st;

	if (args->parents && inside_make_parents(args->path, err) < 0)
		return -1;
	if (inside_open_parent(args->path, &dir_fd, &name, err) < 0)
		return -1;
	bool exists = fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	if (exists && S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is a folder", args->path);
	if (inside_parse_mode(args->mode, exists && S_ISREG(st.st_mode) ? st.st_mode & 0777 : 0644,
	                      &mode, err) < 0)
		return -1;
	int r = temp_open(&temp, dir_fd);

	if (r < 0)
		return inside_err(err, -r, "%s", args->path);
	if (receive(temp.fd, args->size, args->path, err) < 0)
		return -1;
	if (fchmod(temp.fd, mode) < 0)
		return inside_err(err, errno, "%s", args->path);
	r = temp_publish(&temp, name);
	if (r < 0)
		return inside_err(err, -r, "%s", args->path);
	return 0;
}

static enum record_type type_of(mode_t mode)
{
	static const struct {
		mode_t format;
		enum record_type type;
	} rows[] = {
		{S_IFDIR, RECORD_DIR},     {S_IFLNK, RECORD_SYMLINK}, {S_IFIFO, RECORD_FIFO},
		{S_IFSOCK, RECORD_SOCKET}, {S_IFCHR, RECORD_CHAR},    {S_IFBLK, RECORD_BLOCK},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((mode & S_IFMT) == rows[i].format)
			return rows[i].type;
	return RECORD_FILE;
}

int inside_stat_record(int dir_fd, const char *name, char *target, struct record_stat *ret)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	*ret = (struct record_stat){
		.type = type_of(st.st_mode),
		.mode = st.st_mode & 07777,
		.size = (uint64_t)st.st_size,
		.uid = st.st_uid,
		.gid = st.st_gid,
		.mtime_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000,
		.links = st.st_nlink,
		.inode = st.st_ino,
		.name = name,
		.target = "",
	};
	if (ret->type != RECORD_SYMLINK)
		return 0;
	ssize_t len = readlinkat(dir_fd, name, target, PATH_MAX - 1);

	if (len < 0)
		return errno == EINVAL ? -ENOENT : -errno; /* replaced by something else */
	target[len] = '\0';
	ret->target = target;
	return 0;
}

int inside_stat(const struct inside_args *args, struct err *err)
{
	auto_(buf_done) struct buf buf;
	char target[PATH_MAX];
	struct record_stat record;

	buf_init(&buf, RECORD_BYTES);
	int r = inside_stat_record(AT_FDCWD, args->path, target, &record);

	if (r >= 0)
		r = record_put_stat(&buf, &record);
	if (r < 0)
		return inside_err(err, -r, "%s", args->path);
	return inside_flush(&buf, err);
}

static void dir_closep(DIR **dir)
{
	if (*dir != NULL)
		closedir(*dir);
}

static int list_entry(DIR *dir, const char *name, struct buf *buf, struct err *err)
{
	char target[PATH_MAX];
	struct record_stat record;

	if (str_eq(name, ".") || str_eq(name, ".."))
		return 0;
	int r = inside_stat_record(dirfd(dir), name, target, &record);

	if (r == -ENOENT)
		return 0; /* removed since it was read */
	if (r >= 0)
		r = record_put_stat(buf, &record);
	if (r < 0)
		return inside_err(err, -r, "%s", name);
	return buf_len(buf) < FLUSH_BYTES ? 0 : inside_flush(buf, err);
}

int inside_list(const struct inside_args *args, struct err *err)
{
	auto_close int fd = open(args->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	auto_(buf_done) struct buf buf;

	buf_init(&buf, RECORD_BYTES + FLUSH_BYTES);
	auto_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir == NULL)
		return inside_err(err, errno, "%s", args->path);
	take_fd(&fd);
	for (;;) {
		errno = 0;
		/* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
		const struct dirent *entry = readdir(dir);

		if (entry == NULL && errno != 0)
			return inside_err(err, errno, "list %s", args->path);
		if (entry == NULL)
			return inside_flush(&buf, err);
		if (list_entry(dir, entry->d_name, &buf, err) < 0)
			return -1;
	}
}

int inside_mkdir(const struct inside_args *args, struct err *err)
{
	mode_t mode;
	struct stat st;

	if (inside_parse_mode(args->mode, 0755, &mode, err) < 0)
		return -1;
	if (args->parents && inside_make_parents(args->path, err) < 0)
		return -1;
	if (mkdir(args->path, mode) == 0)
		return 0;
	int sys = errno;

	if (args->parents && sys == EEXIST && stat(args->path, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	return inside_err(err, sys, "%s", args->path);
}

int inside_rename(const struct inside_args *args, struct err *err)
{
	if (rename(args->path, args->to) < 0)
		return inside_err(err, errno, "rename %s to %s", args->path, args->to);
	return 0;
}

/* Processes inside may add entries while we remove: a few rounds, then their conflict is told. */
static int remove_tree(int parent_fd, const char *name)
{
	int r = -ENOTEMPTY;

	for (int round = 0; round < 5 && (r == -ENOTEMPTY || r == -EEXIST); round++) {
		auto_close int fd =
			openat(parent_fd, name,
		               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		r = path_remove_below(fd);
		if (r >= 0)
			r = unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
	}
	return r;
}

int inside_remove(const struct inside_args *args, struct err *err)
{
	auto_close int dir_fd = -1;
	auto_free char *path = mem_strdup(args->path);
	const char *name;

	/* "folder/", as completion leaves it, means the folder. */
	for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	if (inside_open_parent(path, &dir_fd, &name, err) < 0)
		return -1;
	if (unlinkat(dir_fd, name, 0) == 0)
		return 0;
	/* Linux says EISDIR, POSIX says EPERM; EPERM is also "not yours", told by the next call. */
	int r = -errno;

	if (r == -EISDIR || r == -EPERM) {
		r = unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
		if (r == -ENOTDIR)
			r = -EPERM;
		if ((r == -ENOTEMPTY || r == -EEXIST) && args->recursive)
			r = remove_tree(dir_fd, name);
	}
	if (r < 0)
		return inside_err(err, -r, "%s", args->path);
	return 0;
}
