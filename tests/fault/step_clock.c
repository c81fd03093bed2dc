/*
 * Linked into programs that the fault tests run: the clock of the day is off by what the injector
 * says. Without one the answer is ENOSYS, which counts as nothing. Other clocks stay as they are,
 * as they do when somebody sets the time.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mark.h"

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int before = errno;
	long off = 0;

	if (syscall(SYS_clock_gettime, clock, ret) < 0)
		return -1;
	if (clock == CLOCK_REALTIME)
		off = syscall(MARK_CLOCK);
	if (off > 0)
		ret->tv_sec += off - MARK_CLOCK_ZERO;
	errno = before;
	return 0;
}
