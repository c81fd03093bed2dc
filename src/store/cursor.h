/* Page cursors: the key of the last row, as text that tells clients nothing and that only we
 * make. */
#pragma once

#include "base/base.h"
#include "base/err.h"

/* The caller frees. */
char *cursor_make(const char *key) NODISCARD;
/* NULL gives "", which is before every key. ERR_INVALID for what cursor_make did not make. The
 * caller frees. */
int cursor_read(const char *cursor, char **ret_key, struct err *err) NODISCARD;
/* 0 gives the default; ERR_INVALID above LIMIT_PAGE. */
int cursor_check_limit(size_t limit, size_t *ret, struct err *err) NODISCARD;
