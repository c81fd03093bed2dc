/*
 * A growable byte buffer with a hard maximum. Everything whose size a peer influences lives in
 * one of these. Reads consume from the front, writes append at the back.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

struct buf {
	uint8_t *bytes;
	size_t start; /* first unread byte */
	size_t end;   /* one past the last byte */
	size_t size;  /* allocated */
	size_t max;   /* never more than this unread */
};

void buf_init(struct buf *buf, size_t max);
void buf_done(struct buf *buf);
/* Empties; keeps the allocation. */
void buf_reset(struct buf *buf);

static inline size_t buf_len(const struct buf *buf)
{
	return buf->end - buf->start;
}

/* The first unread byte; NULL if nothing was ever written. */
static inline const uint8_t *buf_head(const struct buf *buf)
{
	return buf->bytes ? buf->bytes + buf->start : buf->bytes;
}

/* How many more bytes fit below the maximum. */
size_t buf_room(const struct buf *buf);
/* Drops len bytes from the front; len must be ≤ buf_len. */
void buf_consume(struct buf *buf, size_t len);
/* -ENOBUFS when the maximum would be passed; then nothing is appended. */
int buf_put(struct buf *buf, const void *bytes, size_t len) NODISCARD;
int buf_puts(struct buf *buf, const char *s) NODISCARD;
int buf_printf(struct buf *buf, const char *fmt, ...) PRINTF(2, 3) NODISCARD;
/* Room for exactly len more bytes at the back, to be filled by the caller and then confirmed
 * with buf_commit. NULL when the maximum would be passed. */
uint8_t *buf_reserve(struct buf *buf, size_t len) NODISCARD;
void buf_commit(struct buf *buf, size_t len);
/* One read(2) of at most `most` bytes to the back. Bytes read, 0 at end of file, or -errno. */
ssize_t buf_read_fd(struct buf *buf, int fd, size_t most) NODISCARD;
/* One write(2) from the front. Bytes written or -errno. */
ssize_t buf_write_fd(struct buf *buf, int fd) NODISCARD;
/* The content as a fresh NUL-terminated string the caller frees. */
char *buf_take_string(struct buf *buf) NODISCARD;
