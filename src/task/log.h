/*
 * The output of a run as it is kept: frames {stream '1' or '2', four bytes of length (big-endian),
 * bytes}, redacted. A short one is kept in the run's row as base64, a longer one in a file named by
 * the run. Output that was dropped or lost before it could be kept is a frame of stream '!', whose
 * bytes say so.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"

struct redact;

struct log_writer {
	int dir_fd; /* not owned */
	const char *run;
	struct redact *redact; /* may be NULL; not owned */
	struct buf inline_;
	int fd; /* -1: it is short up to now */
	uint64_t bytes;
};

void log_writer_init(struct log_writer *writer, int dir_fd, const char *run, struct redact *redact);
int log_writer_put(struct log_writer *writer, char stream, const void *bytes, size_t len,
                   struct err *err) NODISCARD;
/* *ret_text is the base64 of a short log (the caller frees), or NULL: it is a file now, on disk. */
int log_writer_finish(struct log_writer *writer, char **ret_text, struct err *err) NODISCARD;
void log_writer_done(struct log_writer *writer);

/* Calls `each` with every frame; false ends it. */
typedef bool (*log_each)(char stream, const uint8_t *bytes, size_t len, void *ctx);
/* text: the base64 of a row; NULL: the file. ERR_IO when it is damaged or not there. */
int log_read(int dir_fd, const char *run, const char *text, log_each each, void *ctx,
             struct err *err) NODISCARD;
void log_remove(int dir_fd, const char *run);
