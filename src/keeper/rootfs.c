/*
 * Order in the child's namespace, and why; from 3 on it is the keeper who does it:
 *  1. a scratch tmpfs over /sys (a directory that exists everywhere and that nothing here needs):
 *     overlay wants its layers attached in this namespace, and the scratch goes with the old root.
 *  2. disk, /proc and /dev, which are the same for every image.
 *  3. layers, overlay.
 *  4. inside the overlay: /usr of the host where asked, the above, the workspace, the program,
 *     granted mounts.
 *  5. pivot_root, old root detached: the host's tree is no longer reachable by any path.
 */
#include "keeper/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/io.h"
#include "keeper/inside_files.h"
#include "keeper/procdev.h"
#include "os/caps.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/path.h"

enum { AGENT_ID = 1000, NO_GROUP = 65533, MODE_BITS = 07777 };

/* Mounted in the scratch before there is a root. */
static const char *const ready[] = {"proc", "dev"};

/* A new mount on the directory `name` below dir_fd, which is made first. */
static int attach_new(int mount_fd, int dir_fd, const char *name)
{
	if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	return mount_attach(mount_fd, dir_fd, name);
}

/* --- in the keeper --- */

/* Replaces *fd by a detached mount of what it refers to. */
static int detach(int *fd, enum mount_flags flags, int idmap_fd)
{
	auto_close int mount = -1;
	int r = mount_clone(*fd, "", flags, &mount);
	if (r >= 0 && idmap_fd >= 0)
		r = mount_set_idmap(mount, idmap_fd);
	if (r < 0)
		return r;
	fd_closep(fd);
	*fd = take_fd(&mount);
	return 0;
}

/* A namespace in which one host id is the agent: its files become the agent's, no other file does.
 */
static int agent_idmap(const struct slot *slot, uid_t source, int *ret_fd)
{
	struct ns_map map = {.inside = source, .outside = slot->range_base + AGENT_ID, .count = 1};
	return ns_user_create(&map, 1, &map, 1, false, ret_fd);
}

static int prepare_mount(const struct slot *slot, bool can_idmap, struct slot_mount *mount)
{
	enum mount_flags flags = MOUNT_NOSUID | MOUNT_NODEV | (mount->read_only ? MOUNT_RO : 0);
	auto_close int idmap = -1;
	int r = 0;
	/* Files of host root are never mapped: they stay somebody else's inside (E24). */
	if (can_idmap && mount->source_uid != 0 && mount->source_uid != (uid_t)-1)
		r = agent_idmap(slot, mount->source_uid, &idmap);
	return r < 0 ? r : detach(&mount->fd, flags, idmap);
}

int rootfs_take_mounts(struct slot *slot, bool can_idmap, struct err *err)
{
	for (size_t i = 0; i < slot->mount_count; i++) {
		int r = prepare_mount(slot, can_idmap, &slot->mounts[i]);
		if (r < 0)
			return err_sys(err, -r, "take the folder for %s", slot->mounts[i].target);
	}
	return 0;
}

/* A little room on a disk that lasts, out of the sandbox's reach, for the next start to use: else
 * one that was filled to the brim could not be mounted again, and nobody could make room on it. */
enum { SPARE_FILES = 8, SPARE_BYTES = 256 * 1024 };

static void spare_name(char out[16], int number)
{
	(void)snprintf(out, 16, "spare-%d", number); /* fits */
}

/* Only when there is need: to make and remove files takes its time. */
static int free_spare(const struct rootfs *rootfs)
{
	enum { ENOUGH_BLOCKS = 64, ENOUGH_INODES = 64 };
	char name[16];
	struct statfs fs;
	if (fstatfs(rootfs->disk_fd, &fs) < 0)
		return -errno;
	bool is_enough = fs.f_bavail >= ENOUGH_BLOCKS && fs.f_ffree >= ENOUGH_INODES;
	for (int i = 0; !is_enough && i < SPARE_FILES; i++) {
		spare_name(name, i);
		if (unlinkat(rootfs->disk_fd, name, 0) < 0 && errno != ENOENT)
			return -errno;
	}
	return 0;
}

/* As much as there is: a disk that is too full to have some has what the start just gave back. */
static void keep_spare(int disk_fd)
{
	char name[16];
	spare_name(name, SPARE_FILES - 1);
	if (faccessat(disk_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return; /* the last that is made */
	for (int i = 0; i < SPARE_FILES; i++) {
		spare_name(name, i);
		if (faccessat(disk_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		auto_close int fd =
			openat(disk_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 || fallocate(fd, 0, 0, SPARE_BYTES / SPARE_FILES) < 0)
			break;
	}
}

/* Where work is done there is no overlay in between: it asks the file below for everything once
 * more, which doubles what an open costs. So the workspace is a folder of the disk, mounted. */
static int make_workspace(int disk_fd, uid_t owner)
{
	if (mkdirat(disk_fd, "workspace", 0755) < 0)
		return errno == EEXIST ? 0 : -errno; /* whose it is by now is up to them inside */
	if (fchownat(disk_fd, "workspace", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* The two directories overlay needs. */
static int make_upper(int disk_fd)
{
	static const char *const names[] = {"upper", "work"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (mkdirat(disk_fd, names[i], 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

/* "/" of a sandbox has the rights of the upper. Whoever looks up a path and does not own a folder
 * on the way leaves the kernel's fast walk there, because overlay has to ask an idmapped layer for
 * an access control list; but not where the group has no right at all, of which no list can give
 * more. So the group of "/" is one that nobody is in, and everybody but root is one of the others.
 */
static int own_root(int disk_fd, gid_t range_base)
{
	enum { MODE = 0705 };
	struct stat st;
	gid_t group = range_base + NO_GROUP;
	if (fstatat(disk_fd, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (st.st_gid == group && (st.st_mode & MODE_BITS) == MODE)
		return 0; /* from the template, or an earlier start */
	if (fchownat(disk_fd, "upper", (uid_t)-1, group, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(disk_fd, "upper", MODE, 0) < 0)
		return -errno;
	return 0;
}

static bool is_host_alone(const struct slot *slot)
{
	return slot->is_host_image && slot->layer_count == 1;
}

/* Files will be made in it, for which the overlay would copy the folder first: the host image has
 * it as it is made here. 1: it was there from an earlier start, or is hidden since. */
static int make_etc(int disk_fd)
{
	if (mkdirat(disk_fd, "upper/etc", 0755) == 0)
		return 0;
	return errno == EEXIST ? 1 : -errno;
}

/* Of a blank one: what is read now, nobody waits for later. */
static int warm_disk(int disk_fd)
{
	(void)!faccessat(disk_fd, "work/-", F_OK, AT_SYMLINK_NOFOLLOW); /* none: reads work/ */
	return MIN(make_etc(disk_fd), 0);
}

/* Then the image has all places a start needs, and only the names are missing. */
static int begin_disk(struct rootfs *rootfs)
{
	if (!is_host_alone(rootfs->slot))
		return 0;
	int r = make_etc(rootfs->disk_fd);
	rootfs->is_first = r == 0 || (r > 0 && rootfs->was_blank);
	if (r < 0 || !rootfs->is_first)
		return MIN(r, 0);
	auto_close int etc = path_open_plain(rootfs->disk_fd, "upper/etc", O_PATH | O_DIRECTORY, 0);
	return etc < 0 ? etc : inside_files_first(etc, rootfs->slot->hostname);
}

/* A blank one makes it before its image is known: most are the host's, and the first folder on a
 * disk waits until the kernel has read what is free there. What lies on top of the host's, and any
 * other image, may have it otherwise. */
static int give_up_etc(const struct rootfs *rootfs)
{
	if (!rootfs->was_blank || is_host_alone(rootfs->slot))
		return 0;
	return unlinkat(rootfs->disk_fd, "upper/etc", AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Bytes that take up room in an image without being copied with it; mke2fs leaves zeros out. */
static int write_spare(int disk_fd)
{
	uint8_t bytes[SPARE_BYTES / SPARE_FILES];
	char name[16];
	memset(bytes, DISK_VOID_BYTE, sizeof(bytes));
	for (int i = 0; i < SPARE_FILES; i++) {
		spare_name(name, i);
		auto_close int fd =
			openat(disk_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		int r = fd < 0 ? -errno : io_write_all(fd, bytes, sizeof(bytes));
		if (r < 0)
			return r;
	}
	return 0;
}

int rootfs_fill_disk(int dir_fd)
{
	int r = make_upper(dir_fd);
	if (r >= 0)
		r = make_workspace(dir_fd, AGENT_ID);
	if (r >= 0)
		r = own_root(dir_fd, 0);
	return r < 0 ? r : write_spare(dir_fd);
}

static int prepare_disk(struct rootfs *rootfs, struct err *err)
{
	const struct slot *slot = rootfs->slot;
	bool is_mount = false;
	int r = disk_prepare(&slot->disk, slot->sandbox_dir, &rootfs->disk_fd, &is_mount);
	if (r == -ESRCH || r == -EOPNOTSUPP || r == -ENOSYS || r == -ENOTTY)
		return err_set(
			err, ERR_MISSING,
			"disk limit by %s is not available here: cloche doctor says which is",
			disk_name(slot->disk.backend));
	if (r >= 0 && !is_mount)
		r = detach(&rootfs->disk_fd, MOUNT_NOSUID | MOUNT_NODEV, -1);
	/* What outlives the sandbox is stored in canonical ids: the next start has another range.
	 */
	rootfs->is_disk_idmapped = rootfs->can_idmap && slot->disk.backend != DISK_TMPFS;
	if (r >= 0 && rootfs->is_disk_idmapped)
		r = mount_set_idmap(rootfs->disk_fd, rootfs->userns_fd);
	return r < 0 ? err_sys(err, -r, "prepare the disk (%s)", disk_name(slot->disk.backend)) : 0;
}

enum { SEALED = MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV };

int rootfs_prepare(struct rootfs *rootfs, struct err *err)
{
	rootfs->disk_fd = -1;
	rootfs->was_blank = rootfs->slot->is_blank;
	rootfs->dev_fd = procdev_take_dev();
	int r = detach(&rootfs->slot->program, (enum mount_flags)SEALED, -1);
	if (r < 0)
		return err_sys(err, -r, "take the program inside");
	return prepare_disk(rootfs, err);
}

int rootfs_take(struct rootfs *rootfs, struct err *err)
{
	struct slot *slot = rootfs->slot;
	for (size_t i = 0; i < slot->layer_count; i++) {
		int r = detach(&slot->layers[i], (enum mount_flags)SEALED,
		               rootfs->can_idmap ? rootfs->userns_fd : -1);
		if (r < 0)
			return err_sys(err, -r, "take layer %zu of the image", i);
	}
	int r = give_up_etc(rootfs);
	if (r < 0)
		return err_sys(err, -r, "clear the disk for the image");
	return rootfs_take_mounts(slot, rootfs->can_idmap, err);
}

/* --- in the child, and then in its namespace --- */

static int open_scratch(int *ret_fd, struct err *err)
{
	*ret_fd = open("/sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? err_sys(err, errno, "open the scratch directory") : 0;
}

static int make_scratch(int *ret_fd, struct err *err)
{
	auto_close int tmpfs = -1;
	auto_close int place = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = mount_new("tmpfs", "cloche", "size=256k,nr_inodes=256,mode=755",
	                  MOUNT_NOSUID | MOUNT_NODEV, &tmpfs);
	if (r >= 0)
		r = mount_attach_fd(tmpfs, place);
	if (r < 0)
		return err_sys(err, -r, "mount the scratch directory");
	return open_scratch(ret_fd, err);
}

/* From here to the pivot files are made as root of the sandbox: on an idmapped disk no other id
 * exists, and overlay keeps the credentials of whoever mounts it for its own work on the upper. The
 * change of the file system id clears the file capabilities, which overlay needs to copy up: raise
 * them again. But not the one with which it would write past a quota for everybody inside. */
int rootfs_become_inside_root(const struct slot *slot)
{
	(void)setfsgid(slot->range_base);
	(void)setfsuid(slot->range_base);
	return caps_raise_permitted(CAPS_BIT(CAP_SYS_RESOURCE));
}

static int become_outside_root(void)
{
	(void)setfsuid(0);
	(void)setfsgid(0);
	return caps_raise_permitted(0);
}

/* Layer i as scratch/l<i>. */
static int attach_layers(const struct rootfs *rootfs, int scratch, struct err *err)
{
	for (size_t i = 0; i < rootfs->slot->layer_count; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "l%zu", i);
		int r = attach_new(rootfs->slot->layers[i], scratch, name);
		if (r < 0)
			return err_sys(err, -r, "mount layer %zu of the image", i);
	}
	return 0;
}

static int mount_overlay(struct rootfs *rootfs, int scratch, struct err *err)
{
	char options[LIMIT_LAYERS * 8 + 128];
	size_t used = (size_t)snprintf(options, sizeof(options), "userxattr,lowerdir=");
	for (size_t i = rootfs->slot->layer_count; i-- > 0;)
		used += (size_t)snprintf(options + used, sizeof(options) - used, "%sl%zu",
		                         i + 1 == rootfs->slot->layer_count ? "" : ":", i);
	(void)snprintf(options + used, sizeof(options) - used,
	               ",upperdir=disk/upper,workdir=disk/work");
	auto_close int overlay = -1;
	int r = fchdir(scratch) < 0 ? -errno : 0; /* the paths above are relative to it */
	if (r >= 0)
		r = rootfs_become_inside_root(rootfs->slot);
	if (r >= 0)
		r = begin_disk(rootfs);
	if (r >= 0)
		r = mount_new("overlay", "cloche", options, MOUNT_NOSUID | MOUNT_NODEV, &overlay);
	if (r >= 0)
		r = attach_new(overlay, scratch, "root");
	return r < 0 ? err_sys(err, -r, "mount the overlay") : 0;
}

/* The host image: /usr and, where the host is not merged, its old siblings, read-only. Not
 * idmapped: a file only host root may read stays unreadable for root inside. */
static int bind_host_dirs(int root, struct err *err)
{
	static const char *const names[] = {"usr",   "bin",   "sbin",  "lib",
	                                    "lib32", "lib64", "libx32"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[16];
		struct stat st;
		(void)snprintf(path, sizeof(path), "/%s", names[i]);
		if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
			continue; /* a link (merged /usr): the layer has the same link */
		auto_close int dir = -1;
		int r = mount_clone(AT_FDCWD, path,
		                    MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_RECURSIVE, &dir);
		if (r >= 0)
			r = attach_new(dir, root, names[i]);
		if (r < 0)
			return err_sys(err, -r, "bind %s of the host image", path);
	}
	return 0;
}

static int attach_mount(int mount_fd, int root, const char *path)
{
	auto_close int target = -1;
	int r = inside_files_target(root, path, mount_fd, &target);
	return r < 0 ? r : mount_attach_fd(mount_fd, target);
}

int rootfs_attach_mounts(const struct slot *slot, int root, struct err *err)
{
	for (size_t i = 0; i < slot->mount_count; i++) {
		const struct slot_mount *mount = &slot->mounts[i];
		int r = attach_mount(mount->fd, root, mount->target);
		if (r < 0)
			return err_sys(err, -r, "mount at %s", mount->target);
	}
	return 0;
}

/* What rootfs_ground made, to its place. */
static int move_ready(int scratch, int root)
{
	for (size_t i = 0; i < ARRAY_LEN(ready); i++) {
		auto_close int from = path_open_plain(scratch, ready[i], O_PATH | O_DIRECTORY, 0);
		auto_close int to = path_open_plain(root, ready[i], O_PATH | O_DIRECTORY, 0);
		int r = from < 0 ? from : to < 0 ? to : mount_attach_fd(from, to);
		if (r < 0)
			return r;
	}
	return 0;
}

/* An empty folder as we make it ourselves. What the image, or a start before there was this mount,
 * has there stays in sight, and its rights in force: then it is in the overlay like all else. */
static bool is_plain_workspace(int dir_fd, uid_t owner)
{
	struct stat st;
	return fstat(dir_fd, &st) == 0 && st.st_uid == owner && st.st_gid == owner &&
	       (st.st_mode & MODE_BITS) == 0755 && path_is_empty_dir(dir_fd) > 0;
}

static int bind_workspace(const struct rootfs *rootfs, int root)
{
	const struct slot *slot = rootfs->slot;
	uid_t owner = slot->range_base + (slot->range_count > AGENT_ID ? AGENT_ID : 0);
	auto_close int target = path_open_plain(root, "workspace", O_RDONLY | O_DIRECTORY, 0);
	if (target < 0 || (!rootfs->is_first && !is_plain_workspace(target, owner)))
		return 0;
	auto_close int mount = -1;
	int r = make_workspace(rootfs->disk_fd, owner);
	if (r >= 0)
		r = mount_clone(rootfs->disk_fd, "workspace", MOUNT_NOSUID | MOUNT_NODEV, &mount);
	return r < 0 ? r : mount_attach_fd(mount, target);
}

/* A file of ours in /run/cloche, whose place is there already where the image is the host's. */
static int attach_file(int mount_fd, int root, int dir, const char *name)
{
	auto_close int target = path_open_plain(dir, name, O_PATH, 0);
	if (target >= 0)
		return mount_attach_fd(mount_fd, target);
	char path[64];
	(void)snprintf(path, sizeof(path), "/run/cloche/%s", name); /* fits */
	return attach_mount(mount_fd, root, path);
}

/* Before Linux 6.15 only what is attached in one's own namespace can be copied, so it is, in the
 * scratch. */
static int attach_small(const struct rootfs *rootfs, const char *from, int root, int dir,
                        const char *name)
{
	auto_close int file = -1;
	enum mount_flags flags = MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC;
	int r = mount_clone(rootfs->scratch_fd, from, flags, &file);
	return r < 0 ? r : attach_file(file, root, dir, name);
}

static int attach_own(const struct rootfs *rootfs, int root, struct err *err)
{
	auto_close int dir = path_open_in_root(root, "/run/cloche", O_PATH | O_DIRECTORY, 0);
	if (dir < 0)
		return err_sys(err, -dir, "open /run/cloche");
	int r = attach_file(rootfs->slot->program, root, dir, "cloche");
	if (r < 0)
		return err_sys(err, -r, "bind the program inside");
	r = attach_small(rootfs, "small/api", root, dir, "api.sock");
	if (r < 0)
		return err_sys(err, -r, "bind the socket of the API");
	r = attach_small(rootfs, "small/denials", root, dir, "denials");
	return r < 0 ? err_sys(err, -r, "bind the file of denials") : 0;
}

/* Everything below the new root. */
static int fill_root(const struct rootfs *rootfs, int root, struct err *err)
{
	struct inside_files_owner owner = {.base = rootfs->slot->range_base,
	                                   .count = rootfs->slot->range_count};
	if (rootfs->slot->is_host_image && bind_host_dirs(root, err) < 0)
		return -1;
	/* Whoever first looks up a folder of the upper has the overlay note there what lies below
	 * it. Let it be us: later it would look as if files had been changed. */
	if (rootfs->is_first)
		(void)!faccessat(root, "etc", F_OK, AT_SYMLINK_NOFOLLOW);
	else if (inside_files_prepare(root, rootfs->slot->hostname, &owner, err) < 0)
		return -1;
	int r = move_ready(rootfs->scratch_fd, root);
	if (r < 0)
		return err_sys(err, -r, "move /proc and /dev");
	r = bind_workspace(rootfs, root);
	if (r < 0)
		return err_sys(err, -r, "mount the workspace");
	if (attach_own(rootfs, root, err) < 0)
		return -1;
	return rootfs_attach_mounts(rootfs->slot, root, err);
}

/* The file system in memory has parts, each of which becomes a mount of its own. */
static int part_small(struct rootfs *rootfs, int *ret_shm)
{
	int r = attach_new(rootfs->small_fd, rootfs->scratch_fd, "small");
	return r < 0 ? r
	             : mount_clone(rootfs->scratch_fd, "small/shm", MOUNT_NOSUID | MOUNT_NODEV,
	                           ret_shm);
}

/* As root of the sandbox towards files, which is whose they are to be. */
static int lay_ground(struct rootfs *rootfs, struct err *err)
{
	auto_close int shm = -1;
	int r = part_small(rootfs, &shm);
	if (r < 0)
		return err_sys(err, -r, "mount the files in memory");
	r = attach_new(rootfs->disk_fd, rootfs->scratch_fd, "disk");
	if (r >= 0)
		r = rootfs_become_inside_root(rootfs->slot);
	if (r >= 0)
		r = free_spare(rootfs);
	if (r >= 0)
		r = make_upper(rootfs->disk_fd);
	if (r >= 0 && rootfs->is_disk_idmapped && rootfs->slot->range_count > NO_GROUP)
		r = own_root(rootfs->disk_fd, rootfs->slot->range_base);
	if (r >= 0 && rootfs->was_blank)
		r = warm_disk(rootfs->disk_fd);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(ready); i++)
		r = mkdirat(rootfs->scratch_fd, ready[i], 0755) < 0 ? -errno : 0;
	if (r < 0)
		return err_sys(err, -r, "mount the disk");
	if (procdev_attach(rootfs->scratch_fd, rootfs->dev_fd, shm, err) < 0)
		return -1;
	r = become_outside_root();
	return r < 0 ? err_sys(err, -r, "become root again") : 0;
}

int rootfs_ground(struct rootfs *rootfs, struct err *err)
{
	/* Slave: nothing of ours is seen outside, but a disk that the host unmounts is not kept
	 * busy here. */
	int r = mount_make_slave();
	if (r < 0)
		return err_sys(err, -r, "keep the mounts to itself");
	if (make_scratch(&rootfs->scratch_fd, err) < 0)
		return -1;
	return lay_ground(rootfs, err);
}

static int finish_root(const struct rootfs *rootfs, int root, uint64_t shm_memory, struct err *err)
{
	if (fill_root(rootfs, root, err) < 0)
		return -1;
	if (rootfs->slot->disk.backend != DISK_TMPFS)
		keep_spare(rootfs->disk_fd);
	int r = shm_memory ? procdev_resize_shm(root, shm_memory) : 0;
	if (r < 0)
		return err_sys(err, -r, "set the size of /dev/shm");
	r = become_outside_root();
	if (r >= 0)
		r = mount_pivot(root);
	return r < 0 ? err_sys(err, -r, "switch to the new root") : 0;
}

int rootfs_build(struct rootfs *rootfs, uint64_t shm_memory, struct err *err)
{
	int r = mount_make_private();
	if (r < 0)
		return err_sys(err, -r, "make the mounts private");
	if (open_scratch(&rootfs->scratch_fd, err) < 0)
		return -1;
	if (attach_layers(rootfs, rootfs->scratch_fd, err) < 0 ||
	    mount_overlay(rootfs, rootfs->scratch_fd, err) < 0)
		return -1;
	auto_close int root =
		openat(rootfs->scratch_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_sys(err, errno, "open the new root");
	return finish_root(rootfs, root, shm_memory, err);
}
