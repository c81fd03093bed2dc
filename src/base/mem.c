#include "base/mem.h"

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/must.h"

void mem_freep(void *p)
{
	void **slot = p;
	free(*slot);
	*slot = NULL;
}

void fd_closep(int *fd)
{
	int saved = errno;
	if (*fd >= 0)
		(void)close(*fd); /* nothing useful can be done about a failed close here */
	*fd = -1;
	errno = saved;
}

void *mem_zalloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);
	must(p != NULL);
	return p;
}

void *mem_resize(void *old, size_t count, size_t size)
{
	void *p = reallocarray(old, count ? count : 1, size ? size : 1);
	must(p != NULL);
	return p;
}

char *mem_strdup(const char *s)
{
	return mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t len)
{
	size_t used = strnlen(s, len);
	char *copy = mem_zalloc(used + 1);
	memcpy(copy, s, used);
	return copy;
}

char *mem_printf(const char *fmt, ...)
{
	char *out = NULL;
	va_list va;
	va_start(va, fmt);
	int n = vasprintf(&out, fmt, va);
	va_end(va);
	must(n >= 0);
	return out;
}

void mem_wipe_free(void *p, size_t size)
{
	if (!p)
		return;
	explicit_bzero(p, size);
	free(p);
}

/* SPARE: for the calls below; DEEPEST: nothing of ours was deeper, and less than the gap that the
 * kernel keeps below every stack. */
void mem_settle(void)
{
	enum { PAGE = 4096, SPARE = 2 * PAGE, DEEPEST = 256 * 1024 };
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)(PAGE - 1);
#ifdef M_TRIM_THRESHOLD
	(void)malloc_trim(0); /* 0: nothing was free */
#endif
	/* ENOMEM: the stack is not as deep; what there is of it was given back. */
	(void)madvise((void *)(here - DEEPEST), DEEPEST - SPARE, /* NOLINT: an address */
	              MADV_DONTNEED);
}
