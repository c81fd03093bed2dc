/*
 * E30: the file system of the sandbox's own disk, asked directly (docs/threat-model.md, P1).
 * Argument: folder=DIR, one on that disk. What changes the file system or leads past its limits is
 * refused; what an owner may ask for is about its own file, and everything stays as it was.
 */
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <linux/fsmap.h>
#include <linux/fsverity.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "probe.h"

/* Those of ext4 have no header: fs/ext4/ext4.h, and include/uapi/linux/ext4.h since 6.0. */
struct group_input {
	uint32_t group;
	uint64_t block_bitmap, inode_bitmap, inode_table;
	uint32_t blocks_count;
	uint16_t reserved_blocks, unused;
};

struct move_extent {
	uint32_t reserved, donor_fd;
	uint64_t orig_start, donor_start, len, moved_len;
};

struct disk_uuid {
	uint32_t len, flags;
	uint8_t uuid[16];
};

#define IOC_SETVERSION       _IOW('f', 4, long)
#define IOC_GROUP_EXTEND     _IOW('f', 7, unsigned long)
#define IOC_GROUP_ADD        _IOW('f', 8, struct group_input)
#define IOC_MIGRATE          _IO('f', 9)
#define IOC_ALLOC_DA_BLOCKS  _IO('f', 12)
#define IOC_MOVE_EXT         _IOWR('f', 15, struct move_extent)
#define IOC_RESIZE_FS        _IOW('f', 16, uint64_t)
#define IOC_SWAP_BOOT        _IO('f', 17)
#define IOC_PRECACHE_EXTENTS _IO('f', 18)
#define IOC_CLEAR_ES_CACHE   _IO('f', 40)
#define IOC_CHECKPOINT       _IOW('f', 43, uint32_t)
#define IOC_SETFSUUID        _IOW('f', 44, struct disk_uuid)
#define IOC_SHUTDOWN         _IOR('X', 125, uint32_t)
#define IOC_IMMUTABLE        0x10
#define IOC_APPEND           0x20
#define IOC_JOURNAL_DATA     0x4000
#define IOC_PROJECT_INHERIT  0x20000000

enum { FILE_BYTES = 16384 };

static char path[4096];

/* A file of our own with known bytes. */
static int own_file(const char *name)
{
	static char bytes[FILE_BYTES];
	snprintf(path, sizeof(path), "%.2000s/%s.%d", probe_arg("folder"), name, (int)getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	memset(bytes, name[0], sizeof(bytes));
	if (fd < 0 || write(fd, bytes, sizeof(bytes)) != FILE_BYTES || fsync(fd) < 0)
		return -1;
	return fd;
}

static bool is_whole(int fd, char filled_with)
{
	char bytes[FILE_BYTES];
	if (pread(fd, bytes, sizeof(bytes), 0) != FILE_BYTES)
		return false;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		if (bytes[i] != filled_with)
			return false;
	}
	return true;
}

/* Refused as listed; the file is as it was. */
static struct verdict ask_disk(unsigned long request, void *arg, const int *errnos)
{
	int fd = own_file("own");
	if (fd < 0)
		return broken("no file of our own: %s", strerror(errno));
	struct verdict verdict = refused_as(ioctl(fd, request, arg), errnos);
	return verdict.held && !is_whole(fd, 'o') ? broken("the file changed") : verdict;
}
#define REFUSED_BY_DISK(request, arg, ...) ask_disk((request), (arg), (const int[]){__VA_ARGS__, 0})

/* ENOTTY: of another file system, or of a kernel without it. */
#define PRIVILEGED(name, request, type, ...)                                                       \
	static struct verdict name(void)                                                           \
	{                                                                                          \
		type arg = __VA_ARGS__;                                                            \
		return REFUSED_BY_DISK(request, &arg, EPERM, EACCES, ENOTTY, EOPNOTSUPP);          \
	}

PRIVILEGED(group_extend, IOC_GROUP_EXTEND, unsigned long, 1UL << 40)
PRIVILEGED(group_add, IOC_GROUP_ADD, struct group_input, {.group = 1})
PRIVILEGED(resize, IOC_RESIZE_FS, uint64_t, 1ULL << 40)
PRIVILEGED(swap_boot, IOC_SWAP_BOOT, uint32_t, 0)
PRIVILEGED(checkpoint, IOC_CHECKPOINT, uint32_t, 1)
PRIVILEGED(set_uuid, IOC_SETFSUUID, struct disk_uuid, {.len = 16})
PRIVILEGED(set_label, FS_IOC_SETFSLABEL, struct { char text[FSLABEL_MAX]; }, {"x"})
PRIVILEGED(shut_down, IOC_SHUTDOWN, uint32_t, 2)
PRIVILEGED(shut_down_flushed, IOC_SHUTDOWN, uint32_t, 1)
PRIVILEGED(trim, FITRIM, struct fstrim_range, {.len = UINT64_MAX})
PRIVILEGED(freeze, FIFREEZE, uint32_t, 0)
PRIVILEGED(thaw, FITHAW, uint32_t, 0)
PRIVILEGED(block_map, FIBMAP, uint32_t, 0)

static struct verdict set_flag(unsigned flag)
{
	int fd = own_file("own");
	unsigned long flags = 0;
	if (fd < 0)
		return broken("no file of our own: %s", strerror(errno));
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return REFUSED(-1, ENOTTY, EOPNOTSUPP);
	flags ^= flag;
	return REFUSED(ioctl(fd, FS_IOC_SETFLAGS, &flags), EPERM, EINVAL, EOPNOTSUPP);
}

static struct verdict immutable(void)
{
	return set_flag(IOC_IMMUTABLE);
}

static struct verdict append_only(void)
{
	return set_flag(IOC_APPEND);
}

static struct verdict journal_data(void)
{
	return set_flag(IOC_JOURNAL_DATA);
}

/* The limit of a disk by quota is the project of its files: theirs is not theirs to choose. */
static struct verdict project_inherit(void)
{
	return set_flag(IOC_PROJECT_INHERIT);
}

static struct verdict project(void)
{
	int fd = own_file("own");
	struct fsxattr attributes;
	if (fd < 0)
		return broken("no file of our own: %s", strerror(errno));
	if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes) < 0)
		return REFUSED(-1, ENOTTY, EOPNOTSUPP);
	attributes.fsx_projid++;
	return REFUSED(ioctl(fd, FS_IOC_FSSETXATTR, &attributes), EINVAL, EPERM, EOPNOTSUPP);
}

/* The same of the folder, which new files would have it from. */
static struct verdict project_of_folder(void)
{
	int fd = open(probe_arg("folder"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fsxattr attributes;
	if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes) < 0)
		return REFUSED(-1, ENOTTY, EOPNOTSUPP);
	attributes.fsx_projid++;
	attributes.fsx_xflags ^= FS_XFLAG_PROJINHERIT;
	return REFUSED(ioctl(fd, FS_IOC_FSSETXATTR, &attributes), EINVAL, EPERM, EACCES,
	               EOPNOTSUPP);
}

static struct verdict encryption(void)
{
	char name[4200];
	struct fscrypt_policy_v2 policy = {.version = FSCRYPT_POLICY_V2};
	snprintf(name, sizeof(name), "%.2000s/crypt.%d", probe_arg("folder"), (int)getpid());
	if (mkdir(name, 0700) < 0)
		return broken("no folder of our own: %s", strerror(errno));
	int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct verdict verdict = REFUSED(ioctl(fd, FS_IOC_SET_ENCRYPTION_POLICY, &policy),
	                                 EOPNOTSUPP, ENOTTY, EPERM);
	rmdir(name);
	return verdict;
}

static struct verdict encryption_key(void)
{
	struct {
		struct fscrypt_add_key_arg head;
		uint8_t raw[64];
	} key = {.head = {.key_spec = {.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER}, .raw_size = 64}};
	return REFUSED_BY_DISK(FS_IOC_ADD_ENCRYPTION_KEY, &key, EOPNOTSUPP, ENOTTY, EPERM);
}

static struct verdict verity(void)
{
	struct fsverity_enable_arg arg = {
		.version = 1, .hash_algorithm = FS_VERITY_HASH_ALG_SHA256, .block_size = 4096};
	return REFUSED_BY_DISK(FS_IOC_ENABLE_VERITY, &arg, EOPNOTSUPP, ENOTTY, EPERM, ETXTBSY);
}

static struct verdict clone_range(void)
{
	int from = own_file("own"), to = own_file("to");
	struct verdict verdict =
		REFUSED(ioctl(to, FICLONE, from), EOPNOTSUPP, EXDEV, EPERM, EINVAL);
	/* A file system that can shares the blocks of two files of ours, and nothing else. */
	return verdict.held || is_whole(to, 'o') ? held(0, "own files alone") : verdict;
}

/* --- what an owner may ask for --- */

/* Allowed or not: own files keep their bytes, and the disk its size. */
static struct verdict harmless(unsigned long request, void *arg)
{
	struct statvfs before, after;
	int fd = own_file("own");
	if (fd < 0 || fstatvfs(fd, &before) < 0)
		return broken("no file of our own: %s", strerror(errno));
	long result = ioctl(fd, request, arg);
	int err = result < 0 ? errno : 0;
	if (!is_whole(fd, 'o') || fstatvfs(fd, &after) < 0)
		return broken("the file changed");
	if (after.f_blocks != before.f_blocks || after.f_files != before.f_files)
		return broken("the disk changed its size");
	return held(err, result < 0 ? "refused" : "its own file, unchanged");
}

static struct verdict set_version(void)
{
	long version = 7;
	return harmless(IOC_SETVERSION, &version);
}

static struct verdict migrate(void)
{
	return harmless(IOC_MIGRATE, NULL);
}

static struct verdict allocate_delayed(void)
{
	return harmless(IOC_ALLOC_DA_BLOCKS, NULL);
}

static struct verdict precache(void)
{
	return harmless(IOC_PRECACHE_EXTENTS, NULL);
}

static struct verdict clear_cache(void)
{
	return harmless(IOC_CLEAR_ES_CACHE, NULL);
}

static struct verdict own_extents(void)
{
	struct {
		struct fiemap head;
		struct fiemap_extent extents[4];
	} map = {.head = {.fm_length = UINT64_MAX, .fm_extent_count = 4}};
	return harmless(FS_IOC_FIEMAP, &map);
}

/* Defragmenting: blocks of two files of ours change places, and their bytes stay with them. */
static struct verdict move_extents(void)
{
	int from = own_file("from"), donor = own_file("donor");
	struct move_extent move = {.donor_fd = (uint32_t)donor, .len = FILE_BYTES / 4096};
	if (from < 0 || donor < 0)
		return broken("no files of our own: %s", strerror(errno));
	long result = ioctl(from, IOC_MOVE_EXT, &move);
	int err = result < 0 ? errno : 0;
	if (!is_whole(from, 'f'))
		return broken("the file changed");
	return held(err, result < 0 ? "refused" : "own files alone");
}

/* A donor that is open for reading alone, and one of somebody else's: the image's. */
static struct verdict move_foreign(void)
{
	int from = own_file("from"), foreign = open("/usr/bin/env", O_RDONLY | O_CLOEXEC);
	struct move_extent move = {.donor_fd = (uint32_t)foreign, .len = 1};
	if (from < 0 || foreign < 0)
		return broken("no files: %s", strerror(errno));
	return REFUSED(ioctl(from, IOC_MOVE_EXT, &move), EBADF, EXDEV, EINVAL, EPERM, ENOTTY,
	               EOPNOTSUPP);
}

/* Which blocks of the disk are in use: those of a disk that is shared would say more than our own.
 */
static struct verdict disk_map(void)
{
	struct {
		struct fsmap_head head;
		struct fsmap entries[8];
	} map = {.head = {.fmh_count = 8}};
	map.head.fmh_keys[1] = (struct fsmap){.fmr_device = UINT32_MAX,
	                                      .fmr_physical = UINT64_MAX,
	                                      .fmr_owner = UINT64_MAX,
	                                      .fmr_offset = UINT64_MAX,
	                                      .fmr_flags = UINT32_MAX};
	return REFUSED_BY_DISK(FS_IOC_GETFSMAP, &map, EPERM, ENOTTY, EOPNOTSUPP);
}

static const struct attempt attempts[] = {
	{"E30", "immutable", immutable, NEEDS_ARG, "folder"},
	{"E30", "append only", append_only, NEEDS_ARG, "folder"},
	{"E30", "data in the journal", journal_data, NEEDS_ARG, "folder"},
	{"E30", "project", project, NEEDS_ARG, "folder"},
	{"E30", "project of new files", project_inherit, NEEDS_ARG, "folder"},
	{"E30", "project of the folder", project_of_folder, NEEDS_ARG, "folder"},
	{"E30", "larger by a group", group_extend, NEEDS_ARG, "folder"},
	{"E30", "one group more", group_add, NEEDS_ARG, "folder"},
	{"E30", "resize", resize, NEEDS_ARG, "folder"},
	{"E30", "boot loader's inode", swap_boot, NEEDS_ARG, "folder"},
	{"E30", "checkpoint", checkpoint, NEEDS_ARG, "folder"},
	{"E30", "uuid", set_uuid, NEEDS_ARG, "folder"},
	{"E30", "label", set_label, NEEDS_ARG, "folder"},
	{"E30", "shut down", shut_down, NEEDS_ARG, "folder"},
	{"E30", "shut down, flushed", shut_down_flushed, NEEDS_ARG, "folder"},
	{"E30", "trim", trim, NEEDS_ARG, "folder"},
	{"E30", "freeze", freeze, NEEDS_ARG, "folder"},
	{"E30", "thaw", thaw, NEEDS_ARG, "folder"},
	{"E30", "block numbers", block_map, NEEDS_ARG, "folder"},
	{"E30", "map of the disk", disk_map, NEEDS_ARG, "folder"},
	{"E30", "encryption", encryption, NEEDS_ARG, "folder"},
	{"E30", "encryption key", encryption_key, NEEDS_ARG, "folder"},
	{"E30", "verity", verity, NEEDS_ARG, "folder"},
	{"E30", "shared blocks", clone_range, NEEDS_ARG, "folder"},
	{"E30", "generation", set_version, NEEDS_ARG, "folder"},
	{"E30", "migrate", migrate, NEEDS_ARG, "folder"},
	{"E30", "allocate now", allocate_delayed, NEEDS_ARG, "folder"},
	{"E30", "read extents ahead", precache, NEEDS_ARG, "folder"},
	{"E30", "forget extents", clear_cache, NEEDS_ARG, "folder"},
	{"E30", "own extents", own_extents, NEEDS_ARG, "folder"},
	{"E30", "move blocks", move_extents, NEEDS_ARG, "folder"},
	{"E30", "move foreign blocks", move_foreign, NEEDS_ARG, "folder"},
};

const struct topic topic_disk = {"disk", attempts, ATTEMPT_COUNT(attempts)};
