/*
 * Allocation for sizes we choose ourselves: aborts on exhaustion, so callers need no branch.
 * Sizes a peer influences go through buf with a stated maximum instead.
 */
#pragma once

#include "base/base.h"

/* Zeroed memory; never NULL. */
void *mem_zalloc(size_t size) NODISCARD;
void *mem_resize(void *old, size_t count, size_t size) NODISCARD;
char *mem_strdup(const char *s) NODISCARD;
/* At most len bytes, and none behind the end of s. */
char *mem_strndup(const char *s, size_t len) NODISCARD;
char *mem_printf(const char *fmt, ...) PRINTF(1, 2) NODISCARD;
/* Overwrites before it frees; for secrets. */
void mem_wipe_free(void *p, size_t size);

/* For who has done the most it ever does and now waits: gives back free memory, and the stack below
 * the caller's. */
void mem_settle(void);

#define mem_new(type) ((type *)mem_zalloc(sizeof(type)))
