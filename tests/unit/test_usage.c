#include "worker/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "harness/test.h"
#include "unit/made.h"

static struct usage measure(int dir_fd)
{
	struct usage usage = {0};
	struct err err = {0};

	if (usage_measure(dir_fd, &usage, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	return usage;
}

static void make_file(int dir_fd, const char *name, size_t len)
{
	static const char bytes[64 * 1024] = "x";
	int fd = openat(dir_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_INT(io_write_all(fd, bytes, len), 0);
	CHECK_INT(fsync(fd), 0); /* blocks are counted when they are given out */
	(void)close(fd);
}

TEST(an_empty_tree_costs_nothing)
{
	int fd = test_dir_fd();

	CHECK_INT(measure(fd).inodes, 0);
	CHECK_INT(measure(fd).bytes, 0);
	(void)close(fd);
}

TEST(blocks_count_not_apparent_sizes)
{
	int fd = test_dir_fd();

	make_file(fd, "f", 64 * 1024);
	make_file(fd, "hole", 0);
	int hole = openat(fd, "hole", O_WRONLY | O_CLOEXEC);
	CHECK_INT(ftruncate(hole, INT64_C(1) << 32), 0);
	(void)close(hole);
	struct usage usage = measure(fd);
	CHECK_INT(usage.inodes, 2);
	CHECK(usage.bytes >= 64 * 1024);
	CHECK(usage.bytes < 1 << 20);
	(void)close(fd);
}

TEST(a_file_with_many_links_counts_once)
{
	int fd = test_dir_fd();
	char name[32];

	make_file(fd, "f", 4096);
	uint64_t bytes = measure(fd).bytes;
	for (int i = 0; i < 2000; i++) {
		(void)snprintf(name, sizeof(name), "link%d", i);
		CHECK_INT(linkat(fd, "f", fd, name, 0), 0);
		(void)snprintf(name, sizeof(name), "own%d", i);
		make_file(fd, name, 0);
		CHECK_INT(linkat(fd, name, fd, "x", 0), 0);
		CHECK_INT(renameat(fd, "x", fd, i % 2 ? "y" : "z"), 0);
	}
	CHECK_INT(measure(fd).inodes, 2001);
	CHECK_INT(measure(fd).bytes, bytes);
	(void)close(fd);
}

TEST(links_are_not_followed)
{
	int fd = test_dir_fd();

	CHECK_INT(symlinkat("/", fd, "root"), 0);
	CHECK_INT(measure(fd).inodes, 1);
	(void)close(fd);
}

/* Deeper than levels are kept open, with siblings behind each directory. */
TEST(depth_does_not_matter)
{
	int root = test_dir_fd();
	int at = dup(root);
	enum { DEPTH = 500 };

	for (int i = 0; i < DEPTH; i++) {
		for (int k = 0; k < 5; k++) {
			char name[8] = {"abcde"[k], '\0'};
			CHECK_INT(mkdirat(at, name, 0700), 0);
		}
		int next = openat(at, "c", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		(void)close(at);
		at = next;
	}
	(void)close(at);
	CHECK_INT(measure(root).inodes, 5 * DEPTH);
	(void)close(root);
}
