#include "os/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

/* /dev/ptmx, and the ptmx of every devpts: the inode behind each master. */
enum { PTMX_MAJOR = 5, PTMX_MINOR = 2 };

int tty_open_pair(int *ret_master, int *ret_slave)
{
	auto_close int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int locked = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
		return -errno;
	int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	*ret_master = take_fd(&master);
	*ret_slave = slave;
	return 0;
}

bool tty_is_master(int fd)
{
	struct stat st;
	unsigned int number;

	/* The device number first: an ioctl on a foreign kind of file may do anything. */
	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(PTMX_MAJOR, PTMX_MINOR) && ioctl(fd, TIOCGPTN, &number) == 0;
}

int tty_set_size(int fd, struct tty_size size)
{
	struct winsize window = {.ws_row = size.rows, .ws_col = size.cols};

	return ioctl(fd, TIOCSWINSZ, &window) < 0 ? -errno : 0;
}

int tty_get_size(int fd, struct tty_size *ret)
{
	struct winsize window;

	if (ioctl(fd, TIOCGWINSZ, &window) < 0)
		return -errno;
	*ret = (struct tty_size){.rows = window.ws_row, .cols = window.ws_col};
	return 0;
}

int tty_make_controlling(int slave)
{
	if (setsid() < 0 && errno != EPERM) /* EPERM: already a leader */
		return -errno;
	if (ioctl(slave, TIOCSCTTY, 0) < 0)
		return -errno;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (dup2(slave, fd) < 0)
			return -errno;
		if (slave == fd && fcntl(fd, F_SETFD, 0) < 0) /* dup2 to itself keeps cloexec */
			return -errno;
	}
	if (slave > STDERR_FILENO)
		fd_closep(&slave);
	return 0;
}
