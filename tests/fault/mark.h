/* What the injector and the programs it hurts agree on. */
#pragma once

#include <linux/audit.h>

/* No kernel has this system call; a program linked with fail_malloc.c makes it before it takes
 * memory, so that the injector can count and refuse. */
enum { MARK_MALLOC = 0x3fa0 };

/* And one linked with step_clock.c makes this one for the seconds that its clock is off, plus a
 * number that keeps the answer from looking like an error. */
enum { MARK_CLOCK = 0x3fa1 };
#define MARK_CLOCK_ZERO (1L << 40)

#if defined(__x86_64__)
#define MARK_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MARK_ARCH AUDIT_ARCH_AARCH64
#endif
