/* Terminals: pty pairs inside a devpts of ours, raw mode and window size outside. -errno. */
#pragma once

#include <termios.h>

#include "base/base.h"

struct tty_size {
	uint16_t rows, cols;
};

/* A new pair from /dev/ptmx of the current root; the slave is opened by ioctl TIOCGPTPEER, so no
 * path is walked. */
int tty_open_pair(int *ret_master, int *ret_slave) NODISCARD;
/* True if fd is the master side of a pty: for fds received from inside. */
bool tty_is_master(int fd);
int tty_set_size(int fd, struct tty_size size) NODISCARD;
int tty_get_size(int fd, struct tty_size *ret) NODISCARD;
/* setsid + TIOCSCTTY + dup to 0, 1, 2. */
int tty_make_controlling(int slave) NODISCARD;
