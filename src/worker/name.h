/*
 * Names found in archives, as data: which may be made below a directory, and in what spelling.
 * Pure functions; bytes are hostile and need not be UTF-8. Used by the worker role.
 */
#pragma once

#include "base/base.h"
#include "base/limits.h"

enum {
	NAME_COMPONENT_LEN = 255, /* what every Linux file system can store */
	NAME_DEPTH = 256,
};

struct name {
	char path[LIMIT_PATH_LEN + 1]; /* no leading, double or trailing slash, no "." component */
	size_t base;                   /* where the last component starts */
	size_t depth;                  /* components; 0: the root itself */
};

/* NULL and a clean *ret when raw may be made below a directory; otherwise what is wrong with it, to
 * be put after the name ("is absolute"). raw may be NULL. */
const char *name_clean(struct name *ret, const char *raw) NODISCARD;

/* A name for messages: escaped and cut. */
struct name_text {
	char text[112];
};
struct name_text name_show(const char *raw);
