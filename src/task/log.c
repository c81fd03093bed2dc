#include "task/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <sodium.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "model/task.h"
#include "task/redact.h"

enum { HEAD = 5, FRAME_MOST = 1024 * 1024 };

static void name_of(char *out, size_t size, const char *run, const char *suffix)
{
	(void)snprintf(out, size, "%s.log%s", run, suffix); /* an id has 32 characters at most */
}

void log_writer_init(struct log_writer *writer, int dir_fd, const char *run, struct redact *redact)
{
	*writer = (struct log_writer){.dir_fd = dir_fd, .run = run, .redact = redact, .fd = -1};
	buf_init(&writer->inline_, TASK_LOG_INLINE_BYTES + LIMIT_OUTPUT_WINDOW_BYTES);
}

/* The log is long: what there is goes to a file, and so does what follows. */
static int spill(struct log_writer *writer, struct err *err)
{
	char name[64];
	int r;

	if (writer->fd < 0) {
		name_of(name, sizeof(name), writer->run, ".new");
		writer->fd = openat(writer->dir_fd, name,
		                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (writer->fd < 0)
			return err_sys(err, errno, "keep the output of %s", writer->run);
	}
	r = io_write_all(writer->fd, buf_head(&writer->inline_), buf_len(&writer->inline_));
	buf_reset(&writer->inline_);
	return r < 0 ? err_sys(err, -r, "keep the output of %s", writer->run) : 0;
}

static int put_frame(struct log_writer *writer, char stream, const void *bytes, size_t len,
                     struct err *err)
{
	uint8_t head[HEAD] = {(uint8_t)stream, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
	                      (uint8_t)(len >> 8), (uint8_t)len};

	if (len == 0)
		return 0;
	if (buf_put(&writer->inline_, head, sizeof(head)) < 0 ||
	    buf_put(&writer->inline_, bytes, len) < 0)
		return err_set(err, ERR_TOO_LARGE, "a piece of output is too long");
	writer->bytes += len;
	return buf_len(&writer->inline_) > TASK_LOG_INLINE_BYTES ? spill(writer, err) : 0;
}

struct piece {
	struct log_writer *writer;
	char stream;
	struct err *err;
};

static int put_clean(void *ctx, const void *bytes, size_t len)
{
	struct piece *piece = ctx;

	return put_frame(piece->writer, piece->stream, bytes, len, piece->err);
}

int log_writer_put(struct log_writer *writer, char stream, const void *bytes, size_t len,
                   struct err *err)
{
	struct piece piece = {writer, stream, err};

	if (!writer->redact || stream == '!')
		return put_frame(writer, stream, bytes, len, err);
	return redact_feed(writer->redact, stream == '2', bytes, len, put_clean, &piece);
}

static int flush_redaction(struct log_writer *writer, struct err *err)
{
	for (int i = 0; writer->redact && i < REDACT_STREAMS; i++) {
		struct piece piece = {writer, i ? '2' : '1', err};

		if (redact_end(writer->redact, i, put_clean, &piece) < 0)
			return -1;
	}
	return 0;
}

static int finish_file(struct log_writer *writer, struct err *err)
{
	char from[64], to[64];

	name_of(from, sizeof(from), writer->run, ".new");
	name_of(to, sizeof(to), writer->run, "");
	if (spill(writer, err) < 0)
		return -1;
	if (fsync(writer->fd) < 0 || renameat(writer->dir_fd, from, writer->dir_fd, to) < 0 ||
	    fsync(writer->dir_fd) < 0)
		return err_sys(err, errno, "keep the output of %s", writer->run);
	return 0;
}

int log_writer_finish(struct log_writer *writer, char **ret_text, struct err *err)
{
	size_t len, size;
	char *text;

	if (flush_redaction(writer, err) < 0)
		return -1;
	*ret_text = NULL;
	if (writer->fd >= 0)
		return finish_file(writer, err);
	len = buf_len(&writer->inline_);
	size = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
	text = mem_zalloc(size);
	sodium_bin2base64(text, size, len ? buf_head(&writer->inline_) : (const uint8_t *)"", len,
	                  sodium_base64_VARIANT_ORIGINAL);
	*ret_text = text;
	return 0;
}

void log_writer_done(struct log_writer *writer)
{
	buf_done(&writer->inline_);
	fd_closep(&writer->fd);
}

/* --- reading --- */

static int damaged(const char *run, struct err *err)
{
	return err_set(err, ERR_IO, "the kept output of %s is damaged", run);
}

static int walk(const uint8_t *bytes, size_t len, const char *run, log_each each, void *ctx,
                struct err *err)
{
	while (len > 0) {
		size_t size;

		if (len < HEAD)
			return damaged(run, err);
		size = (size_t)bytes[1] << 24 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 8 |
		       bytes[4];
		if (size > len - HEAD)
			return damaged(run, err);
		if (!each((char)bytes[0], bytes + HEAD, size, ctx))
			return 0;
		bytes += HEAD + size;
		len -= HEAD + size;
	}
	return 0;
}

static int read_text(const char *text, const char *run, log_each each, void *ctx, struct err *err)
{
	size_t size = strlen(text);
	auto_free uint8_t *bytes = mem_zalloc(size + 1);
	size_t len;

	if (sodium_base642bin(bytes, size + 1, text, size, NULL, &len, NULL,
	                      sodium_base64_VARIANT_ORIGINAL) != 0)
		return damaged(run, err);
	return walk(bytes, len, run, each, ctx, err);
}

static int read_file(int fd, const char *run, log_each each, void *ctx, struct err *err)
{
	auto_free uint8_t *bytes = mem_zalloc(FRAME_MOST);
	uint8_t head[HEAD];
	ssize_t r;

	while ((r = io_read_full(fd, head, sizeof(head))) > 0) {
		size_t size = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 |
		              head[4];

		if (r != HEAD || size > FRAME_MOST ||
		    io_read_full(fd, bytes, size) != (ssize_t)size)
			return damaged(run, err);
		if (!each((char)head[0], bytes, size, ctx))
			return 0;
	}
	return r < 0 ? err_sys(err, (int)-r, "read the output of %s", run) : 0;
}

int log_read(int dir_fd, const char *run, const char *text, log_each each, void *ctx,
             struct err *err)
{
	auto_close int fd = -1;
	char name[64];

	if (text)
		return read_text(text, run, each, ctx, err);
	name_of(name, sizeof(name), run, "");
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(err, errno, "read the output of %s", run);
	return read_file(fd, run, each, ctx, err);
}

void log_remove(int dir_fd, const char *run)
{
	char name[64];

	name_of(name, sizeof(name), run, "");
	(void)unlinkat(dir_fd, name, 0); /* it may not be there */
}
