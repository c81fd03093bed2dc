/*
 * The short list of words every file may use. Nothing here knows what a sandbox is.
 * Everything in this header is usable between clone and exec.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/banned.h"

#ifndef static_assert
#define static_assert _Static_assert
#endif

#define ARRAY_LEN(a)    (sizeof(a) / sizeof((a)[0]))
#define NODISCARD       __attribute__((warn_unused_result))
#define NORETURN        __attribute__((noreturn))
#define PRINTF(fmt, va) __attribute__((format(printf, fmt, va)))
#define UNUSED          __attribute__((unused))

/* C17 has the keyword only; <assert.h> would bring assert() along. */
#define static_assert _Static_assert

#undef MIN
#undef MAX
#define MIN(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) min_a_ = (a);                                                        \
		__typeof__(b) min_b_ = (b);                                                        \
		min_a_ < min_b_ ? min_a_ : min_b_;                                                 \
	})
#define MAX(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) max_a_ = (a);                                                        \
		__typeof__(b) max_b_ = (b);                                                        \
		max_a_ > max_b_ ? max_a_ : max_b_;                                                 \
	})

/* Scope cleanup. Declare initialised; move ownership out with take_*. */
#define auto_(fn)  __attribute__((cleanup(fn)))
#define auto_close auto_(fd_closep)
#define auto_free  auto_(mem_freep)

/* Closes *fd if it is open and sets it to -1. Keeps errno. */
void fd_closep(int *fd);
/* Frees *(void **)p and sets it to NULL. */
void mem_freep(void *p);

/* Gives the fd away: the variable no longer owns it. */
static inline int take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

/* Gives the pointer away: the variable no longer owns it. */
#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})
