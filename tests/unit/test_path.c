/* Opening, making and removing below a directory somebody hostile has filled. */
#include "os/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "own_ns.h"

/* test_dir()/{outside, root/{dir/file, ...}}; the open root. */
static int make_tree(void)
{
	auto_close int dir = test_dir_fd();

	test_write_file("outside", "secret", 6);
	CHECK(mkdirat(dir, "root", 0755) == 0);
	CHECK(mkdirat(dir, "root/dir", 0755) == 0);
	test_write_file("root/dir/file", "data", 4);
	CHECK(symlinkat("dir", dir, "root/link") == 0);
	CHECK(symlinkat("../outside", dir, "root/up") == 0);
	CHECK(symlinkat("/dir/file", dir, "root/absolute") == 0);
	CHECK(symlinkat("/proc/self/root", dir, "root/magic") == 0);
	CHECK(symlinkat("nowhere", dir, "root/dangling") == 0);
	CHECK(symlinkat("loop", dir, "root/loop") == 0);
	int root = openat(dir, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(root >= 0);
	return root;
}

static int beneath(int root, const char *path)
{
	auto_close int fd = path_open_beneath(root, path, O_RDONLY, 0);

	return fd < 0 ? fd : 0;
}

static int plain(int root, const char *path)
{
	auto_close int fd = path_open_plain(root, path, O_RDONLY, 0);

	return fd < 0 ? fd : 0;
}

static int in_root(int root, const char *path)
{
	auto_close int fd = path_open_in_root(root, path, O_RDONLY, 0);

	return fd < 0 ? fd : 0;
}

TEST(beneath_stays_beneath)
{
	auto_close int root = make_tree();

	CHECK_INT(beneath(root, "dir/file"), 0);
	CHECK_INT(beneath(root, "link/file"), 0);
	CHECK_INT(beneath(root, "dir/../dir/file"), 0);
	CHECK_INT(beneath(root, "../outside"), -EXDEV);
	CHECK_INT(beneath(root, "up"), -EXDEV);
	CHECK_INT(beneath(root, "absolute"), -EXDEV);
	CHECK_INT(beneath(root, "/etc/passwd"), -EXDEV);
	CHECK_INT(beneath(root, "magic/etc/passwd"), -EXDEV);
	CHECK_INT(beneath(root, "loop"), -ELOOP);
	CHECK_INT(beneath(root, "missing"), -ENOENT);
}

TEST(plain_follows_no_link)
{
	auto_close int root = make_tree();

	CHECK_INT(plain(root, "dir/file"), 0);
	CHECK_INT(plain(root, "link/file"), -ELOOP);
	CHECK_INT(plain(root, "link"), -ELOOP);
	CHECK_INT(plain(root, "../outside"), -EXDEV);
}

TEST(in_root_turns_back_at_the_root)
{
	auto_close int root = make_tree();

	CHECK_INT(in_root(root, "/dir/file"), 0);
	CHECK_INT(in_root(root, "absolute"), 0);
	CHECK_INT(in_root(root, "../../../dir/file"), 0);
	CHECK_INT(in_root(root, "up"), -ENOENT);
	CHECK_INT(in_root(root, "/etc/passwd"), -ENOENT);
	CHECK_INT(in_root(root, "magic"), -ENOENT);
}

TEST(magic_links_are_not_followed)
{
	auto_close int proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	CHECK(proc >= 0);
	CHECK_INT(in_root(proc, "root/etc"), -ELOOP);
	CHECK_INT(in_root(proc, "exe"), -ELOOP);
	CHECK_INT(in_root(proc, "fd/0"), -ELOOP);
	CHECK(beneath(proc, "cwd") < 0);
}

TEST(files_are_made_with_their_mode_and_close_on_exec)
{
	auto_close int root = make_tree();
	struct stat st;

	umask(022);
	auto_close int fd = path_open_beneath(root, "dir/new", O_RDWR | O_CREAT | O_EXCL, 0640);
	CHECK(fd >= 0);
	CHECK(fstat(fd, &st) == 0);
	CHECK_INT(st.st_mode & 07777, 0640);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_INT(path_open_beneath(root, "up", O_RDWR | O_CREAT, 0600), -EXDEV);
}

TEST(directories_are_made_step_by_step)
{
	auto_close int root = make_tree();
	struct stat st;
	int fd = -1;

	umask(077);
	CHECK_INT(path_make_dirs(root, "/link/a//b/", 0751, (uid_t)-1, (gid_t)-1, &fd), 0);
	CHECK(fstat(fd, &st) == 0);
	CHECK_INT(st.st_mode & 07777, 0751);
	fd_closep(&fd);
	CHECK_INT(beneath(root, "dir/a/b"), 0);
	CHECK_INT(path_make_dirs(root, "", 0755, (uid_t)-1, (gid_t)-1, &fd), 0);
	fd_closep(&fd);
	CHECK_INT(path_make_dirs(root, "../../x", 0755, (uid_t)-1, (gid_t)-1, &fd), 0);
	fd_closep(&fd);
	CHECK_INT(beneath(root, "x"), 0);
	CHECK_INT(path_make_dirs(root, "dangling/x", 0755, (uid_t)-1, (gid_t)-1, &fd), -ELOOP);
	CHECK_INT(path_make_dirs(root, "dir/file/x", 0755, (uid_t)-1, (gid_t)-1, &fd), -ENOTDIR);
	CHECK_INT(fd, -1);
}

TEST(new_directories_get_their_owner_and_old_ones_keep_theirs)
{
	struct stat st;
	int fd = -1;

	if (geteuid() != 0)
		SKIP("needs root to give files away");
	auto_close int root = make_tree();
	CHECK_INT(path_make_dirs(root, "dir/own", 0700, 4242, 4343, &fd), 0);
	CHECK(fstat(fd, &st) == 0);
	CHECK_INT(st.st_uid, 4242);
	CHECK_INT(st.st_gid, 4343);
	fd_closep(&fd);
	CHECK(fstatat(root, "dir", &st, 0) == 0);
	CHECK_INT(st.st_uid, 0);
}

TEST(path_dir_refuses_a_link)
{
	auto_close int root = make_tree();
	auto_close int made = path_dir(root, "fresh", 0700);
	auto_close int again = path_dir(root, "fresh", 0700);

	CHECK(made >= 0);
	CHECK(again >= 0);
	CHECK_INT(path_dir(root, "link", 0700), -ELOOP);
	CHECK_INT(path_dir(root, "dir/file", 0700), -ENOTDIR);
}

static int is_empty(int root, const char *path)
{
	auto_close int dir = path_open_plain(root, path, O_RDONLY | O_DIRECTORY, 0);

	return path_is_empty_dir(dir);
}

TEST(an_empty_directory_has_nothing_but_itself)
{
	auto_close int root = make_tree();

	CHECK_INT(mkdirat(root, "void", 0700), 0);
	CHECK_INT(is_empty(root, "void"), 1);
	CHECK_INT(mkdirat(root, "void/...", 0700), 0);
	CHECK_INT(is_empty(root, "void"), 0);
	CHECK_INT(is_empty(root, "dir"), 0);
	CHECK_INT(path_is_empty_dir(-1), -EBADF);
}

/* A neighbour swaps a directory for a link out of the tree as fast as it can. */
static pid_t start_swapper(int root)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	for (;;) {
		if (renameat(root, "dir", root, "aside") < 0 || symlinkat("..", root, "dir") < 0 ||
		    unlinkat(root, "dir", 0) < 0 || renameat(root, "aside", root, "dir") < 0)
			_exit(1);
	}
}

TEST(a_swapped_directory_never_leads_out)
{
	auto_close int root = make_tree();
	pid_t swapper = start_swapper(root);
	int led_out = 0;

	for (int i = 0; i < 3000; i++) {
		auto_close int one = path_open_beneath(root, "dir/outside", O_RDONLY, 0);
		auto_close int two = path_open_in_root(root, "dir/outside", O_RDONLY, 0);
		auto_close int three = path_open_plain(root, "dir/outside", O_RDONLY, 0);
		led_out += one >= 0 || two >= 0 || three >= 0;
	}
	(void)kill(swapper, SIGKILL);
	CHECK(waitpid(swapper, NULL, 0) == swapper);
	CHECK_INT(led_out, 0);
}

static size_t count_entries(int dir_fd)
{
	DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	size_t count = 0;

	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

TEST(removal_takes_everything_but_follows_nothing)
{
	auto_close int root = make_tree();
	auto_close int dir = test_dir_fd();

	CHECK(mkfifoat(root, "fifo", 0600) == 0);
	CHECK(mkdirat(root, "locked", 0000) == 0);
	CHECK(mkdirat(root, "name\nwith\xff", 0755) == 0);
	for (int i = 0; i < 3000; i++) {
		char name[64];
		(void)snprintf(name, sizeof(name), "many-%0*d", 40, i);
		CHECK(mkdirat(root, name, 0755) == 0);
		if (i % 3 == 0) {
			auto_close int sub = openat(root, name, O_RDONLY | O_DIRECTORY);
			CHECK(mkdirat(sub, "below", 0755) == 0);
		}
	}
	CHECK_INT(path_remove_below(root), 0);
	CHECK_INT(count_entries(root), 0);
	CHECK_INT(faccessat(dir, "outside", F_OK, 0), 0);
	CHECK_INT(path_remove_below(root), 0);
}

TEST(removal_of_a_deep_tree_needs_few_descriptors)
{
	auto_close int root = make_tree();
	int at = dup(root);

	for (int i = 0; i < 1000; i++) {
		CHECK(mkdirat(at, "down", 0755) == 0);
		CHECK(mkdirat(at, "beside", 0755) == 0);
		int next = openat(at, "down", O_RDONLY | O_DIRECTORY);
		CHECK(next >= 0);
		close(at);
		at = next;
	}
	close(at);
	CHECK_INT(path_remove_below(root), 0);
	CHECK_INT(count_entries(root), 0);
}

TEST(removal_stops_at_a_mount)
{
	char path[512];

	if (!own_ns(CLONE_NEWNS))
		SKIP("no mount namespace");
	auto_close int root = make_tree();
	(void)snprintf(path, sizeof(path), "%s/root/dir", test_dir());
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("tmpfs", path, "tmpfs", 0, NULL) == 0);
	CHECK_INT(path_remove_below(root), -EXDEV);
	test_write_file("root/dir/canary", "x", 1);
	CHECK_INT(path_remove_below(root), -EXDEV);
	CHECK_INT(faccessat(root, "dir/canary", F_OK, 0), 0);
	CHECK(umount2(path, MNT_DETACH) == 0);
}
