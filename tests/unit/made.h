/*
 * Archives made for tests, good and hostile, with libarchive's writer or header by header where the
 * writer is too honest. Each function fails the test rather than return an error.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"

struct made {
	const char *name;
	mode_t mode; /* with type; without one a regular file */
	uid_t uid;
	gid_t gid;
	const char *data; /* regular files */
	const char *link; /* symbolic links */
	const char *hard; /* hard links */
	const char *xattr;
	const char *value;
	time_t mtime;
	int64_t size; /* regular files: when more than data, the rest is a hole */
};

/* Appends a whole archive; filter is ARCHIVE_FILTER_*. The caller frees out with buf_done. */
void made_tar(struct buf *out, int filter, const struct made *entries, size_t count);
/* A raw header block, and data padded to blocks; for what the writer would not write. */
void made_header(struct buf *out, const char *name, char type, const char *size, const char *link);
void made_data(struct buf *out, const void *bytes, size_t len);
/* A pax record "LEN key=value\n" in a header of its own, before the entry it is about. */
void made_pax(struct buf *out, const char *key, const char *value, size_t value_len);
/* One regular file with these bytes, by raw header. */
void made_file(struct buf *out, const char *name, const void *bytes, size_t len);
void made_end(struct buf *out);

/* The bytes compressed by that filter, without any format around them. */
void made_packed(struct buf *out, int filter, const void *bytes, size_t len);
/* A file with these bytes; the caller closes it. */
int made_fd(const struct buf *bytes);

/* Become able to give files away: real root, or root of a namespace with one id. Returns how many
 * ids there are; skips the test where neither is possible. */
uint32_t made_root(void);
/* "text" of a file below dir_fd; the caller frees. */
char *made_read(int dir_fd, const char *path);
bool made_exists(int dir_fd, const char *path);
