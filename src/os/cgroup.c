/*
 * What both versions have in common: folders, attaching, waiting. A group is
 * <base>/cloche/<name>/{own,work} on v2. On v1 there is a tree a controller, and every folder costs
 * time at each start and end, and one that counts memory a lot of it: there <base>/cloche/<name> is
 * the work, and our own processes are in <base>/cloche. But one tree, the roll, has both a top with
 * our own processes and the work below it: it says who belongs to a sandbox.
 */
#include "os/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "os/cgroup_internal.h"
#include "os/path.h"

enum {
	CONTROL_BYTES = 64 * 1024,
	PROCS_BYTES = 4 * 1024 * 1024,
	PATIENCE_MS = 25,
	NAME_BYTES = 256,
	FEW_BYTES = 32 * 1024
};

static const char *const part_names[CGROUP_PARTS_] = {
	[CGROUP_TOP] = ".",
	[CGROUP_OWN] = "own",
	[CGROUP_WORK] = "work",
};

static const struct cgroup_limits own_limits = {
	.memory = CGROUP_OWN_MEMORY,
	.cpu_milli = UINT64_MAX,
	.pids = 64,
};

static const struct cgroup_ops *ops_of(int version)
{
	return version == 2 ? &cgroup_v2_ops : &cgroup_v1_ops;
}

static bool is_folder_name(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/') && strcmp(name, CGROUP_LEAF) != 0;
}

int cgroup_write(int dir, const char *file, const char *text)
{
	int r = io_write_ctl(dir, file, text);

	return r == -ENOENT ? 0 : r;
}

int cgroup_write_number(int dir, const char *file, uint64_t number)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number); /* fits */
	return cgroup_write(dir, file, text);
}

uint64_t cgroup_number(int dir, const char *file, const char *key)
{
	auto_free char *text = NULL;
	size_t len;

	if (io_read_file(dir, file, CONTROL_BYTES, &text, &len) < 0)
		return 0;
	if (!key)
		return strtoull(text, NULL, 10);
	size_t key_len = strlen(key);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, key_len) == 0 && line[key_len] == ' ')
			return strtoull(line + key_len, NULL, 10);
	}
	return 0;
}

static int read_procs(int dir, char **ret)
{
	size_t len;

	return io_read_file(dir, "cgroup.procs", PROCS_BYTES, ret, &len);
}

int cgroup_signal_all(int dir)
{
	auto_free char *text = NULL;
	int count = 0;
	int r = read_procs(dir, &text);

	if (r < 0)
		return r;
	for (char *rest = text, *end = NULL;; rest = end) {
		long pid = strtol(rest, &end, 10);
		if (end == rest)
			return count;
		/* 0 is a process our pid namespace does not show; ESRCH one that is just gone. */
		if (pid > 0 && kill((pid_t)pid, SIGKILL) < 0 && errno != ESRCH)
			return -errno;
		count++;
	}
}

bool cgroup_is_empty(int dir)
{
	auto_free char *text = NULL;
	int r = read_procs(dir, &text);

	return r == -ENOENT || r == -ENODEV || (r == 0 && *text == '\0');
}

void cgroup_init(struct cgroup *cgroup)
{
	cgroup->version = 0;
	for (int i = 0; i < CGROUP_CONTROLLERS_; i++) {
		for (int part = 0; part < CGROUP_PARTS_; part++)
			cgroup->dir[i][part] = -1;
	}
}

void cgroup_done(struct cgroup *cgroup)
{
	for (int i = 0; i < CGROUP_CONTROLLERS_; i++) {
		for (int part = 0; part < CGROUP_PARTS_; part++)
			fd_closep(&cgroup->dir[i][part]);
	}
}

static int open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

/* On v1 only memory has something to hand on. */
static int enable_folder(const struct cgroup_layout *layout, size_t hierarchy, int dir)
{
	return layout->version == 2 || hierarchy == CGROUP_MEMORY
	               ? ops_of(layout->version)->enable(dir)
	               : 0;
}

/* v1: the last hierarchy there is, which is that of the freezer where there is one. */
static size_t roll_of(const struct cgroup_layout *layout)
{
	size_t roll = cgroup_hierarchies(layout->version) - 1;

	while (roll > 0 && !layout->base[roll][0])
		roll--;
	return roll;
}

/* Whether the group of a sandbox has a top and parts here. Controllers mounted together agree. */
static bool has_parts(const struct cgroup_layout *layout, size_t hierarchy)
{
	return layout->version == 2 ||
	       strcmp(layout->base[hierarchy], layout->base[roll_of(layout)]) == 0;
}

static int open_folder(const struct cgroup_layout *layout, size_t hierarchy)
{
	char path[sizeof(layout->base[0]) + sizeof(CGROUP_FOLDER) + 1];

	(void)snprintf(path, sizeof(path), "%s/%s", layout->base[hierarchy],
	               CGROUP_FOLDER); /* fits */
	return layout->base[hierarchy][0] ? open_dir(AT_FDCWD, path) : -ENOENT;
}

/* <base>/cloche, made ready for children. */
static int make_folder(const struct cgroup_layout *layout, size_t hierarchy)
{
	auto_close int base_fd = open_dir(AT_FDCWD, layout->base[hierarchy]);

	if (base_fd < 0)
		return base_fd;
	auto_close int folder = path_dir(base_fd, CGROUP_FOLDER, 0755);
	if (folder < 0)
		return folder;
	/* Above cloche/ it is the administrator's tree: v1 needs nothing there, and on v2
	 * cgroup_enter_leaf has handed the controllers on. */
	int r = enable_folder(layout, hierarchy, folder);
	return r < 0 ? r : take_fd(&folder);
}

static int make_below(const struct cgroup_layout *layout, size_t hierarchy, int *dir)
{
	int r = enable_folder(layout, hierarchy, dir[CGROUP_TOP]);

	for (int part = CGROUP_OWN; r == 0 && part < CGROUP_PARTS_; part++) {
		if (part == CGROUP_OWN && layout->version != 2)
			continue;
		dir[part] = path_dir(dir[CGROUP_TOP], part_names[part], 0755);
		if (dir[part] < 0)
			r = dir[part];
	}
	return r;
}

static int make_parts(const struct cgroup_layout *layout, size_t hierarchy, const char *name,
                      int *dir)
{
	/* The folder is there but for the first time, or if somebody took it away. */
	auto_close int folder = open_folder(layout, hierarchy);
	enum cgroup_part part = has_parts(layout, hierarchy) ? CGROUP_TOP : CGROUP_WORK;

	if (folder < 0)
		folder = make_folder(layout, hierarchy);
	if (folder < 0)
		return folder;
	dir[part] = path_dir(folder, name, 0755);
	if (dir[part] < 0)
		return dir[part];
	return part == CGROUP_TOP ? make_below(layout, hierarchy, dir) : 0;
}

static int give_files(const struct cgroup *cgroup, uid_t uid)
{
	const struct cgroup_ops *ops = ops_of(cgroup->version);

	if (uid == (uid_t)-1)
		return 0;
	for (size_t i = 0; i < cgroup_hierarchies(cgroup->version); i++) {
		int dir = cgroup->dir[i][CGROUP_WORK];
		for (const char *const *file = ops->keeper_files; dir >= 0 && *file; file++) {
			if (fchownat(dir, *file, uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0 &&
			    errno != ENOENT)
				return -errno;
		}
	}
	return 0;
}

int cgroup_create(const struct cgroup_layout *layout, const char *name,
                  const struct cgroup_limits *limits, uid_t keeper_uid, struct cgroup *ret)
{
	auto_(cgroup_done) struct cgroup cgroup;
	const struct cgroup_ops *ops = ops_of(layout->version);
	int r = 0;

	cgroup_init(&cgroup);
	if (!is_folder_name(name))
		return -EINVAL;
	cgroup.version = layout->version;
	for (size_t i = 0; r == 0 && i < cgroup_hierarchies(layout->version); i++) {
		if (layout->base[i][0])
			r = make_parts(layout, i, name, cgroup.dir[i]);
	}
	if (r == 0)
		r = ops->set_limits(&cgroup, CGROUP_OWN, &own_limits);
	if (r == 0)
		r = ops->set_limits(&cgroup, CGROUP_WORK, limits);
	if (r == 0)
		r = give_files(&cgroup, keeper_uid);
	if (r < 0)
		return r;
	*ret = cgroup;
	cgroup_init(&cgroup);
	return 0;
}

int cgroup_open(const struct cgroup_layout *layout, const char *name, struct cgroup *ret)
{
	if (!is_folder_name(name))
		return -EINVAL;
	cgroup_init(ret);
	ret->version = layout->version;
	for (size_t i = 0; i < cgroup_hierarchies(layout->version); i++) {
		auto_close int folder = open_folder(layout, i);
		if (folder < 0)
			continue;
		int top = open_dir(folder, name);
		ret->dir[i][has_parts(layout, i) ? CGROUP_TOP : CGROUP_WORK] = MAX(top, -1);
		for (int part = CGROUP_OWN;
		     top >= 0 && has_parts(layout, i) && part < CGROUP_PARTS_; part++)
			ret->dir[i][part] = MAX(open_dir(top, part_names[part]), -1);
	}
	return 0;
}

static int open_one(const struct cgroup_layout *layout, size_t hierarchy, const char *name,
                    enum cgroup_part part, int *ret)
{
	char path[sizeof(layout->base[0]) + 96];
	int n = snprintf(path, sizeof(path), "%s/%s/%s/%s", layout->base[hierarchy], CGROUP_FOLDER,
	                 name, has_parts(layout, hierarchy) ? part_names[part] : ".");

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	if (layout->base[hierarchy][0])
		*ret = MAX(open_dir(AT_FDCWD, path), -1);
	return 0;
}

int cgroup_open_part(const struct cgroup_layout *layout, const char *name, enum cgroup_part part,
                     struct cgroup *ret)
{
	int r = 0;

	cgroup_init(ret);
	ret->version = layout->version;
	if (!is_folder_name(name))
		return -EINVAL;
	for (size_t i = 0; r == 0 && i < cgroup_hierarchies(layout->version); i++)
		r = open_one(layout, i, name, part, &ret->dir[i][part]);
	return r;
}

int cgroup_set_limits(const struct cgroup *cgroup, const struct cgroup_limits *limits)
{
	return ops_of(cgroup->version)->set_limits(cgroup, CGROUP_WORK, limits);
}

/* Controllers mounted together share one directory: a second attach would only cost time. */
static bool is_same_dir(int a, int b)
{
	struct stat one, other;

	return a >= 0 && b >= 0 && fstat(a, &one) == 0 && fstat(b, &other) == 0 &&
	       one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* -1: where they are born is where they stay (cgroup_enter_folder). */
static int place_of(const struct cgroup *cgroup, size_t hierarchy, enum cgroup_part part)
{
	const int *dir = cgroup->dir[hierarchy];

	return part == CGROUP_OWN && dir[part] < 0 ? dir[CGROUP_TOP] : dir[part];
}

int cgroup_attach(const struct cgroup *cgroup, enum cgroup_part part, pid_t pid)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", pid); /* fits */
	for (size_t i = 0; i < cgroup_hierarchies(cgroup->version); i++) {
		int dir = place_of(cgroup, i, part);

		if (dir < 0 || (i > 0 && is_same_dir(dir, place_of(cgroup, i - 1, part))))
			continue;
		int r = io_write_ctl(dir, "cgroup.procs", text);
		if (r < 0)
			return r;
	}
	return 0;
}

/* On v2 a move also needs the right to write the group above both. */
static int give_procs(const struct cgroup *cgroup, size_t hierarchy, enum cgroup_part part,
                      uid_t owner)
{
	const int dirs[] = {cgroup->dir[hierarchy][part],
	                    cgroup->version == 2 ? cgroup->dir[hierarchy][CGROUP_TOP] : -1};

	for (size_t i = 0; owner != geteuid() && i < ARRAY_LEN(dirs); i++) {
		if (dirs[i] >= 0 && fchownat(dirs[i], "cgroup.procs", owner, (gid_t)-1, 0) < 0)
			return -errno;
	}
	return 0;
}

static int open_procs(int dir, uid_t owner)
{
	uid_t self = geteuid();

	if (seteuid(owner) < 0)
		return -errno;
	int fd = openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	int result = fd < 0 ? -errno : fd;
	if (seteuid(self) == 0)
		return result;
	result = -errno;
	fd_closep(&fd);
	return result;
}

int cgroup_open_door(const struct cgroup *cgroup, enum cgroup_part part, uid_t owner,
                     struct cgroup_door *ret)
{
	for (size_t i = 0; i < CGROUP_CONTROLLERS_; i++)
		ret->procs[i] = -1;
	for (size_t i = 0; i < cgroup_hierarchies(cgroup->version); i++) {
		int dir = cgroup->dir[i][part];

		if (dir < 0 || (i > 0 && is_same_dir(dir, cgroup->dir[i - 1][part])))
			continue;
		int r = give_procs(cgroup, i, part, owner);
		if (r == 0)
			r = ret->procs[i] = open_procs(dir, owner);
		if (r < 0)
			return r;
	}
	return 0;
}

void cgroup_close_door(struct cgroup_door *door)
{
	for (size_t i = 0; i < CGROUP_CONTROLLERS_; i++)
		fd_closep(&door->procs[i]);
}

int cgroup_attach_by(const struct cgroup_door *door, pid_t pid)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", pid);

	for (size_t i = 0; i < CGROUP_CONTROLLERS_; i++) {
		if (door->procs[i] >= 0 && write(door->procs[i], text, (size_t)len) < 0)
			return -errno;
	}
	return 0;
}

int cgroup_clone_fd(const struct cgroup *cgroup, enum cgroup_part part)
{
	return cgroup->version == 2 ? cgroup->dir[0][part] : -1;
}

/* Kernel work without a wake-up we could wait for on both versions. */
static void pause_ms(int ms)
{
	struct timespec time = {.tv_nsec = (long)ms * 1000000};

	(void)nanosleep(&time, NULL); /* shorter is fine too */
}

int cgroup_freeze(const struct cgroup *cgroup, enum cgroup_part part, bool on, int timeout_ms)
{
	const struct cgroup_ops *ops = ops_of(cgroup->version);
	uint64_t end = io_boot_ms() + (uint64_t)timeout_ms;
	int r = ops->freeze(cgroup, part, on);

	if (r < 0 || !on)
		return r;
	for (;;) {
		r = ops->is_frozen(cgroup, part);
		if (r != 0)
			return MIN(r, 0);
		if (io_boot_ms() >= end)
			return -ETIMEDOUT;
		pause_ms(1);
	}
}

static bool is_tree_empty(const struct cgroup *cgroup, size_t hierarchy)
{
	for (int part = 0; part < CGROUP_PARTS_; part++) {
		int dir = cgroup->dir[hierarchy][part];
		if (dir >= 0 && !cgroup_is_empty(dir))
			return false;
	}
	return true;
}

static bool is_all_empty(const struct cgroup *cgroup)
{
	for (size_t i = 0; i < cgroup_hierarchies(cgroup->version); i++) {
		if (!is_tree_empty(cgroup, i))
			return false;
	}
	return true;
}

/* Killed with its keeper, a sandbox is gone by itself in a moment; freezing one to kill it costs
 * every processor of the machine an interrupt. */
static void wait_a_moment(const struct cgroup *cgroup, size_t roll)
{
	for (int i = 0; i < PATIENCE_MS && !is_tree_empty(cgroup, roll); i++)
		pause_ms(1);
}

int cgroup_kill(const struct cgroup_layout *layout, const char *name, int timeout_ms)
{
	auto_(cgroup_done) struct cgroup cgroup;
	uint64_t end = io_boot_ms() + (uint64_t)timeout_ms;

	cgroup_init(&cgroup);
	int r = cgroup_open(layout, name, &cgroup);
	if (r == 0 && layout->version != 0)
		wait_a_moment(&cgroup, roll_of(layout));
	while (r == 0 && !is_all_empty(&cgroup)) {
		r = ops_of(layout->version)->kill(&cgroup);
		if (r == 0 && io_boot_ms() >= end)
			r = -ETIMEDOUT;
		if (r == 0)
			pause_ms(1);
	}
	return r;
}

/* Up to Linux 6.3 the look-up of a page that is not cached answers NULL, since 6.4 an error. Stable
 * kernels of before took fixes of ext4 from after, which look for the error only: where such a
 * kernel let go of a page of ext4's own it fails at the next rmdir (6.1.192, ext4_mb_load_buddy).
 * There the pages go when the kernel needs the memory, and the groups with them. */
static bool can_lose_pages(void)
{
	struct utsname kernel;
	char *end = NULL;

	if (uname(&kernel) < 0)
		return false;
	unsigned long major = strtoul(kernel.release, &end, 10);
	unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	return major > 6 || (major == 6 && minor >= 4);
}

/* Pages of files that outlive it (of /usr) are still charged to a group whose folder is removed,
 * and as long as they are cached the kernel keeps some hundred KiB for it. Let go of them first:
 * what is needed again is read again. But a few pages are those of its output, which goes next, and
 * to look for them takes milliseconds. Of the group, and so of all below it. */
static void drop_pages(int top)
{
	static const char *const names[] = {"total_cache", "file"}; /* v1, v2 */
	static const struct {
		const char *file, *text;
	} ways[] = {{"memory.force_empty", "0"}, {"memory.reclaim", "1T"}};
	uint64_t bytes = 0;

	if (!can_lose_pages())
		return;
	for (size_t i = 0; i < ARRAY_LEN(names) && bytes == 0; i++)
		bytes = cgroup_number(top, "memory.stat", names[i]);
	for (size_t i = 0; bytes > FEW_BYTES && i < ARRAY_LEN(ways); i++)
		(void)!io_write_ctl(top, ways[i].file, ways[i].text); /* as far as it goes */
}

/* Only a group without processes can be removed: that is how we know. */
static int remove_parts(int folder, const char *name)
{
	for (int part = CGROUP_PARTS_ - 1; part >= 0; part--) {
		char path[NAME_BYTES + 16];

		(void)snprintf(path, sizeof(path), "%s/%s", name, part_names[part]); /* fits */
		if (unlinkat(folder, part == CGROUP_TOP ? name : path, AT_REMOVEDIR) < 0 &&
		    errno != ENOENT)
			return -errno;
	}
	return 0;
}

static int remove_counted(int folder, const char *name)
{
	auto_close int top = open_dir(folder, name);

	if (top < 0)
		return top == -ENOENT ? 0 : top;
	drop_pages(top);
	return remove_parts(folder, name);
}

/* Of one that runs nothing is removed, not even a part that is empty for the moment. On v1 keeper
 * and init are at the top of the roll, which is asked first. -errno: it cannot be asked. */
static int is_populated(int version, int folder, const char *name)
{
	auto_close int top = folder < 0 ? folder : open_dir(folder, name);

	if (top < 0)
		return top;
	return version == 2 ? cgroup_number(top, "cgroup.events", "populated") != 0
	                    : !cgroup_is_empty(top);
}

int cgroup_vacate(const struct cgroup_layout *layout, const char *name)
{
	int result = 0;
	bool is_known = false; /* to run nothing; who is in one hierarchy is in all of them */

	if (!is_folder_name(name) || strlen(name) >= NAME_BYTES)
		return -EINVAL;
	/* Memory comes first in the layout; on v2 it is all there is. */
	for (size_t i = cgroup_hierarchies(layout->version); i-- > 0;) {
		auto_close int folder = open_folder(layout, i);
		int r = MIN(folder, 0);
		int found = is_known ? 0 : is_populated(layout->version, folder, name);
		if (found > 0)
			r = -EBUSY;
		else if (folder >= 0 && i != CGROUP_MEMORY)
			r = remove_parts(folder, name);
		if (r == -EBUSY)
			return r;
		if (r < 0 && r != -ENOENT)
			result = r;
		is_known |= found == 0;
	}
	return result;
}

int cgroup_remove_memory(const struct cgroup_layout *layout, const char *name)
{
	auto_close int folder = open_folder(layout, CGROUP_MEMORY);
	int r = folder < 0 ? folder : remove_counted(folder, name);

	return r == -ENOENT ? 0 : r;
}

int cgroup_remove(const struct cgroup_layout *layout, const char *name)
{
	int result = cgroup_vacate(layout, name);
	if (result == -EBUSY || result == -EINVAL || layout->version == 0)
		return result;
	int r = cgroup_remove_memory(layout, name);
	return r < 0 ? r : result;
}

static void close_dirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir); /* read only: nothing to lose */
}

int cgroup_each(const struct cgroup_layout *layout, void (*fn)(const char *name, void *ctx),
                void *ctx)
{
	for (size_t i = 0; i < cgroup_hierarchies(layout->version); i++) {
		auto_close int folder = open_folder(layout, i);
		auto_(close_dirp) DIR *dir = folder < 0 ? NULL : fdopendir(folder);
		if (!dir)
			continue;
		(void)take_fd(&folder); /* closedir closes it */
		const struct dirent *entry;
		while ((entry = readdir(dir))) {
			if (entry->d_type == DT_DIR && is_folder_name(entry->d_name))
				fn(entry->d_name, ctx);
		}
	}
	return 0;
}

int cgroup_read(const struct cgroup *cgroup, struct cgroup_usage *ret)
{
	return ops_of(cgroup->version)->read(cgroup, ret);
}

static int move_all(int from, int leaf)
{
	auto_free char *text = NULL;
	int r = read_procs(from, &text);

	if (r < 0)
		return r;
	for (char *rest = text; rest && *rest;) {
		const char *pid = strsep(&rest, "\n");
		r = *pid ? io_write_ctl(leaf, "cgroup.procs", pid) : 0;
		if (r < 0 && r != -ESRCH)
			return r;
	}
	return 0;
}

int cgroup_enter_folder(const struct cgroup_layout *layout)
{
	for (size_t i = 0; layout->version == 1 && i < CGROUP_CONTROLLERS_; i++) {
		if (!layout->base[i][0])
			continue;
		auto_close int folder = make_folder(layout, i);
		int r = folder < 0 ? folder : io_write_ctl(folder, "cgroup.procs", "0");
		if (r < 0)
			return r;
	}
	return 0;
}

int cgroup_enter_leaf(const struct cgroup_layout *layout)
{
	if (layout->version != 2)
		return 0;
	auto_close int base = open_dir(AT_FDCWD, layout->base[0]);
	if (base < 0)
		return base;
	auto_close int folder = path_dir(base, CGROUP_FOLDER, 0755);
	if (folder < 0)
		return folder;
	auto_close int leaf = path_dir(folder, CGROUP_LEAF, 0755);
	if (leaf < 0)
		return leaf;
	int r = io_write_ctl(leaf, "cgroup.procs", "0");
	/* Only the root of the hierarchy has no type, and only there others may stay. */
	if (r == 0 && faccessat(base, "cgroup.type", F_OK, 0) == 0)
		r = move_all(base, leaf);
	if (r == 0)
		r = cgroup_v2_ops.enable(base);
	return r < 0 ? r : cgroup_v2_ops.enable(folder);
}
