#include "keeper/inside_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "keeper/uplink.h"
#include "os/path.h"

enum { AGENT_ID = 1000, PASSWD_MAX = 1024 * 1024 };

static const struct {
	const char *path;
	mode_t mode;
	uint32_t id;
} dirs[] = {
	{"/proc", 0555, 0},
	{"/sys", 0555, 0},
	{"/dev", 0755, 0},
	{"/run/cloche", 0755, 0},
	{"/tmp", 01777, 0},
	{"/etc", 0755, 0},
	{"/root", 0700, 0},
	{"/home", 0755, 0},
	{"/home/agent", 0755, AGENT_ID},
	{"/workspace", 0755, AGENT_ID},
};

/* With one id only, everything is the agent's. */
static uid_t host_id(const struct inside_files_owner *owner, uint32_t id)
{
	return owner->count > id ? owner->base + id : owner->base;
}

static int make_dir(int root_fd, size_t i, const struct inside_files_owner *owner)
{
	auto_close int dir = path_open_in_root(root_fd, dirs[i].path, O_PATH | O_DIRECTORY, 0);
	if (dir >= 0)
		return 0;
	uid_t id = host_id(owner, dirs[i].id);
	int r = path_make_dirs(root_fd, dirs[i].path, dirs[i].mode, id, id, &dir);
	if (r < 0)
		return r;
	char self[32];
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", dir);
	return chmod(self, dirs[i].mode) < 0 ? -errno : 0; /* the umask may have cut it */
}

/* Replaces a file of /etc with our text. The old entry is unlinked first: if the image made it a
 * link, the link goes, not what it points to. */
static int put_file(int etc, const char *name, const char *text, uid_t owner)
{
	if (unlinkat(etc, name, 0) < 0 && errno != ENOENT)
		return errno == EISDIR
		               ? 0
		               : -errno; /* root inside wanted it so: no reason not to start */
	auto_close int fd =
		openat(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	int r = io_write_all(fd, text, strlen(text));
	if (r < 0)
		return r;
	return fchown(fd, owner, owner) < 0 ? -errno : 0;
}

/* True if some line of a passwd or group file has this number in its third field. */
static bool has_id(const char *text, const char *needle)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		const char *field = strchr(line, ':');
		field = field ? strchr(field + 1, ':') : NULL;
		if (field && strncmp(field + 1, needle, strlen(needle)) == 0)
			return true;
	}
	return false;
}

/* Images from elsewhere do not know the agent: give the id a name, so that prompts and tools work.
 */
static int add_account(int etc, const char *name, const char *line)
{
	/* To open it for writing copies it out of the image, which takes a millisecond: only when
	 * there is something to write. */
	auto_close int fd = path_open_plain(etc, name, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd == -ENOENT || fd == -ELOOP || fd == -EISDIR || fd == -ENXIO ? 0 : fd;
	struct stat st;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	auto_free char *text = NULL;
	size_t len;
	int r = io_read_file(etc, name, PASSWD_MAX, &text, &len);
	if (r < 0)
		return r;
	if (has_id(text, "1000:"))
		return 0;
	auto_close int out = path_open_plain(etc, name, O_WRONLY | O_APPEND | O_NONBLOCK, 0);
	if (out < 0)
		return out;
	if (len > 0 && text[len - 1] != '\n')
		r = io_write_all(out, "\n", 1);
	return r < 0 ? r : io_write_all(out, line, strlen(line));
}

/* A file as put_file makes them is written over: an overlay takes its time to unlink and create.
 * Nothing runs inside that could put another in its place. It is opened empty, because an overlay
 * copies what it has otherwise, and an image may have any amount. */
static int put_again(int etc, const char *name, const char *text, uid_t owner)
{
	struct stat st;
	if (fstatat(etc, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_nlink != 1 || st.st_uid != owner || (st.st_mode & 07777) != 0644)
		return put_file(etc, name, text, owner);
	auto_close int fd = path_open_plain(etc, name, O_WRONLY | O_TRUNC | O_NONBLOCK, 0);
	return fd < 0 ? put_file(etc, name, text, owner) : io_write_all(fd, text, strlen(text));
}

/* Into a folder of our own, in which it is not yet, as whoever it belongs to. */
static int put_first(int etc, const char *name, const char *text, uid_t owner)
{
	auto_close int fd =
		openat(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? -errno : io_write_all(fd, text, strlen(text));
}

typedef int (*put_fn)(int etc, const char *name, const char *text, uid_t owner);

static int put_hostname(int etc, const char *hostname, uid_t root_id, put_fn put)
{
	char hosts[256], name[80];
	(void)snprintf(hosts, sizeof(hosts),
	               "127.0.0.1\tlocalhost %s\n::1\tlocalhost ip6-localhost ip6-loopback\n",
	               hostname);
	(void)snprintf(name, sizeof(name), "%s\n", hostname);
	int r = put(etc, "hosts", hosts, root_id);
	return r < 0 ? r : put(etc, "hostname", name, root_id);
}

static int put_names(int etc, const char *hostname, uid_t root_id, put_fn put)
{
	int r = put_hostname(etc, hostname, root_id, put);
	return r < 0 ? r
	             : put(etc, "resolv.conf",
	                   "nameserver " UPLINK_GATEWAY_V4 "\noptions timeout:3 attempts:2\n",
	                   root_id);
}

int inside_files_first(int etc_fd, const char *hostname)
{
	return put_names(etc_fd, hostname, (uid_t)-1, put_first);
}

static int fill_etc(int etc, const char *hostname, uid_t root_id)
{
	int r = put_names(etc, hostname, root_id, put_again);
	if (r >= 0)
		r = add_account(etc, "passwd", "agent:x:1000:1000:agent:/home/agent:/bin/sh\n");
	if (r >= 0)
		r = add_account(etc, "group", "agent:x:1000:\n");
	return r;
}

/* Our own agent is the program inside under another name. */
static int link_agent(int root_fd, struct err *err)
{
	auto_close int dir = path_open_in_root(root_fd, "/run/cloche", O_PATH | O_DIRECTORY, 0);
	if (dir < 0)
		return err_sys(err, -dir, "open /run/cloche");
	if (symlinkat("cloche", dir, "cloche-agent") < 0 && errno != EEXIST)
		return err_sys(err, errno, "link cloche-agent");
	return 0;
}

int inside_files_prepare(int root_fd, const char *hostname, const struct inside_files_owner *owner,
                         struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		int r = make_dir(root_fd, i, owner);
		if (r < 0)
			return err_sys(err, -r, "make %s in the image", dirs[i].path);
	}
	auto_close int etc = path_open_plain(root_fd, "etc", O_RDONLY | O_DIRECTORY, 0);
	if (etc < 0)
		return err_sys(err, -etc, "open /etc of the image");
	int r = fill_etc(etc, hostname, host_id(owner, 0));
	if (r < 0)
		return err_sys(err, -r, "fill /etc");
	return link_agent(root_fd, err);
}

int inside_files_hostname(int root_fd, const char *hostname, const struct inside_files_owner *owner)
{
	auto_close int etc = path_open_plain(root_fd, "etc", O_RDONLY | O_DIRECTORY, 0);
	return etc < 0 ? etc : put_hostname(etc, hostname, host_id(owner, 0), put_again);
}

/* Only these are on the disk from the start. Whatever else is changed is copied up or made first,
 * which shows in the number of inodes; these can be written over without that. */
uint64_t inside_files_mark(int disk_fd)
{
	static const char *const paths[] = {
		"upper",
		"upper/etc",
		"upper/etc/hosts",
		"upper/etc/hostname",
		"upper/etc/resolv.conf",
		"upper/etc/passwd",
		"upper/etc/group",
		"upper/run",
		"upper/run/cloche",
		"upper/tmp",
		"upper/root",
		"upper/home",
		"upper/home/agent",
		"upper/workspace",
		"workspace",
	};
	uint64_t mark = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct stat st = {0};
		if (fstatat(disk_fd, paths[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			st = (struct stat){.st_size = errno};
		const uint64_t parts[] = {st.st_ino, st.st_mode, (uint64_t)st.st_size,
		                          (uint64_t)st.st_ctim.tv_sec,
		                          (uint64_t)st.st_ctim.tv_nsec};
		for (size_t k = 0; k < ARRAY_LEN(parts); k++)
			mark = (mark ^ parts[k]) * UINT64_C(0x100000001b3);
	}
	return mark;
}

/* Whose what is made on the way to a target is: of whoever has the folder it is made in. A mount
 * below a home must not take the home's folders away from its owner. */
static void owner_above(int root_fd, const char *path, uid_t *ret_uid, gid_t *ret_gid)
{
	char above[4096];
	struct stat st;
	size_t len = strlen(path);
	*ret_uid = (uid_t)-1;
	*ret_gid = (gid_t)-1;
	if (len >= sizeof(above))
		return;
	memcpy(above, path, len + 1);
	for (;;) {
		auto_close int fd =
			path_open_in_root(root_fd, above[0] ? above : "/", O_PATH | O_DIRECTORY, 0);
		if (fd >= 0 && fstat(fd, &st) == 0) {
			*ret_uid = st.st_uid;
			*ret_gid = st.st_gid;
			return;
		}
		char *slash = strrchr(above, '/');
		if (!slash || !above[0])
			return;
		*slash = 0;
	}
}

int inside_files_target(int root_fd, const char *path, int source_fd, int *ret_fd)
{
	struct stat st;
	uid_t uid;
	gid_t gid;
	if (fstat(source_fd, &st) < 0)
		return -errno;
	owner_above(root_fd, path, &uid, &gid);
	if (S_ISDIR(st.st_mode))
		return path_make_dirs(root_fd, path, 0755, uid, gid, ret_fd);
	char parent[4096];
	const char *slash = strrchr(path, '/');
	if (!slash || (size_t)(slash - path) >= sizeof(parent))
		return -ENAMETOOLONG;
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = 0;
	auto_close int dir = -1;
	int r = path_make_dirs(root_fd, parent[0] ? parent : "/", 0755, uid, gid, &dir);
	if (r < 0)
		return r;
	/* One that is there is only a place: never opened, so it may be of any kind. */
	auto_close int made = openat(dir, slash + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (made < 0 && errno != EEXIST)
		return -errno;
	*ret_fd = path_open_plain(dir, slash + 1, O_PATH, 0);
	return *ret_fd < 0 ? *ret_fd : 0;
}
