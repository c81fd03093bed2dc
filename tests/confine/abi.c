/*
 * E14: other doors into the same kernel. A filter that knows the native numbers only would let
 * x32 numbers or the 32-bit entry pass; numbers nobody knows yet must look absent.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

static struct verdict unknown_number(long number)
{
	return REFUSED(syscall(number), ENOSYS);
}

static struct verdict minus_one(void)
{
	return unknown_number(-1);
}

static struct verdict beyond_known(void)
{
	return unknown_number(1500);
}

static struct verdict far_beyond(void)
{
	return unknown_number(0x3fffffff);
}

/* The kernel looks at the low half of the register only. */
static struct verdict high_half(void)
{
	return REFUSED(syscall((1L << 32) | SYS_unshare, 0x10000000), EPERM, ENOSYS);
}

#ifdef __x86_64__
enum { X32_BIT = 0x40000000 };

static struct verdict x32_getpid(void)
{
	return REFUSED(syscall(X32_BIT + SYS_getpid), ENOSYS);
}

static struct verdict x32_unshare(void)
{
	return REFUSED(syscall(X32_BIT + SYS_unshare, 0x10000000), ENOSYS, EPERM);
}

static struct verdict x32_execve(void)
{
	return REFUSED(syscall(X32_BIT + 520, "/bin/true", (char *[]){"true", NULL}, NULL), ENOSYS);
}

static long entry_32(long number, long argument)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(argument) : "memory");
	return result;
}

static struct verdict int80(long number, long argument)
{
	long result = entry_32(number, argument);
	if (result >= 0)
		return broken("executed, result %ld", result);
	errno = (int)-result;
	return REFUSED(-1, ENOSYS);
}

static struct verdict int80_getpid(void)
{
	return int80(20, 0);
}

static struct verdict int80_unshare(void)
{
	return int80(310, 0x10000000);
}
#endif

static const struct attempt attempts[] = {
	{"E14", "number -1", minus_one, KILLED_IS_HELD, NULL},
	{"E14", "number 1500", beyond_known, KILLED_IS_HELD, NULL},
	{"E14", "number 0x3fffffff", far_beyond, KILLED_IS_HELD, NULL},
	{"E14", "unshare with a high half", high_half, KILLED_IS_HELD, NULL},
#ifdef __x86_64__
	{"E14", "x32 getpid", x32_getpid, KILLED_IS_HELD, NULL},
	{"E14", "x32 unshare", x32_unshare, KILLED_IS_HELD, NULL},
	{"E14", "x32 execve", x32_execve, KILLED_IS_HELD, NULL},
	{"E14", "int 0x80 getpid", int80_getpid, KILLED_IS_HELD, NULL},
	{"E14", "int 0x80 unshare", int80_unshare, KILLED_IS_HELD, NULL},
#endif
};

const struct topic topic_abi = {"abi", attempts, ATTEMPT_COUNT(attempts)};
