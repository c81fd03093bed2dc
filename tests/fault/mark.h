/* What the injector and the programs it hurts agree on. */
#pragma once

#include <linux/audit.h>

/* No kernel has this system call; a program linked with fail_malloc.c makes it before it takes
 * memory, so that the injector can count and refuse. */
enum { MARK_MALLOC = 0x3fa0 };

#if defined(__x86_64__)
#define MARK_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MARK_ARCH AUDIT_ARCH_AARCH64
#endif
