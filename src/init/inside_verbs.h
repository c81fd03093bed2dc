/*
 * What the verbs of `cloche inside` share: parsed options and the map from errno to the codes of
 * base/errors.def. Only for inside*.c; runs as the sandbox's user, without privilege.
 */
#pragma once

#include <sys/stat.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "wire/record.h"

/* Values not given: UINT64_MAX, NULL, false. */
struct inside_args {
	const char *path; /* first positional argument */
	const char *to;   /* second one, or NULL */
	uint64_t offset;
	uint64_t length;
	uint64_t size;
	const char *mode;
	bool parents;
	bool recursive;
};

typedef int (*inside_verb)(const struct inside_args *args, struct err *err);

#define VERB(name, function, least, most)                                                          \
	int function(const struct inside_args *args, struct err *err) NODISCARD;
#include "init/inside_verbs.def"
#undef VERB

/* As err_sys, but the code says what a caller of a file API expects: ENOENT is not_found here,
 * because the file is the caller's, not ours. `sys` is a positive errno. Returns -1. */
int inside_err(struct err *err, int sys, const char *fmt, ...) PRINTF(3, 4);
/* "755" -> 0755; `otherwise` when mode is NULL. */
int inside_parse_mode(const char *mode, mode_t otherwise, mode_t *ret, struct err *err) NODISCARD;
/* mkdir -p of everything above the last component. */
int inside_make_parents(const char *path, struct err *err) NODISCARD;
/* Opens the folder above the last component, which is written to *ret_name (points into path);
 * "/", ".", ".." and a trailing slash are refused as names. */
int inside_open_parent(const char *path, int *ret_fd, const char **ret_name,
                       struct err *err) NODISCARD;
/* Record of dir_fd/name itself; readlink's result goes to target (PATH_MAX bytes). -errno. */
int inside_stat_record(int dir_fd, const char *name, char *target,
                       struct record_stat *ret) NODISCARD;
/* Writes out everything in buf to stdout. */
int inside_flush(struct buf *buf, struct err *err) NODISCARD;
