#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"

TEST(a_closed_socket_is_an_error_not_a_signal)
{
	int fds[2];
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	(void)close(fds[1]);
	CHECK_INT(io_write_all(fds[0], "x", 1), -EPIPE);
	(void)close(fds[0]);
}

TEST(writes_and_reads_everything)
{
	enum { SIZE = 1 << 20 };
	int fds[2];
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	auto_free uint8_t *bytes = mem_zalloc(SIZE);
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 31);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)close(fds[0]);
		int r = io_set_nonblock(fds[1], true); /* also then it must wait and go on */
		_exit(r == 0 && io_write_all(fds[1], bytes, SIZE) == 0 ? 0 : 1);
	}
	(void)close(fds[1]);
	auto_free uint8_t *got = mem_zalloc(SIZE + 1);
	CHECK_INT(io_read_full(fds[0], got, SIZE + 1), SIZE);
	CHECK_MEM(got, bytes, SIZE);
	int status = 1;
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
	(void)close(fds[0]);
}

TEST(bad_descriptors_are_errors)
{
	char byte = 0;
	CHECK_INT(io_write_all(-1, "x", 1), -EBADF);
	CHECK_INT(io_read_full(-1, &byte, 1), -EBADF);
	CHECK_INT(io_set_nonblock(-1, true), -EBADF);
	CHECK_INT(io_set_cloexec(-1, true), -EBADF);
}

TEST(small_files_are_read_whole)
{
	auto_close int dir_fd = test_dir_fd();
	test_write_file("f", "hello", 5);
	auto_free char *text = NULL;
	size_t len = 0;
	CHECK_INT(io_read_file(dir_fd, "f", 5, &text, &len), 0);
	CHECK_INT(len, 5);
	CHECK_STR(text, "hello");
	char *untouched = NULL;
	CHECK_INT(io_read_file(dir_fd, "f", 4, &untouched, &len), -EFBIG);
	CHECK_INT(io_read_file(dir_fd, "missing", 4, &untouched, &len), -ENOENT);
	CHECK(untouched == NULL);
	auto_free char *status = NULL;
	CHECK_INT(io_read_file(AT_FDCWD, "/proc/self/status", 65536, &status, NULL), 0);
	CHECK_HAS(status, "Pid:");
}

TEST(what_is_no_file_is_refused)
{
	auto_close int dir_fd = test_dir_fd();
	char *text = NULL;
	size_t len = 0;
	CHECK_INT(mkfifoat(dir_fd, "fifo", 0600), 0);
	CHECK_INT(symlinkat("/etc/passwd", dir_fd, "link"), 0);
	CHECK_INT(io_read_file(dir_fd, "fifo", 100, &text, &len), -EINVAL);
	CHECK_INT(io_read_file(dir_fd, "link", 100, &text, &len), -ELOOP);
	CHECK_INT(io_read_file(dir_fd, ".", 100, &text, &len), -EISDIR);
	CHECK(text == NULL);
}

TEST(larger_files_grow_the_buffer)
{
	enum { SIZE = 100000 };
	auto_close int dir_fd = test_dir_fd();
	auto_free char *bytes = mem_zalloc(SIZE);
	memset(bytes, 'x', SIZE);
	test_write_file("big", bytes, SIZE);
	auto_free char *text = NULL;
	size_t len = 0;
	CHECK_INT(io_read_file(dir_fd, "big", SIZE, &text, &len), 0);
	CHECK_INT(len, SIZE);
	CHECK_INT(strlen(text), SIZE);
}

static int count_entries(void)
{
	int count = 0;
	DIR *dir = opendir(test_dir());
	CHECK(dir != NULL);
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
		count += entry->d_name[0] != '.' || entry->d_name[1] != '\0';
	(void)closedir(dir);
	return count - 1; /* ".." */
}

TEST(replacing_a_file_leaves_one_file)
{
	auto_close int dir_fd = test_dir_fd();
	(void)umask(077);
	CHECK_INT(io_replace_file(dir_fd, "f", "one", 3, 0644), 0);
	CHECK_INT(io_replace_file(dir_fd, "f", "second", 6, 0640), 0);
	auto_free char *text = NULL;
	CHECK_INT(io_read_file(dir_fd, "f", 100, &text, NULL), 0);
	CHECK_STR(text, "second");
	struct stat st;
	CHECK_INT(fstatat(dir_fd, "f", &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0640);
	CHECK_INT(count_entries(), 1);
}

TEST(replacing_refuses_paths_and_folders)
{
	auto_close int dir_fd = test_dir_fd();
	CHECK_INT(io_replace_file(dir_fd, "a/b", "x", 1, 0600), -EINVAL);
	CHECK_INT(io_replace_file(dir_fd, "", "x", 1, 0600), -EINVAL);
	CHECK_INT(mkdirat(dir_fd, "d", 0700), 0);
	CHECK_INT(io_replace_file(dir_fd, "d", "x", 1, 0600), -EISDIR);
	CHECK_INT(count_entries(), 1);
}

TEST(replacing_does_not_write_through_links)
{
	auto_close int dir_fd = test_dir_fd();
	test_write_file("victim", "safe", 4);
	CHECK_INT(symlinkat("victim", dir_fd, "f"), 0);
	CHECK_INT(io_replace_file(dir_fd, "f", "new", 3, 0600), 0);
	auto_free char *text = NULL;
	CHECK_INT(io_read_file(dir_fd, "victim", 100, &text, NULL), 0);
	CHECK_STR(text, "safe");
}

TEST(control_files_take_one_write)
{
	auto_close int dir_fd = test_dir_fd();
	test_write_file("ctl", "", 0);
	CHECK_INT(io_write_ctl(dir_fd, "ctl", "max\n"), 0);
	auto_free char *text = NULL;
	CHECK_INT(io_read_file(dir_fd, "ctl", 100, &text, NULL), 0);
	CHECK_STR(text, "max\n");
	CHECK_INT(io_write_ctl(dir_fd, "missing", "1"), -ENOENT);
}

TEST(flags_change_both_ways)
{
	int fds[2];
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(io_set_nonblock(fds[0], true), 0);
	CHECK(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	CHECK_INT(io_set_nonblock(fds[0], false), 0);
	CHECK(!(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
	CHECK_INT(io_set_cloexec(fds[0], false), 0);
	CHECK_INT(fcntl(fds[0], F_GETFD), 0);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

TEST(times_have_one_shape)
{
	char text[32];
	io_format_time(text, sizeof(text), 0);
	CHECK_STR(text, "1970-01-01T00:00:00.000Z");
	io_format_time(text, sizeof(text), UINT64_C(1769860800123));
	CHECK_STR(text, "2026-01-31T12:00:00.123Z");
	io_format_time(text, sizeof(text), UINT64_MAX);
	CHECK_STR(text, "9999-12-31T23:59:59.999Z");
	char exact[25];
	io_format_time(exact, sizeof(exact), 1);
	CHECK_INT(strlen(exact), 24);
}

TEST(clocks_move_forward)
{
	uint64_t boot = io_boot_ms();
	CHECK(io_boot_ms() >= boot);
	CHECK(io_real_ms() / 1000 <= io_real_ns() / 1000000000);
}
