/*
 * Who: the broker at start. Capabilities: CHOWN. Bytes: files of /etc that belong to root and that
 * everybody may read; copied, never interpreted. Gone at the end: half-made layers (they are built as
 * ".new-…" and renamed).
 */
#include "broker/hostimage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/layer.h"
#include "os/path.h"

enum {
	AGENT_ID = 1000,
	HOST_FILE_MAX = 16 * 1024 * 1024,
	HOST_TOTAL_MAX = 64 * 1024 * 1024,
	HOST_DEPTH = 6,
};

static const struct {
	const char *path;
	mode_t mode;
	uint32_t id;
} host_dirs[] = {
	{"boot", 0755, 0},	      {"dev", 0755, 0},		 {"etc", 0755, 0},
	{"etc/ssl", 0755, 0},	      {"etc/pki", 0755, 0},	 {"etc/pki/ca-trust", 0755, 0},
	{"etc/pki/tls", 0755, 0},     {"etc/profile.d", 0755, 0}, {"home", 0755, 0},
	{"home/agent", 0755, AGENT_ID}, {"media", 0755, 0},	 {"mnt", 0755, 0},
	{"opt", 0755, 0},	      {"proc", 0555, 0},	 {"root", 0700, 0},
	{"run", 0755, 0},	      {"srv", 0755, 0},		 {"sys", 0555, 0},
	{"tmp", 01777, 0},	      {"var", 0755, 0},		 {"var/cache", 0755, 0},
	{"var/lib", 0755, 0},	      {"var/local", 0755, 0},	 {"var/log", 0755, 0},
	{"var/opt", 0755, 0},	      {"var/spool", 0755, 0},	 {"var/tmp", 01777, 0},
	{"workspace", 0755, AGENT_ID},
};

static const struct {
	const char *path;
	const char *text;
} host_texts[] = {
	{"etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
		       "agent:x:1000:1000:agent:/home/agent:/bin/bash\n"
		       "cloche-init:x:60999:60999::/:/usr/sbin/nologin\n"
		       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"etc/group", "root:x:0:\ntty:x:5:\nagent:x:1000:\ncloche-init:x:60999:\nnogroup:x:65534:\n"},
	{"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
			      "networks: files\nprotocols: files\nservices: files\n"},
	{"etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"},
	{"etc/host.conf", "multi on\n"},
	{"etc/hostname", "cloche\n"},
	{"etc/resolv.conf", "# no network: nothing resolves here\n"},
	{"etc/shells", "/bin/sh\n/bin/bash\n/usr/bin/bash\n"},
	{"etc/fstab", ""},
	{"etc/machine-id", ""},
};

static const char *const host_files[] = {
#define HOST_FILE(path) path,
#include "broker/host_files.def"
#undef HOST_FILE
};

/* A copy in progress: where to, whose, and how much may still come. */
struct copying {
	const struct site *site;
	uint64_t room;
};

static int own(const struct copying *copying, int dir_fd, const char *name, uint32_t id)
{
	uint32_t stored = site_stored_id(copying->site, id);
	return fchownat(dir_fd, name, stored, stored, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_file(struct copying *copying, int from_dir, const char *name, int to_dir,
		     const struct stat *st)
{
	if (st->st_size > HOST_FILE_MAX || (uint64_t)st->st_size > copying->room)
		return 0; /* not what a configuration file looks like */
	auto_free char *bytes = NULL;
	size_t len;
	int r = io_read_file(from_dir, name, HOST_FILE_MAX, &bytes, &len);
	if (r < 0)
		return r == -ENOENT || r == -ELOOP ? 0 : r;
	auto_close int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				   0600);
	if (to < 0)
		return -errno;
	copying->room -= MIN((uint64_t)len, copying->room);
	r = io_write_all(to, bytes, len);
	if (r == 0 && fchmod(to, st->st_mode & 0755) < 0)
		r = -errno;
	return r < 0 ? r : own(copying, to_dir, name, 0);
}

static int copy_link(struct copying *copying, int from_dir, const char *name, int to_dir)
{
	char target[LIMIT_PATH_LEN + 1];
	ssize_t len = readlinkat(from_dir, name, target, sizeof(target) - 1);
	if (len < 0)
		return -errno;
	target[len] = '\0';
	if (symlinkat(target, to_dir, name) < 0)
		return -errno;
	return own(copying, to_dir, name, 0);
}

static int copy_entry(struct copying *copying, int from_dir, const char *name, int to_dir, int depth);

static int copy_dir(struct copying *copying, int from_dir, const char *name, int to_dir, int depth)
{
	int from = path_open_plain(from_dir, name, O_RDONLY | O_DIRECTORY, 0);
	if (from < 0)
		return from;
	DIR *dir = fdopendir(from);
	if (!dir) {
		close(from);
		return -errno;
	}
	auto_close int to = path_dir(to_dir, name, 0755);
	int r = to < 0 ? to : own(copying, to_dir, name, 0);
	for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			r = copy_entry(copying, from, entry->d_name, to, depth + 1);
	closedir(dir);
	return r;
}

/* What is not root's, not readable by everybody, or neither file, link nor directory is left out. */
/* NOLINTNEXTLINE(misc-no-recursion): bounded by HOST_DEPTH */
static int copy_entry(struct copying *copying, int from_dir, const char *name, int to_dir, int depth)
{
	struct stat st;
	if (depth > HOST_DEPTH || fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	/* A user namespace shows host root as the overflow id: readable by all is what counts there. */
	bool is_roots = st.st_uid == 0 || copying->site->is_rootless;
	if (!is_roots || !(st.st_mode & S_IROTH))
		return 0;
	if (S_ISLNK(st.st_mode))
		return copy_link(copying, from_dir, name, to_dir);
	if (S_ISREG(st.st_mode))
		return copy_file(copying, from_dir, name, to_dir, &st);
	return S_ISDIR(st.st_mode) ? copy_dir(copying, from_dir, name, to_dir, depth) : 0;
}

/* `path` may have a directory before its last name; host_dirs has made that one. */
static int copy_host_file(struct copying *copying, int etc, int tree_etc, const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return copy_entry(copying, etc, path, tree_etc, 0);
	auto_free char *parent = mem_strndup(path, (size_t)(slash - path));
	auto_close int from = path_open_plain(etc, parent, O_RDONLY | O_DIRECTORY, 0);
	if (from < 0)
		return from == -ENOENT || from == -ELOOP ? 0 : from;
	auto_close int to = path_open_plain(tree_etc, parent, O_RDONLY | O_DIRECTORY, 0);
	return to < 0 ? to : copy_entry(copying, from, slash + 1, to, 0);
}

/* On a merged system /bin is a link to usr/bin: the same link; elsewhere a place to bind onto. */
static int make_top_names(struct copying *copying, int tree)
{
	static const char *const names[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		struct stat st;
		if (root < 0 || fstatat(root, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		int r = 0;
		if (S_ISLNK(st.st_mode))
			r = copy_link(copying, root, names[i], tree);
		else if (mkdirat(tree, names[i], 0755) < 0)
			r = -errno;
		if (r < 0)
			return r;
	}
	if (symlinkat("/run", tree, "var/run") < 0 || symlinkat("/run/lock", tree, "var/lock") < 0 ||
	    symlinkat("/proc/self/mounts", tree, "etc/mtab") < 0)
		return -errno;
	return 0;
}

static int make_dirs_and_texts(struct copying *copying, int tree)
{
	for (size_t i = 0; i < ARRAY_LEN(host_dirs); i++) {
		auto_close int dir = path_dir(tree, host_dirs[i].path, 0700);
		if (dir < 0)
			return dir;
		if (fchmod(dir, host_dirs[i].mode) < 0)
			return -errno;
		int r = own(copying, tree, host_dirs[i].path, host_dirs[i].id);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_LEN(host_texts); i++) {
		auto_close int fd = openat(tree, host_texts[i].path,
					   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
		if (fd < 0)
			return -errno;
		int r = io_write_all(fd, host_texts[i].text, strlen(host_texts[i].text));
		if (r == 0 && fchmod(fd, 0644) < 0)
			r = -errno;
		if (r == 0)
			r = own(copying, tree, host_texts[i].path, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A home like a new user's. */
static int fill_home(struct copying *copying, int etc, int tree)
{
	static const char *const names[] = {".bashrc", ".profile", ".bash_logout"};
	auto_close int skel = path_open_plain(etc, "skel", O_RDONLY | O_DIRECTORY, 0);
	auto_close int home = path_open_plain(tree, "home/agent", O_RDONLY | O_DIRECTORY, 0);
	for (size_t i = 0; skel >= 0 && home >= 0 && i < ARRAY_LEN(names); i++) {
		struct stat st;
		int r = copy_entry(copying, skel, names[i], home, 0);
		if (r == 0 && fstatat(home, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			r = own(copying, home, names[i], AGENT_ID);
		if (r < 0)
			return r;
	}
	return home < 0 ? home : 0;
}

static int fill_tree(const struct site *site, int tree)
{
	struct copying copying = {site, HOST_TOTAL_MAX};
	int r = make_dirs_and_texts(&copying, tree);
	if (r == 0)
		r = make_top_names(&copying, tree);
	auto_close int etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int tree_etc = r < 0 ? -1 : path_open_plain(tree, "etc", O_RDONLY | O_DIRECTORY, 0);
	if (r == 0 && (etc < 0 || tree_etc < 0))
		return etc < 0 ? -errno : tree_etc;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(host_files); i++)
		r = copy_host_file(&copying, etc, tree_etc, host_files[i]);
	return r < 0 ? r : fill_home(&copying, etc, tree);
}

/* Changes when this program does, or when packages changed what we copy. */
static char *make_stamp(void)
{
	static const char *const paths[] = {"/etc", "/etc/alternatives", "/etc/ld.so.cache",
					    "/etc/ssl/certs", "/etc/localtime"};
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct stat st;
		uint64_t value = 0;
		if (stat(paths[i], &st) == 0)
			value = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
		hash = (hash ^ value) * UINT64_C(0x100000001b3);
	}
	return mem_printf("%s-%016llx", CLOCHE_VERSION, (unsigned long long)hash);
}

bool hostimage_is(const struct site *site, const char *layer_id)
{
	auto_free char *path = mem_printf("%s/host", layer_id);
	struct stat st;
	return fstatat(site->state.layers_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int build(struct site *site, const char *stamp, struct err *err)
{
	struct id id = id_new("ly");
	auto_close int dir = layer_begin(site, id.text, err);
	if (dir < 0)
		return -1;
	auto_close int tree = path_dir(dir, "tree", 0755);
	int r = tree < 0 ? tree : fill_tree(site, tree);
	if (r == 0 && fchmod(tree, 0755) < 0)
		r = -errno;
	uint32_t root = site_stored_id(site, 0);
	if (r == 0 && fchown(tree, root, root) < 0)
		r = -errno;
	if (r == 0)
		r = io_replace_file(dir, "host", stamp, strlen(stamp), 0600);
	if (r < 0) {
		layer_abandon(site, id.text);
		return err_sys(err, -r, "build the host image");
	}
	if (layer_commit(site, id.text, err) < 0)
		return -1;
	memcpy(site->host_layer, id.text, sizeof(site->host_layer));
	return 0;
}

struct search {
	struct site *site;
	const char *stamp;
};

static int match(const char *id, void *ctx)
{
	struct search *search = ctx;
	auto_free char *path = mem_printf("%s/host", id);
	auto_free char *text = NULL;
	size_t len;
	if (io_read_file(search->site->state.layers_fd, path, 256, &text, &len) < 0)
		return 0;
	if (str_eq(text, search->stamp)) {
		memcpy(search->site->host_layer, id, strlen(id) + 1);
		return 0;
	}
	/* Replaced: goes unless a running sandbox stands on it, and then at a later start. */
	struct err err = {0};
	(void)!layer_remove(search->site, id, &err);
	return 0;
}

int hostimage_prepare(struct site *site, struct err *err)
{
	auto_free char *stamp = make_stamp();
	struct search search = {site, stamp};
	site->host_layer[0] = '\0';
	int r = layer_each(site, match, &search);
	if (r < 0)
		return err_sys(err, -r, "list the layers");
	return site->host_layer[0] ? 0 : build(site, stamp, err);
}
