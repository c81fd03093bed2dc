#include "os/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "os/caps.h"
#include "os/mount.h"
#include "own_ns.h"

static void need(enum disk_backend backend)
{
	auto_close int dir = test_dir_fd();

	if (!own_ns(CLONE_NEWNS) || mount_make_private() < 0)
		SKIP("no mount namespace");
	int r = disk_probe(backend, dir);
	if (r < 0)
		SKIP("%s disks do not work here: %s", disk_name(backend), strerror(-r));
	/* a probe leaves nothing behind */
	CHECK_INT(faccessat(dir, ".disk-probe", F_OK, 0), -1);
}

static int fill(int dir, const char *name, size_t bytes)
{
	static char block[64 * 1024];
	auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < bytes; done += sizeof(block)) {
		if (write(fd, block, sizeof(block)) < 0)
			return -errno;
	}
	return 0;
}

TEST(names_and_back)
{
	enum disk_backend backend;

	for (int i = DISK_AUTO; i <= DISK_SAMPLED; i++) {
		CHECK(disk_parse(disk_name((enum disk_backend)i), &backend));
		CHECK_INT(backend, i);
	}
	CHECK(!disk_parse("floppy", &backend));
}

TEST(auto_is_for_choosing_only)
{
	auto_close int dir = test_dir_fd();
	const struct disk_spec spec = {.backend = DISK_AUTO};
	bool is_mount;
	int fd = -1;

	CHECK_INT(disk_probe(DISK_AUTO, dir), -EINVAL);
	CHECK_INT(disk_prepare(&spec, dir, &fd, &is_mount), -EINVAL);
	enum disk_backend chosen = disk_choose(dir);
	CHECK(chosen == DISK_QUOTA || chosen == DISK_LOOP || chosen == DISK_TMPFS);
}

TEST(tmpfs_is_full_when_it_is)
{
	const struct disk_spec spec = {.backend = DISK_TMPFS, .bytes = 1 << 20, .inodes = 10};
	struct disk_usage usage;
	bool is_mount = false;
	int fd = -1;

	need(DISK_TMPFS);
	auto_close int dir = test_dir_fd();
	CHECK_INT(disk_prepare(&spec, dir, &fd, &is_mount), 0);
	CHECK(is_mount);
	CHECK_INT(disk_usage(&spec, fd, &usage), 0);
	CHECK(!usage.is_full);
	CHECK_INT(fill(fd, "half", 512 * 1024), 0);
	CHECK_INT(disk_usage(&spec, fd, &usage), 0);
	CHECK(!usage.is_full);
	CHECK_INT(usage.bytes, 512 * 1024);
	CHECK_INT(fill(fd, "rest", 1 << 20), -ENOSPC);
	CHECK_INT(disk_usage(&spec, fd, &usage), 0);
	CHECK(usage.is_full);
	CHECK(unlinkat(fd, "rest", 0) == 0);
	for (int i = 0; i < 20; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "%d", i);
		if (mkdirat(fd, name, 0755) < 0)
			break;
		CHECK(i < 10);
	}
	CHECK_INT(errno, ENOSPC);
	CHECK_INT(disk_usage(&spec, fd, &usage), 0);
	CHECK(usage.is_full);
	CHECK(usage.inodes <= 10);
	close(fd);
}

TEST(a_tmpfs_changes_its_size)
{
	struct disk_spec spec = {.backend = DISK_TMPFS, .bytes = 1 << 20, .inodes = 10};
	struct disk_spec loop = {.backend = DISK_LOOP, .bytes = 1 << 20, .inodes = 10};
	bool is_mount = false;
	auto_close int fd = -1;

	need(DISK_TMPFS);
	auto_close int dir = test_dir_fd();
	CHECK_INT(disk_prepare(&spec, dir, &fd, &is_mount), 0);
	CHECK_INT(fill(fd, "large", 2 << 20), -ENOSPC);
	spec.bytes = 4 << 20;
	CHECK_INT(disk_resize(&spec, fd), 0);
	CHECK_INT(fill(fd, "larger", 2 << 20), 0);
	spec.inodes = 4;
	CHECK_INT(disk_resize(&spec, fd), 0);
	CHECK_INT(mkdirat(fd, "one", 0755), 0);
	CHECK_INT(mkdirat(fd, "two", 0755), -1);
	CHECK_INT(errno, ENOSPC);
	CHECK_INT(disk_resize(&loop, fd), -EOPNOTSUPP);
	CHECK_INT(disk_resize(&spec, dir), -EINVAL); /* no tmpfs, or not its root */
}

TEST(a_loop_disk_limits_and_keeps_its_files)
{
	struct disk_spec spec = {.backend = DISK_LOOP, .bytes = 16 << 20, .inodes = 512};
	struct disk_usage usage;
	bool is_mount = false;
	int fd = -1;

	need(DISK_LOOP);
	auto_close int dir = test_dir_fd();
	auto_close int template = disk_loop_template(dir, spec.bytes, spec.inodes, NULL);
	CHECK(template >= 0);
	spec.loop_template_fd = template;
	CHECK_INT(disk_prepare(&spec, dir, &fd, &is_mount), 0);
	CHECK(is_mount);
	CHECK_INT(fill(fd, "kept", 1 << 20), 0);
	CHECK_INT(fill(fd, "large", 32 << 20), -ENOSPC);
	CHECK_INT(disk_usage(&spec, fd, &usage), 0);
	CHECK(usage.is_full);
	CHECK(unlinkat(fd, "large", 0) == 0);
	CHECK_INT(disk_usage(&spec, fd, &usage), 0);
	CHECK(!usage.is_full);
	close(fd);
	/* the template stayed empty, and the second start finds the files */
	struct disk_spec other = spec;
	CHECK(mkdirat(dir, "other", 0700) == 0);
	auto_close int other_dir = openat(dir, "other", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(disk_prepare(&other, other_dir, &fd, &is_mount), 0);
	CHECK_INT(faccessat(fd, "kept", F_OK, 0), -1);
	close(fd);
	CHECK_INT(disk_prepare(&spec, dir, &fd, &is_mount), 0);
	CHECK_INT(faccessat(fd, "kept", F_OK, 0), 0);
	close(fd);
}

/* An ext4 with project quota at test_dir()/fs, or a skip. */
static int mount_quota_fs(void)
{
	char image[256], target[256];
	pid_t pid;
	int status;

	(void)snprintf(image, sizeof(image), "%s/image", test_dir());
	(void)snprintf(target, sizeof(target), "%s/fs", test_dir());
	char *argv[] = {"mke2fs",
	                "-q",
	                "-F",
	                "-t",
	                "ext4",
	                "-O",
	                "quota,project",
	                "-E",
	                "quotatype=prjquota",
	                image,
	                "64M",
	                NULL};
	if (posix_spawn(&pid, "/sbin/mke2fs", NULL, NULL, argv, environ) != 0)
		SKIP("no mke2fs");
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
	char *mount_argv[] = {"mount", "-o", "loop,prjquota", image, target, NULL};
	CHECK(mkdir(target, 0700) == 0);
	if (posix_spawn(&pid, "/bin/mount", NULL, NULL, mount_argv, environ) != 0)
		SKIP("no mount program");
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status != 0)
		SKIP("no file system with project quota can be mounted here");
	int fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

TEST(project_quota_holds)
{
	struct disk_spec spec = {
		.backend = DISK_QUOTA, .bytes = 4 << 20, .inodes = 20, .project = 77};
	struct disk_usage usage;
	bool is_mount = true;
	int fd = -1;

	if (!own_ns(CLONE_NEWNS) || mount_make_private() < 0)
		SKIP("no mount namespace");
	auto_close int dir = mount_quota_fs();
	CHECK_INT(disk_probe(DISK_QUOTA, dir), 0);
	CHECK_INT(disk_choose(dir), DISK_QUOTA);
	CHECK_INT(disk_prepare(&spec, dir, &fd, &is_mount), 0);
	CHECK(!is_mount);
	CHECK_INT(disk_usage(&spec, fd, &usage), 0);
	CHECK(!usage.is_full);
	CHECK(usage.bytes < 1 << 20);
	CHECK_INT(caps_limit(~CAPS_BIT(CAP_SYS_RESOURCE)), 0);
	CHECK_INT(fill(fd, "large", 8 << 20), -EDQUOT);
	CHECK_INT(disk_usage(&spec, fd, &usage), 0);
	CHECK(usage.is_full);
	CHECK(usage.bytes >= 3 << 20);
	/* what lies beside does not count */
	CHECK_INT(fill(dir, "beside", 1 << 20), 0);
	close(fd);
}

TEST(sampled_files_are_for_others_to_count)
{
	const struct disk_spec spec = {.backend = DISK_SAMPLED, .bytes = 1 << 20, .inodes = 50};
	struct disk_usage usage;
	bool is_mount = true;
	int fd = -1;
	auto_close int dir = test_dir_fd();

	CHECK_INT(disk_prepare(&spec, dir, &fd, &is_mount), 0);
	CHECK(!is_mount);
	CHECK_INT(disk_usage(&spec, fd, &usage), -EOPNOTSUPP);
	close(fd);
}
