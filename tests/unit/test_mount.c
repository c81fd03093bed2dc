/* Mounts, in a mount namespace of the test's own. */
#include "os/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "os/ns.h"
#include "own_ns.h"

static void need_mounts(void)
{
	if (!own_ns(CLONE_NEWNS) || mount_make_private() < 0)
		SKIP("no mount namespace");
}

static void make_dir(const char *name)
{
	auto_close int dir = test_dir_fd();

	CHECK(mkdirat(dir, name, 0755) == 0);
}

static unsigned long flags_of(int fd)
{
	struct statvfs fs;

	CHECK(fstatvfs(fd, &fs) == 0);
	return fs.f_flag;
}

TEST(a_new_file_system_is_usable_before_it_is_attached)
{
	int fd = -1;

	need_mounts();
	CHECK_INT(mount_new("tmpfs", "x", "size=64k,mode=0751,nr_inodes=10",
	                    MOUNT_NOSUID | MOUNT_NODEV, &fd),
	          0);
	struct stat st;
	CHECK(fstat(fd, &st) == 0);
	CHECK_INT(st.st_mode & 07777, 0751);
	CHECK(mkdirat(fd, "made", 0755) == 0);
	CHECK_INT(flags_of(fd) & (ST_NOSUID | ST_NODEV), ST_NOSUID | ST_NODEV);
	make_dir("at");
	auto_close int dir = test_dir_fd();
	CHECK_INT(mount_attach(fd, dir, "/at"), 0);
	CHECK_INT(faccessat(dir, "at/made", F_OK, 0), 0);
	CHECK_INT(mount_set_flags(fd, MOUNT_RO | MOUNT_NOEXEC), 0);
	CHECK_INT(mkdirat(dir, "at/more", 0755), -1);
	CHECK_INT(errno, EROFS);
	char path[512];
	(void)snprintf(path, sizeof(path), "%s/at", test_dir());
	CHECK_INT(mount_detach(path), 0);
	CHECK_INT(faccessat(dir, "at/made", F_OK, 0), -1);
	close(fd);
}

TEST(bad_options_and_types_are_errors)
{
	int fd = -1;

	need_mounts();
	CHECK_INT(mount_new("tmpfs", NULL, "size=64k,nonsense=1", 0, &fd), -EINVAL);
	CHECK_INT(mount_new("nosuchfs", NULL, NULL, 0, &fd), -ENODEV);
	CHECK_INT(fd, -1);
}

TEST(a_clone_keeps_the_flags_it_was_given)
{
	int fd = -1;

	need_mounts();
	make_dir("from");
	make_dir("to");
	auto_close int dir = test_dir_fd();
	CHECK_INT(mount_clone(dir, "from", MOUNT_RO | MOUNT_NOSUID, &fd), 0);
	CHECK_INT(mount_attach(fd, dir, "to"), 0);
	CHECK_INT(mkdirat(dir, "to/x", 0755), -1);
	CHECK(mkdirat(dir, "from/x", 0755) == 0);
	CHECK_INT(faccessat(dir, "to/x", F_OK, 0), 0);
	close(fd);
}

TEST(attaching_follows_no_link_and_stays_inside)
{
	int fd = -1;

	need_mounts();
	make_dir("root");
	make_dir("outside");
	auto_close int dir = test_dir_fd();
	CHECK(symlinkat("../outside", dir, "root/final") == 0);
	CHECK(symlinkat("/", dir, "root/slash") == 0);
	CHECK(mkdirat(dir, "root/target", 0755) == 0);
	auto_close int root = openat(dir, "root", O_PATH | O_CLOEXEC);
	CHECK_INT(mount_new("tmpfs", NULL, "size=64k", 0, &fd), 0);
	CHECK_INT(mount_attach(fd, root, "final"), -ELOOP);
	CHECK_INT(mount_attach(fd, root, "../outside"), -ENOENT);
	CHECK_INT(mount_attach(fd, root, "missing"), -ENOENT);
	CHECK_INT(mount_attach(fd, root, "slash/target"), 0);
	CHECK(mkdirat(fd, "canary", 0755) == 0);
	CHECK_INT(faccessat(dir, "root/target/canary", F_OK, 0), 0);
	close(fd);
}

TEST(overlay_takes_layers_by_path)
{
	char options[512];
	int fd = -1;

	need_mounts();
	make_dir("base");
	auto_close int dir = test_dir_fd();
	int scratch = -1;
	CHECK_INT(mount_new("tmpfs", NULL, "size=1m", 0, &scratch), 0);
	CHECK_INT(mount_attach(scratch, dir, "base"), 0);
	close(scratch);
	static const char *const names[] = {"base/low", "base/top", "base/upper", "base/work"};
	for (size_t i = 0; i < 4; i++)
		make_dir(names[i]);
	test_write_file("base/low/file", "low", 3);
	test_write_file("base/top/file", "top", 3);
	CHECK(chdir(test_dir()) == 0 && chdir("base") == 0);
	int r = mount_new("overlay", "cloche",
	                  "lowerdir=top:low,upperdir=upper,workdir=work,userxattr", MOUNT_NOSUID,
	                  &fd);
	if (r == -ENODEV)
		SKIP("no overlayfs");
	CHECK_INT(r, 0);
	char text[4] = "";
	auto_close int file = openat(fd, "file", O_RDONLY | O_CLOEXEC);
	CHECK(read(file, text, 3) == 3);
	CHECK_STR(text, "top");
	CHECK(mkdirat(fd, "made", 0755) == 0);
	CHECK_INT(faccessat(dir, "base/upper/made", F_OK, 0), 0);
	close(fd);

	/* longer than one fsconfig string */
	char padding[160] = "";
	for (size_t i = 0; i < 70; i++)
		memcpy(padding + i * 2, "./", 2);
	(void)snprintf(options, sizeof(options), "lowerdir=%stop:%slow", padding, padding);
	r = mount_new("overlay", "cloche", options, MOUNT_RO, &fd);
	if (r == -EINVAL)
		SKIP("this kernel takes overlay layers as one short list only");
	CHECK_INT(r, 0);
	CHECK_INT(faccessat(fd, "file", F_OK, 0), 0);
	close(fd);
	CHECK(chdir("/") == 0);
}

TEST(an_idmapped_clone_shows_other_owners)
{
	const struct ns_map map = {0, 300000, 65536};
	int userns = -1, fd = -1;
	struct stat st;

	if (geteuid() != 0)
		SKIP("needs root");
	need_mounts();
	make_dir("from");
	auto_close int dir = test_dir_fd();
	CHECK(fchownat(dir, "from", 7, 8, 0) == 0);
	CHECK_INT(ns_user_create(&map, 1, &map, 1, false, &userns), 0);
	CHECK_INT(mount_clone(dir, "from", 0, &fd), 0);
	int r = mount_set_idmap(fd, userns);
	close(userns);
	if (r == -EINVAL)
		SKIP("this file system cannot be idmapped");
	CHECK_INT(r, 0);
	CHECK(fstat(fd, &st) == 0);
	CHECK_INT(st.st_uid, 300007);
	CHECK_INT(st.st_gid, 300008);
	close(fd);
}

TEST(pivot_leaves_nothing_of_the_old_root)
{
	int fd = -1;

	need_mounts();
	make_dir("root");
	auto_close int dir = test_dir_fd();
	CHECK_INT(mount_new("tmpfs", NULL, "size=1m", 0, &fd), 0);
	CHECK(mkdirat(fd, "only", 0755) == 0);
	CHECK_INT(mount_attach(fd, dir, "root"), 0);
	close(fd);
	char path[512];
	(void)snprintf(path, sizeof(path), "%s/root", test_dir());
	pid_t pid = fork();
	if (pid == 0) {
		/* pivot_root moves every process of the namespace: not the harness */
		int root = ns_unshare(CLONE_NEWNS) < 0 ? -1 : open(path, O_PATH | O_CLOEXEC);
		int r = root < 0 ? -EBADF : mount_pivot(root);
		if (r < 0)
			_exit(-r);
		_exit(access("/only", F_OK) == 0 && access("/etc", F_OK) < 0 ? 0 : 200);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}
