#include "worker/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/test.h"
#include "unit/made.h"

static void make_dir(int dir_fd, const char *name)
{
	CHECK_INT(mkdirat(dir_fd, name, 0700), 0);
}

static void make_file(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	(void)close(fd);
}

static void check_removed(int dir_fd)
{
	struct err err = {0};

	if (remove_below(dir_fd, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	size_t count = 0;
	while (readdir(dir))
		count++;
	(void)closedir(dir);
	CHECK_INT(count, 2);
}

TEST(every_kind_of_entry_goes)
{
	int fd = test_dir_fd();

	make_dir(fd, "d");
	make_file(fd, "d/f");
	make_file(fd, "with\nnewline");
	make_file(fd, "\xff\xfe");
	CHECK_INT(symlinkat("/etc", fd, "link"), 0);
	CHECK_INT(mkfifoat(fd, "pipe", 0600), 0);
	CHECK_INT(linkat(fd, "d/f", fd, "again", 0), 0);
	check_removed(fd);
	CHECK(made_exists(AT_FDCWD, "/etc/passwd"));
	(void)close(fd);
}

TEST(a_very_deep_tree)
{
	int root = test_dir_fd();
	int at = dup(root);

	for (int i = 0; i < 3000; i++) {
		make_dir(at, "some-directory-name");
		make_file(at, "f");
		int next = openat(at, "some-directory-name", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		(void)close(at);
		at = next;
	}
	(void)close(at);
	check_removed(root);
	(void)close(root);
}

TEST_WITHIN(a_very_wide_tree, 60)
{
	int root = test_dir_fd();
	char name[32];

	for (int i = 0; i < 20000; i++) {
		(void)snprintf(name, sizeof(name), "file%d", i);
		make_file(root, name);
		if (i % 100 == 0) {
			(void)snprintf(name, sizeof(name), "dir%d", i);
			make_dir(root, name);
		}
	}
	check_removed(root);
	(void)close(root);
}

/* As the owner without any capability: permissions taken away come back first. */
TEST(locked_directories)
{
	int root = test_dir_fd();

	make_dir(root, "a");
	make_dir(root, "a/b");
	make_dir(root, "a/b/c");
	make_file(root, "a/b/c/f");
	make_file(root, "a/f");
	if (geteuid() == 0) {
		static const char *const all[] = {".", "a", "a/b", "a/b/c", "a/b/c/f", "a/f"};
		for (size_t i = 0; i < ARRAY_LEN(all); i++)
			CHECK_INT(fchownat(root, all[i], 4242, 4242, 0), 0);
		CHECK_INT(setresgid(4242, 4242, 4242), 0);
		CHECK_INT(setresuid(4242, 4242, 4242), 0);
	}
	CHECK_INT(fchmodat(root, "a/b/c", 0500, 0), 0);
	CHECK_INT(fchmodat(root, "a/b", 0, 0), 0);
	CHECK_INT(fchmodat(root, "a", 0500, 0), 0);
	check_removed(root);
	(void)close(root);
}
