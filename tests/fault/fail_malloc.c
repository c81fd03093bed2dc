/*
 * Linked into programs that the fault tests run: asks the injector before each allocation. Without
 * one the answer is ENOSYS, which counts as yes.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mark.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static int is_refused(void)
{
	int before = errno;
	int refused = syscall(MARK_MALLOC) < 0 && errno == ENOMEM;

	errno = refused ? ENOMEM : before;
	return refused;
}

void *malloc(size_t size)
{
	return is_refused() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return is_refused() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	return is_refused() ? NULL : __libc_realloc(old, size);
}
