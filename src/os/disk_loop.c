/*
 * A file system in a file: a sparse copy of an empty ext4 image on a loop device that clears itself
 * when the last mount goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/disk_internal.h"
#include "os/mount.h"
#include "os/path.h"

enum { ATTACH_TRIES = 256, TEMPLATE_NAME_BYTES = 64, BLOCK_BYTES = 4096, LEAST_INODES = 64 };

static const char image_name[] = "disk.img";
static const char new_image_name[] = ".disk.img.new";

/* The image is fd 3 of the program and what goes into it fd 4 (-1: nothing), so that no path of
 * ours is in its arguments. Neither copies of the superblock nor room to grow: an image is never
 * larger than it was made, and each block in it is copied for every sandbox. */
static int run_mke2fs(int image_fd, int tree_fd, uint64_t inodes)
{
	static const char *const programs[] = {"/sbin/mke2fs", "/usr/sbin/mke2fs"};
	char count[24];
	posix_spawn_file_actions_t files;
	pid_t pid;
	int r = ENOENT, status;

	(void)snprintf(count, sizeof(count), "%llu", (unsigned long long)inodes); /* fits */
	char *argv[] = {"mke2fs",
	                "-q",
	                "-F",
	                "-t",
	                "ext4",
	                "-m",
	                "0",
	                "-N",
	                count,
	                "-O",
	                "^resize_inode,sparse_super2",
	                "-E",
	                "lazy_itable_init=1,lazy_journal_init=1,nodiscard,num_backup_sb=0",
	                tree_fd < 0 ? "/proc/self/fd/3" : "-d",
	                "/proc/self/fd/4",
	                "/proc/self/fd/3",
	                NULL};
	if (tree_fd < 0)
		argv[ARRAY_LEN(argv) - 3] = NULL;
	char *envp[] = {NULL};
	if (posix_spawn_file_actions_init(&files) != 0)
		return -ENOMEM;
	if (posix_spawn_file_actions_adddup2(&files, image_fd, 3) != 0 ||
	    (tree_fd >= 0 && posix_spawn_file_actions_adddup2(&files, tree_fd, 4) != 0) ||
	    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0) != 0 ||
	    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_RDWR, 0) != 0 ||
	    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_RDWR, 0) != 0)
		r = ENOMEM;
	for (size_t i = 0; r == ENOENT && i < ARRAY_LEN(programs); i++)
		r = posix_spawn(&pid, programs[i], &files, NULL, argv, envp);
	(void)posix_spawn_file_actions_destroy(&files); /* never fails */
	if (r != 0)
		return -r;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static bool is_only(const uint8_t *bytes, size_t len, uint8_t byte)
{
	return bytes[0] == byte && memcmp(bytes, bytes + 1, len - 1) == 0;
}

/* Blocks that say nothing become holes: they have their place in the file system, and no sandbox
 * has to copy them, nor to write them back when it ends. */
static int punch_void(int fd, off_t start, off_t end)
{
	uint8_t block[BLOCK_BYTES];

	for (off_t at = start; at < end; at += BLOCK_BYTES) {
		ssize_t n = pread(fd, block, sizeof(block), at);
		if (n != BLOCK_BYTES)
			return n < 0 ? -errno : 0; /* not a whole one at the end */
		if (!is_only(block, sizeof(block), 0) &&
		    !is_only(block, sizeof(block), DISK_VOID_BYTE))
			continue;
		if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, BLOCK_BYTES) < 0)
			return errno == EOPNOTSUPP ? 0 : -errno; /* then it is larger */
	}
	return 0;
}

static int make_sparse(int fd)
{
	off_t end = 0;

	for (;;) {
		off_t start = lseek(fd, end, SEEK_DATA);
		if (start < 0)
			return errno == ENXIO ? 0 : -errno;
		end = lseek(fd, start, SEEK_HOLE);
		int r = end < 0 ? -errno : punch_void(fd, start, end);
		if (r < 0)
			return r;
	}
}

/* Data only: an empty image of gigabytes has some ten blocks of it. */
static int copy_sparse(int from, int to)
{
	struct stat st;
	off_t end = 0;

	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -errno;
	for (;;) {
		off_t start = lseek(from, end, SEEK_DATA);
		if (start < 0)
			return errno == ENXIO ? 0 : -errno;
		end = lseek(from, start, SEEK_HOLE);
		if (end < 0 || lseek(to, start, SEEK_SET) < 0 || lseek(from, start, SEEK_SET) < 0)
			return -errno;
		while (start < end) {
			ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)(end - start), 0);
			if (n <= 0)
				return n < 0 ? -errno : -EIO;
			start += n;
		}
	}
}

static int open_image(int template_fd, int sandbox_dir_fd)
{
	int old = path_open_plain(sandbox_dir_fd, image_name, O_RDWR, 0);

	if (old != -ENOENT)
		return old;
	/* A descriptor of its own: the template's offset is shared with everybody. */
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", template_fd); /* fits */
	auto_close int from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return -errno;
	auto_close int fd = openat(sandbox_dir_fd, new_image_name,
	                           O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = copy_sparse(from, fd);
	if (r == 0 && renameat(sandbox_dir_fd, new_image_name, sandbox_dir_fd, image_name) < 0)
		r = -errno;
	return r < 0 ? r : take_fd(&fd);
}

/* Everybody who asks is told the same free device. Who lost it waits a moment, each another one. */
static void wait_for_turn(int round)
{
	enum { STEP_US = 250, ROUNDS_AT_ONCE = 4, SPREAD = 16 };
	struct timespec pause = {.tv_nsec = (getpid() + round) % SPREAD * STEP_US * 1000L};

	if (round >= ROUNDS_AT_ONCE)
		(void)nanosleep(&pause, NULL); /* woken early it only asks early */
}

/* Sectors as large as the blocks of the file system: else its mount changes the size of the
 * device's blocks, for which every processor has to drop what it holds of them. 0: the kernel's
 * choice. */
static uint32_t sector_bytes(int image_fd)
{
	enum { SUPERBLOCK_AT = 1024, LOG_BLOCK_SIZE_AT = 24, LEAST = 1024 };
	uint32_t log; /* little endian, as every machine this runs on */

	if (pread(image_fd, &log, sizeof(log), SUPERBLOCK_AT + LOG_BLOCK_SIZE_AT) != sizeof(log))
		return 0;
	return log <= 2 ? (uint32_t)LEAST << log : 0;
}

/* Someone else may take the free device between the question and the answer. */
static int attach(int image_fd, char *device, size_t size)
{
	auto_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct loop_config config = {
		.fd = (uint32_t)image_fd,
		.block_size = sector_bytes(image_fd),
		.info = {.lo_flags = LO_FLAGS_AUTOCLEAR},
	};

	if (control < 0)
		return -errno;
	for (int i = 0; i < ATTACH_TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		if (number < 0)
			return -errno;
		(void)snprintf(device, size, "/dev/loop%d", number); /* fits */
		auto_close int fd = open(device, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
			return take_fd(&fd);
		if (errno != EBUSY)
			return -errno;
		wait_for_turn(i);
	}
	return -EBUSY;
}

static int mount_image(int image_fd, bool is_lasting, int *ret_fd)
{
	char device[32];
	/* Open until the mount holds the device: else it clears itself at once. */
	auto_close int loop = attach(image_fd, device, sizeof(device));
	if (loop < 0)
		return loop;
	/* discard gives the blocks of removed files back to the host. Tables of inodes nobody used
	 * are not zeroed in the background: they are known to be empty. A barrier syncs the whole
	 * image, at the latest when it is unmounted, for what is removed in the next moment. */
	return mount_new("ext4", device,
	                 is_lasting ? "discard,noinit_itable" : "discard,noinit_itable,nobarrier",
	                 MOUNT_NOSUID | MOUNT_NODEV, ret_fd);
}

/* What the image starts with, in a folder that is gone again afterwards. */
static int make_tree(int dir_fd, const char *name, int (*fill)(int fd), int *ret_fd)
{
	*ret_fd = -1;
	if (!fill)
		return 0;
	auto_close int tree = path_dir(dir_fd, name, 0755);
	int r = tree < 0 ? tree : fill(tree);
	if (r >= 0)
		*ret_fd = take_fd(&tree);
	return MIN(r, 0);
}

static void remove_tree(int dir_fd, const char *name, int *tree_fd)
{
	if (*tree_fd >= 0)
		(void)!path_remove_below(*tree_fd); /* what stays harms nobody */
	fd_closep(tree_fd);
	(void)unlinkat(dir_fd, name, AT_REMOVEDIR);
}

static int make_template(int dir_fd, const char *name, const struct disk_spec *spec,
                         int (*fill)(int fd))
{
	/* Several launches may make the same one at once: each its own, the last rename stays. */
	char own_name[TEMPLATE_NAME_BYTES], tree_name[TEMPLATE_NAME_BYTES];
	(void)snprintf(own_name, sizeof(own_name), "%s-%d", new_image_name,
	               (int)getpid());                                           /* fits */
	(void)snprintf(tree_name, sizeof(tree_name), ".tree-%d", (int)getpid()); /* fits */
	auto_close int fd = openat(dir_fd, own_name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int tree;

	if (fd < 0)
		return -errno;
	int r = ftruncate(fd, (off_t)spec->bytes) < 0 ? -errno : 0;
	if (r == 0)
		r = make_tree(dir_fd, tree_name, fill, &tree);
	if (r == 0) {
		r = run_mke2fs(fd, tree, spec->inodes);
		remove_tree(dir_fd, tree_name, &tree);
	}
	if (r == 0)
		r = make_sparse(fd);
	if (r == 0 && (fsync(fd) < 0 || renameat(dir_fd, own_name, dir_fd, name) < 0))
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, own_name, 0); /* the first error counts */
	return r;
}

int disk_loop_template(int dir_fd, uint64_t bytes, uint64_t inodes, int (*fill)(int fd))
{
	char name[TEMPLATE_NAME_BYTES];
	struct disk_spec spec = {.bytes = bytes, .inodes = inodes};

	/* More inodes than a file each in every block are none: a small disk has room for few. */
	spec.inodes = MIN(inodes, MAX(bytes / BLOCK_BYTES, (uint64_t)LEAST_INODES));
	(void)snprintf(name, sizeof(name), "%s-%llu-%llu.ext4", fill ? "ready" : "empty",
	               (unsigned long long)bytes,
	               (unsigned long long)spec.inodes); /* cannot be too long */
	int fd = path_open_plain(dir_fd, name, O_RDONLY, 0);
	if (fd != -ENOENT)
		return fd;
	int r = make_template(dir_fd, name, &spec, fill);
	return r < 0 ? r : path_open_plain(dir_fd, name, O_RDONLY, 0);
}

int disk_loop_mount(const struct disk_spec *spec, int sandbox_dir_fd, int *ret_fd)
{
	auto_close int image = open_image(spec->loop_template_fd, sandbox_dir_fd);

	return image < 0 ? image : mount_image(image, spec->is_lasting, ret_fd);
}
