/*
 * Who: the broker's loop. Capabilities: whatever opening the path again needs. Bytes: paths the
 * kernel prints for a descriptor; a `grants` file root wrote. Gone at the end: descriptors of used
 * and expired grants.
 *
 * The descriptor comes from the command line's mount namespace. Mounts can only be cloned in the
 * namespace they belong to, so the same object is opened again in ours, by the kernel's name for
 * it, and compared by device and inode: a path that leads elsewhere meanwhile is refused, not
 * followed.
 */
#include "broker/grant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/box.h"
#include "os/path.h"

enum { GRANT_WALK_MAX = 256, GRANT_FILE_MAX = 128 * 1024 };

/* Kernel interfaces in the shape of files: never something to hand to a sandbox. */
static const long kernel_filesystems[] = {
	PROC_SUPER_MAGIC,   SYSFS_MAGIC,
	CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
	DEBUGFS_MAGIC,      TRACEFS_MAGIC,
	SECURITYFS_MAGIC,   BPF_FS_MAGIC,
	DEVPTS_SUPER_MAGIC, PSTOREFS_MAGIC,
	EFIVARFS_MAGIC,     SELINUX_MAGIC,
	NSFS_MAGIC,         0x62656570 /* configfs */,
};

void grant_done(struct grant *grant)
{
	fd_closep(&grant->fd);
	mem_freep(&grant->path);
}

void grants_done(struct grants *grants)
{
	for (size_t i = 0; i < grants->count; i++)
		grant_done(&grants->items[i]);
	mem_freep(&grants->items);
	grants->count = 0;
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* 1: some directory from fd up to the root is one of `wanted`; 0: none; -errno. */
static int walks_through(int fd, const struct stat *wanted, size_t count)
{
	auto_close int at = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st, last = {0};
	for (int depth = 0; depth < GRANT_WALK_MAX; depth++) {
		if (at < 0 || fstat(at, &st) < 0)
			return -errno;
		for (size_t i = 0; i < count; i++)
			if (same(&st, &wanted[i]))
				return 1;
		if (depth > 0 && same(&st, &last))
			return 0; /* ".." of the root is the root */
		last = st;
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		fd_closep(&at);
		at = up;
	}
	return -ELOOP;
}

/* The folder a file is in, in our namespace. */
static int open_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	auto_free char *parent =
		slash == path ? mem_strdup("/") : mem_strndup(path, (size_t)(slash - path));
	int fd = open(parent, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Neither contains the state directory nor lies in it: a sandbox that could write there would be
 * its own keeper. Also for a folder of it that is mounted somewhere else. */
static int check_apart(const struct state *state, int fd, const struct stat *st, const char *path,
                       struct err *err)
{
	struct stat ours[4] = {0};
	const int ours_fds[] = {state->dir_fd, state->sandboxes_fd, state->layers_fd,
	                        state->run_fd};
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (fstat(ours_fds[i], &ours[i]) < 0)
			return err_sys(err, errno, "look at the state directory");
	auto_close int start =
		S_ISDIR(st->st_mode) ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : open_parent(path);
	if (start < 0)
		return err_set(err, ERR_INVALID, "%s cannot be reached", path);
	int inside = walks_through(start, ours, ARRAY_LEN(ours));
	int around = S_ISDIR(st->st_mode) ? walks_through(state->dir_fd, st, 1) : 0;
	if (inside < 0 || around < 0)
		return err_set(err, ERR_FORBIDDEN, "cannot tell where %s lies", path);
	if (inside)
		return err_set(err, ERR_FORBIDDEN, "%s lies in the state directory", path);
	if (around)
		return err_set(err, ERR_FORBIDDEN, "%s contains the state directory", path);
	return 0;
}

static int check_kind(int fd, const struct stat *st, const char *path, struct err *err)
{
	if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
		return err_set(err, ERR_FORBIDDEN, "%s is neither a folder nor a regular file",
		               path);
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0)
		return err_sys(err, errno, "look at %s", path);
	for (size_t i = 0; i < ARRAY_LEN(kernel_filesystems); i++)
		if ((long)fs.f_type == kernel_filesystems[i])
			return err_set(err, ERR_FORBIDDEN, "%s belongs to the kernel", path);
	return 0;
}

static int check_path(const char *path, struct err *err)
{
	if (path[0] != '/' || str_has_suffix(path, " (deleted)"))
		return err_set(err, ERR_INVALID, "the folder has no path any more");
	for (const char *at = path; *at; at++)
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			return err_set(err, ERR_INVALID, "control characters in the path");
	return 0;
}

/* Opens path in our namespace and applies every rule. */
static int open_checked(const struct state *state, const char *path, struct grant *ret,
                        struct stat *ret_st, struct err *err)
{
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd =
		root < 0 ? -errno : path_open_plain(root, path[1] ? path + 1 : ".", O_PATH, 0);
	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, "%s cannot be opened: %s", path, strerror(-fd));
	if (fstat(fd, ret_st) < 0)
		return err_sys(err, errno, "look at %s", path);
	if (check_kind(fd, ret_st, path, err) < 0 || check_apart(state, fd, ret_st, path, err) < 0)
		return -1;
	ret->fd = take_fd(&fd);
	ret->owner = ret_st->st_uid;
	ret->path = mem_strdup(path);
	return 0;
}

static int path_of(int fd, char *out, size_t size, struct err *err)
{
	char link[32];
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, out, size - 1);
	if (len < 0)
		return err_sys(err, errno, "name the granted folder");
	out[len] = '\0';
	if ((size_t)len == size - 1)
		return err_set(err, ERR_INVALID, "the path of the folder is too long");
	return check_path(out, err);
}

int grants_add(struct grants *grants, const struct state *state, int fd, bool read_only,
               struct id *ret_id, struct err *err)
{
	grants_expire(grants, io_boot_ms());
	if (grants->count == GRANT_MAX)
		return err_set(err, ERR_LIMITED, "%d grants wait for a launch already", GRANT_MAX);
	auto_free char *path = mem_zalloc(LIMIT_PATH_LEN + 1);
	struct stat given = {0}, found = {0};
	if (fstat(fd, &given) < 0)
		return err_sys(err, errno, "look at the granted folder");
	if (path_of(fd, path, LIMIT_PATH_LEN + 1, err) < 0)
		return -1;
	struct grant grant = {.fd = -1};
	if (open_checked(state, path, &grant, &found, err) < 0)
		return -1;
	if (!same(&given, &found)) {
		grant_done(&grant);
		return err_set(err, ERR_INVALID, "%s is something else for the service", path);
	}
	grant.id = id_new("gr");
	grant.read_only = read_only;
	grant.expires_ms = io_boot_ms() + GRANT_LIFE_MS;
	grants->items = mem_resize(grants->items, grants->count + 1, sizeof(*grants->items));
	grants->items[grants->count++] = grant;
	*ret_id = grant.id;
	return 0;
}

static struct grant take_at(struct grants *grants, size_t index)
{
	struct grant taken = grants->items[index];
	grants->items[index] = grants->items[--grants->count];
	return taken;
}

void grants_expire(struct grants *grants, uint64_t now_ms)
{
	for (size_t i = grants->count; i-- > 0;) {
		if (grants->items[i].expires_ms > now_ms)
			continue;
		struct grant old = take_at(grants, i);
		grant_done(&old);
	}
}

/* One line of a `grants` file: id TAB ro|rw TAB path. */
static bool line_is(const char *line, size_t len, const char *id)
{
	size_t id_len = strlen(id);
	return len > id_len + 4 && memcmp(line, id, id_len) == 0 && line[id_len] == '\t' &&
	       line[id_len + 3] == '\t';
}

/* Opens what a line names, with every check anew. */
static int open_line(const struct state *state, const char *line, size_t len, const char *id,
                     struct grant *ret, struct err *err)
{
	size_t at = strlen(id) + 4;
	auto_free char *path = mem_strndup(line + at, len - at);
	struct stat st;
	ret->read_only = memcmp(line + at - 3, "ro", 2) == 0;
	if (!str_copy(ret->id.text, sizeof(ret->id.text), id))
		return err_set(err, ERR_INVALID, "malformed grant id");
	return check_path(path, err) < 0 ? -1 : open_checked(state, path, ret, &st, err);
}

static int reopen(const struct state *state, int box_fd, const char *id, struct grant *ret,
                  struct err *err)
{
	auto_free char *text = NULL;
	size_t text_len;
	if (box_fd < 0 || io_read_file(box_fd, "grants", GRANT_FILE_MAX, &text, &text_len) < 0)
		return err_set(err, ERR_NOT_FOUND, "there is no grant %s (they last ten minutes)",
		               id);
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		if (line_is(line, len, id))
			return open_line(state, line, len, id, ret, err);
		line += len + (line[len] == '\n');
	}
	return err_set(err, ERR_NOT_FOUND, "there is no grant %s (they last ten minutes)", id);
}

static size_t find(const struct grants *grants, const char *id)
{
	size_t i = 0;
	while (i < grants->count && !str_eq(grants->items[i].id.text, id))
		i++;
	return i;
}

int grants_use(struct grants *grants, const struct state *state, const struct grant_use *use,
               struct grant *ret, struct err *err)
{
	*ret = (struct grant){.fd = -1};
	grants_expire(grants, io_boot_ms());
	size_t i = find(grants, use->id);
	if (i < grants->count)
		*ret = take_at(grants, i);
	else if (reopen(state, use->box_fd, use->id, ret, err) < 0)
		return -1;
	if (ret->read_only && !use->read_only) {
		err_set(err, ERR_FORBIDDEN, "%s was granted for reading only", ret->path);
		grant_done(ret);
		return -1;
	}
	return 0;
}

void grants_restore(struct grants *grants, struct grant *grant)
{
	grant->expires_ms = io_boot_ms() + GRANT_LIFE_MS;
	grants->items = mem_resize(grants->items, grants->count + 1, sizeof(*grants->items));
	grants->items[grants->count++] = *grant;
	*grant = (struct grant){.fd = -1};
}

int grants_return(struct grants *grants, const struct state *state, int box_fd, struct err *err)
{
	auto_free char *text = NULL;
	size_t text_len;
	int r = io_read_file(box_fd, "grants", GRANT_FILE_MAX, &text, &text_len);
	if (r == -ENOENT)
		return 0;
	/* The sandbox loses them first: nobody has them twice. */
	if (r < 0 || unlinkat(box_fd, "grants", 0) < 0)
		return err_sys(err, r < 0 ? -r : errno, "take the grants back");
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		auto_free char *id = mem_strndup(line, strcspn(line, "\t\n"));
		struct grant grant = {.fd = -1};
		/* One that cannot be opened any more is said to be missing by who asks for it. */
		struct err gone = {0};
		if (id_is_valid(id, "gr") && line_is(line, len, id) &&
		    find(grants, id) == grants->count &&
		    open_line(state, line, len, id, &grant, &gone) == 0)
			grants_restore(grants, &grant);
		line += len + (line[len] == '\n');
	}
	return 0;
}

int grants_record(int box_fd, const struct grant *items, size_t count, struct err *err)
{
	if (count == 0)
		return 0;
	struct buf buf;
	buf_init(&buf, GRANT_FILE_MAX);
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = buf_printf(&buf, "%s\t%s\t%s\n", items[i].id.text,
		               items[i].read_only ? "ro" : "rw", items[i].path);
	if (r == 0) {
		auto_free char *text = buf_take_string(&buf);
		r = box_write(box_fd, "grants", text);
	}
	buf_done(&buf);
	return r < 0 ? err_sys(err, -r, "write the grants down") : 0;
}
