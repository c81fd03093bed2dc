#include "os/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"

static void open_pair(int *master, int *slave)
{
	int r = tty_open_pair(master, slave);

	if (r == -ENOENT || r == -EACCES || r == -ENOSPC)
		SKIP("no terminals here: %s", strerror(-r));
	CHECK_INT(r, 0);
}

TEST(a_pair_talks)
{
	int master = -1, slave = -1;
	char text[8] = "";

	open_pair(&master, &slave);
	CHECK(fcntl(master, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(slave, F_GETFD) & FD_CLOEXEC);
	CHECK(write(master, "hi\n", 3) == 3);
	CHECK(read(slave, text, sizeof(text)) == 3);
	CHECK_STR(text, "hi\n");
	close(master);
	close(slave);
}

TEST(size_is_set_and_read)
{
	struct tty_size size = {0};
	int master = -1, slave = -1;

	open_pair(&master, &slave);
	CHECK_INT(tty_set_size(master, (struct tty_size){.rows = 50, .cols = 132}), 0);
	CHECK_INT(tty_get_size(slave, &size), 0);
	CHECK_INT(size.rows, 50);
	CHECK_INT(size.cols, 132);
	close(master);
	close(slave);
}

TEST(only_a_master_is_one)
{
	int master = -1, slave = -1;
	auto_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	auto_close int dir = open("/", O_RDONLY | O_CLOEXEC);
	auto_close int path = open("/dev/ptmx", O_PATH | O_CLOEXEC);

	open_pair(&master, &slave);
	CHECK(tty_is_master(master));
	CHECK(!tty_is_master(slave));
	CHECK(!tty_is_master(null));
	CHECK(!tty_is_master(dir));
	CHECK(!tty_is_master(path));
	CHECK(!tty_is_master(-1));
	close(master);
	close(slave);
}

TEST(a_size_needs_a_terminal)
{
	struct tty_size size;
	auto_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	CHECK_INT(tty_get_size(null, &size), -ENOTTY);
	CHECK_INT(tty_set_size(null, (struct tty_size){1, 1}), -ENOTTY);
}

TEST(the_slave_becomes_the_controlling_terminal)
{
	int master = -1, slave = -1, status;

	open_pair(&master, &slave);
	pid_t pid = fork();
	if (pid == 0) {
		if (tty_make_controlling(slave) < 0)
			_exit(1);
		int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
		_exit(tty >= 0 && isatty(0) && isatty(1) && isatty(2) && tcgetpgrp(0) == getpid() &&
		                      fcntl(0, F_GETFD) == 0
		              ? 0
		              : 2);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
	close(master);
	close(slave);
}
