#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/must.h"

enum { FIRST_SIZE = 256 };

void buf_init(struct buf *buf, size_t max)
{
	*buf = (struct buf){.max = max};
}

void buf_done(struct buf *buf)
{
	free(buf->bytes);
	*buf = (struct buf){.max = buf->max};
}

void buf_reset(struct buf *buf)
{
	buf->start = buf->end = 0;
}

size_t buf_room(const struct buf *buf)
{
	return buf->max - buf_len(buf);
}

void buf_consume(struct buf *buf, size_t len)
{
	must(len <= buf_len(buf));
	buf->start += len;
	if (buf->start == buf->end)
		buf_reset(buf);
}

uint8_t *buf_reserve(struct buf *buf, size_t len)
{
	if (len > buf_room(buf))
		return NULL;
	if (buf->end + len <= buf->size)
		return buf->bytes + buf->end;
	if (buf->start > 0) {
		memmove(buf->bytes, buf->bytes + buf->start, buf_len(buf));
		buf->end -= buf->start;
		buf->start = 0;
	}
	if (buf->end + len > buf->size) {
		size_t size = MAX(buf->size, (size_t)FIRST_SIZE);
		while (size < buf->end + len)
			size *= 2;
		buf->bytes = mem_resize(buf->bytes, size, 1);
		buf->size = size;
	}
	return buf->bytes + buf->end;
}

void buf_commit(struct buf *buf, size_t len)
{
	must(len <= buf->size - buf->end);
	buf->end += len;
}

int buf_put(struct buf *buf, const void *bytes, size_t len)
{
	if (len == 0)
		return 0;
	uint8_t *to = buf_reserve(buf, len);
	if (!to)
		return -ENOBUFS;
	memcpy(to, bytes, len);
	buf_commit(buf, len);
	return 0;
}

int buf_puts(struct buf *buf, const char *s)
{
	return buf_put(buf, s, strlen(s));
}

int buf_printf(struct buf *buf, const char *fmt, ...)
{
	va_list va;
	va_start(va, fmt);
	char *text = NULL;
	int n = vasprintf(&text, fmt, va);
	va_end(va);
	must(n >= 0);
	int r = buf_put(buf, text, (size_t)n);
	free(text);
	return r;
}

ssize_t buf_read_fd(struct buf *buf, int fd, size_t most)
{
	uint8_t *to = buf_reserve(buf, most);
	if (!to)
		return -ENOBUFS;
	ssize_t n = read(fd, to, most);
	if (n < 0)
		return -errno;
	buf_commit(buf, (size_t)n);
	return n;
}

ssize_t buf_write_fd(struct buf *buf, int fd)
{
	if (buf_len(buf) == 0)
		return 0;
	ssize_t n = write(fd, buf_head(buf), buf_len(buf));
	if (n < 0)
		return -errno;
	buf_consume(buf, (size_t)n);
	return n;
}

char *buf_take_string(struct buf *buf)
{
	size_t len = buf_len(buf);
	char *text = mem_zalloc(len + 1);
	/* Not up to a NUL: what is in the buffer is what the caller gets. */
	if (len > 0)
		memcpy(text, buf_head(buf), len);
	buf_reset(buf);
	return text;
}
