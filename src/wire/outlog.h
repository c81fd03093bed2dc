/*
 * The output of one exec, as capped segment files of framed records in a directory of its own.
 * The keeper writes, the daemon reads the same files: nothing is relayed twice, and output
 * outlives both. The cursor ("offset") counts payload bytes of all streams since the start; a
 * record is {stream, offset, time, length, bytes}. When the cap is passed the oldest segment goes;
 * a reader that asks for bytes that went gets a GAP record; so does one that comes to bytes which
 * the disk did not take, since these count, too. The EXIT record is the last frame.
 * Readers treat the files as foreign bytes: a torn or damaged tail ends the readable part.
 */
#pragma once

#include "base/base.h"

enum outlog_stream { OUTLOG_STDIN, OUTLOG_STDOUT, OUTLOG_STDERR, OUTLOG_GAP, OUTLOG_EXIT };

struct outlog_record {
	enum outlog_stream stream;
	uint64_t offset;  /* of the first byte; for GAP: where reading goes on */
	uint64_t time_ms; /* CLOCK_REALTIME */
	const uint8_t *bytes;
	uint32_t len;
};

struct outlog_writer {
	int dir_fd; /* owned */
	int fd;     /* newest segment; owned */
	uint64_t offset;
	uint64_t segment_start; /* offset at which the newest segment starts */
	uint64_t segment_bytes; /* file bytes in it */
	uint64_t oldest;        /* offset of the oldest segment that exists */
	uint64_t stored;        /* file bytes of all segments; stays after the close */
};

/* Takes dir_fd. An existing log is continued (a restarted keeper). -errno. */
int outlog_writer_open(struct outlog_writer *writer, int dir_fd) NODISCARD;
void outlog_writer_close(struct outlog_writer *writer);
/* bytes ≤ LIMIT_CHUNK_BYTES. -ENOSPC and friends leave the log readable: the bytes are lost, and
 * whatever is written next shows readers that they are. */
int outlog_append(struct outlog_writer *writer, enum outlog_stream stream, const void *bytes,
                  uint32_t len) NODISCARD;
/* The last frame: "code=N" or "signal=N", then " reason=…". Readable at once; on disk after
 * outlog_sync. */
int outlog_append_exit(struct outlog_writer *writer, const char *text) NODISCARD;
int outlog_sync(struct outlog_writer *writer) NODISCARD;
/* Lets the oldest segments go until `stored` is at most this, but nothing that an attached reader
 * may still have to read. */
void outlog_trim(struct outlog_writer *writer, uint64_t most);
/* Of a closed log whose last frame was `exit`: all but that goes. Works as far as it can. */
void outlog_strip(struct outlog_writer *writer, int dir_fd, const char *exit);

struct outlog_reader {
	int dir_fd;        /* owned */
	int fd;            /* current segment; owned, -1: none yet */
	uint64_t start;    /* offset at which it starts */
	uint64_t position; /* file position in it */
	uint64_t offset;   /* next payload byte wanted */
	uint8_t *bytes;    /* one record */
};

/* Takes dir_fd; starts at `offset`. */
int outlog_reader_open(struct outlog_reader *reader, int dir_fd, uint64_t offset) NODISCARD;
void outlog_reader_close(struct outlog_reader *reader);
/* 1: *ret is valid until the next call (a record that began before the wanted offset is cut to
 * start there); 0: nothing more yet; -errno. */
int outlog_next(struct outlog_reader *reader, struct outlog_record *ret) NODISCARD;
/* When outlog_next has nothing although the writer said that it came up to `offset`: the bytes
 * until there are lost. True: *ret is the GAP, and reading goes on behind it. */
bool outlog_skip(struct outlog_reader *reader, uint64_t offset,
                 struct outlog_record *ret) NODISCARD;
