#include "keeper/procdev.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "os/mount.h"
#include "os/path.h"

/* Kernel state that is not the sandbox's: files are covered by an empty file, directories by an
 * empty directory. The rest of /proc/sys and its siblings is read-only. A missing entry is fine.
 * Interrupts are counted as somebody types. */
static const char *const masked_files[] = {
	"kcore",      "keys",          "key-users",   "kallsyms",   "kmsg",
	"timer_list", "sysrq-trigger", "sched_debug", "interrupts", "latency_stats",
};
static const char *const masked_dirs[] = {"acpi", "asound", "scsi"};
static const char *const read_only_dirs[] = {"sys", "irq", "bus", "fs"};

static const struct {
	const char *name;
	unsigned major, minor;
} devices[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
               {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
static const struct {
	const char *name;
	const char *target;
} links[] = {{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
             {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
             {"ptmx", "pts/ptmx"},          {"core", "/proc/kcore"}};

/* A new file system on the directory `name` of root, which must be a plain directory. */
static int attach_type(int root_fd, const char *name, const char *type, const char *options,
                       enum mount_flags flags, int *ret_fd)
{
	auto_close int fs = -1;
	auto_close int target = path_open_plain(root_fd, name, O_PATH | O_DIRECTORY, 0);
	if (target < 0)
		return target;
	int r = mount_new(type, type, options, flags, &fs);
	if (r >= 0)
		r = mount_attach_fd(fs, target);
	if (r < 0)
		return r;
	*ret_fd = path_open_plain(root_fd, name, O_RDONLY | O_DIRECTORY, 0);
	return *ret_fd < 0 ? *ret_fd : 0;
}

static int cover(int dir_fd, const char *name, int cover_fd, bool *ret_is_missing)
{
	auto_close int target = path_open_plain(dir_fd, name, O_PATH, 0);
	*ret_is_missing = target == -ENOENT || target == -EACCES;
	return target < 0 ? target : mount_attach_fd(cover_fd, target);
}

/* Covers each name with a copy of the mount at dir_fd/blank_name. */
static int cover_all(int proc, const char *const *names, size_t count, int dir_fd,
                     const char *blank_name)
{
	for (size_t i = 0; i < count; i++) {
		auto_close int blank = -1;
		bool is_missing = false;
		if (faccessat(proc, names[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			continue;
		int r = mount_clone(dir_fd, blank_name, MOUNT_RO | MOUNT_NOSUID | MOUNT_NOEXEC,
		                    &blank);
		if (r >= 0)
			r = cover(proc, names[i], blank, &is_missing);
		if (r < 0 && !is_missing)
			return r;
	}
	return 0;
}

static int make_read_only(int proc, const char *name)
{
	auto_close int copy = -1;
	bool is_missing = false;
	int r = mount_clone(proc, name, MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC,
	                    &copy);
	if (r == -ENOENT)
		return 0;
	if (r >= 0)
		r = cover(proc, name, copy, &is_missing);
	return r;
}

/* dev: of the sandbox, with nothing mounted in it yet, so that the place for terminals is an empty
 * folder. */
static int attach_proc(int root_fd, int dev)
{
	auto_close int proc = -1;
	int r = attach_type(root_fd, "proc", "proc", "", MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC,
	                    &proc);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(read_only_dirs); i++)
		r = make_read_only(proc, read_only_dirs[i]);
	if (r >= 0)
		r = cover_all(proc, masked_files, ARRAY_LEN(masked_files), AT_FDCWD, "/dev/null");
	if (r >= 0)
		r = cover_all(proc, masked_dirs, ARRAY_LEN(masked_dirs), dev, "pts");
	return r;
}

/* Device nodes are the host's own, bound: mknod needs rights a user namespace does not give. */
static int bind_device(int dev, const char *name)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "/dev/%s", name);
	auto_close int file = openat(dev, name, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0666);
	if (file < 0)
		return -errno;
	auto_close int node = -1;
	/* Read-only is the node, not the device: nobody inside sets the times of the host's. */
	int r = mount_clone(AT_FDCWD, path, MOUNT_RO | MOUNT_NOSUID | MOUNT_NOEXEC, &node);
	return r < 0 ? r : mount_attach(node, dev, name);
}

static int make_node(int dev, size_t i)
{
	dev_t number = makedev(devices[i].major, devices[i].minor);
	if (mknodat(dev, devices[i].name, S_IFCHR | 0666, number) < 0)
		return -errno;
	return fchmodat(dev, devices[i].name, 0666, 0) < 0 ? -errno : 0; /* past the umask */
}

static int fill_dev(int dev, bool with_nodes)
{
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		int r = with_nodes ? make_node(dev, i) : bind_device(dev, devices[i].name);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++) {
		if (symlinkat(links[i].target, dev, links[i].name) < 0)
			return -errno;
	}
	if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 01777) < 0)
		return -errno;
	return 0;
}

static const char dev_options[] = "size=64k,nr_inodes=64,mode=755";
static int warm_dev = -1;

void procdev_warm(void)
{
	auto_close int dev = -1;
	if (mount_new("tmpfs", "dev", dev_options, MOUNT_NOSUID | MOUNT_NOEXEC, &dev) < 0 ||
	    fill_dev(dev, true) < 0 || mount_set_flags(dev, MOUNT_RO) < 0)
		return;
	warm_dev = take_fd(&dev);
}

int procdev_take_dev(void)
{
	int copy = -1;
	if (warm_dev < 0 ||
	    mount_clone(warm_dev, "", MOUNT_RO | MOUNT_NOSUID | MOUNT_NOEXEC, &copy) < 0)
		return -1;
	return copy;
}

/* Its pages count as memory of the sandbox but belong to no process that could be killed for them:
 * were all of it full of them, nothing could run any more. A disk in memory takes the half, this a
 * quarter. */
static void shm_size(char out[48], uint64_t memory)
{
	(void)snprintf(out, 48, "size=%llu", (unsigned long long)memory / 4); /* fits */
}

/* The shared one, or one of its own with the host's nodes bound into it. */
static int attach_nodes(int root_fd, int dev_fd, int *ret_fd)
{
	if (dev_fd < 0) {
		int r = attach_type(root_fd, "dev", "tmpfs", dev_options,
		                    MOUNT_NOSUID | MOUNT_NOEXEC, ret_fd);
		return r < 0 ? r : fill_dev(*ret_fd, false);
	}
	auto_close int target = path_open_plain(root_fd, "dev", O_PATH | O_DIRECTORY, 0);
	int r = target < 0 ? target : mount_attach_fd(dev_fd, target);
	if (r >= 0)
		r = *ret_fd = path_open_plain(root_fd, "dev", O_RDONLY | O_DIRECTORY, 0);
	return MIN(r, 0);
}

static int attach_below_dev(int dev, int shm_fd)
{
	auto_close int pts = -1;
	auto_close int shm = path_open_plain(dev, "shm", O_PATH | O_DIRECTORY, 0);
	/* The machine has some thousand terminals for all sandboxes together. */
	int r = attach_type(dev, "pts", "devpts", "newinstance,ptmxmode=0666,mode=0620,max=128",
	                    MOUNT_NOSUID | MOUNT_NOEXEC, &pts);
	if (r >= 0)
		r = shm < 0 ? shm : mount_attach_fd(shm_fd, shm);
	if (r >= 0)
		r = mount_set_flags(dev, MOUNT_RO);
	return r;
}

int procdev_make_small(uint64_t memory, uid_t owner, int *ret_fs)
{
	char options[64] = "mode=555", size[48];
	auto_close int fs = -1;
	shm_size(size, memory);
	if (memory != UINT64_MAX)
		(void)snprintf(options, sizeof(options), "mode=555,%s", size); /* fits */
	int r = mount_new("tmpfs", "tmpfs", options, MOUNT_NOSUID | MOUNT_NODEV, &fs);
	if (r < 0)
		return r;
	if (mkdirat(fs, "shm", 01777) < 0 ||
	    fchownat(fs, "shm", owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(fs, "shm", 01777, 0) < 0) /* past the umask */
		return -errno;
	*ret_fs = take_fd(&fs);
	return 0;
}

int procdev_resize_shm(int root_fd, uint64_t memory)
{
	char size[48];
	auto_close int shm = path_open_plain(root_fd, "dev/shm", O_PATH | O_DIRECTORY, 0);
	if (shm < 0)
		return shm;
	shm_size(size, memory);
	return mount_reconfigure(shm, size);
}

int procdev_attach(int root_fd, int dev_fd, int shm_fd, struct err *err)
{
	auto_close int dev = -1;
	int r = attach_nodes(root_fd, dev_fd, &dev);
	if (r < 0)
		return err_sys(err, -r, "mount /dev");
	r = attach_proc(root_fd, dev);
	if (r < 0)
		return err_sys(err, -r, "mount /proc");
	r = attach_below_dev(dev, shm_fd);
	return r < 0 ? err_sys(err, -r, "fill /dev") : 0;
}
