/*
 * Reading the output of an exec, live or not: its log files for the bytes, a watch for the news.
 * Used by everything that shows output; the reader decides its own pace and acks what it is done
 * with, so memory stays constant whatever a command prints.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/err.h"
#include "model/exec.h"
#include "wire/outlog.h"

struct api;
struct tail;

enum tail_flags {
	TAIL_HOLD = 1 << 0,   /* output waits for this reader: nothing is dropped */
	TAIL_WRITER = 1 << 1, /* input comes from here and nobody else */
};

struct tail_target {
	const char *sandbox;
	const char *exec;
	unsigned flags;
	uint64_t written; /* so much output it had, as far as its row knows */
};

enum { TAIL_NOTHING_YET = 0, TAIL_RECORD = 1, TAIL_END = 2 };

struct tail_ops {
	/* tail_next may have more. Never called from inside tail_next. */
	void (*on_ready)(struct tail *tail, void *ctx);
	/* Input that was refused can be offered again. May be NULL. */
	void (*on_room)(struct tail *tail, void *ctx);
};

struct tail {
	struct api *api;
	char sandbox[33];
	char exec[33];
	struct exec_watch watch;
	struct outlog_reader reader;
	bool is_open; /* the reader is */
	bool is_live;
	bool is_at_end;
	uint64_t start;
	uint64_t offset;    /* up to here was handed out */
	struct exec *final; /* how it ended, once that is committed; NULL before, or when unknown */
	char exit_text[96]; /* of an EXIT record that was not read from the log */
	const struct tail_ops *ops;
	void *ctx;
};

/* Prepares for an exec that is about to start: pass &tail->watch to it. Nothing can fail yet. */
void tail_init(struct tail *tail, struct api *api, const struct tail_target *target,
               const struct tail_ops *ops, void *ctx);
/* For one that exists, from an offset on: follows it when it is live. ERR_CONFLICT when a writer
 * was asked for and there is one. */
int tail_join(struct tail *tail, uint64_t offset, struct err *err) NODISCARD;
void tail_done(struct tail *tail);

/*
 * TAIL_RECORD: *ret is valid until the next call. TAIL_NOTHING_YET: on_ready will be called.
 * TAIL_END: nothing will come any more; an EXIT record came before unless the sandbox was lost
 * or its disk was full. Output that could not be kept is a GAP record.
 * <0: the log cannot be read.
 */
int tail_next(struct tail *tail, struct outlog_record *ret, struct err *err) NODISCARD;
/* Everything handed out so far is done with. */
void tail_ack(struct tail *tail);

struct tail_exit {
	int code; /* valid when signal is 0 */
	int signal;
	char reason[32];
};
/* Of an EXIT record's text: foreign bytes, so whatever is unclear is "lost". */
void tail_parse_exit(const struct outlog_record *record, struct tail_exit *ret);
