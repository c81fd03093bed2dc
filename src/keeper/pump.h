/*
 * Bytes between a socket inside and one outside, both ways, without looking at them (splice through
 * a pipe) unless the caller wants to see what the inside sends. Back-pressure is the kernel's: what
 * one side does not take is not read from the other. A half-closed connection stays half-closed.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/loop.h"

enum pump_way { PUMP_OUT, PUMP_IN, PUMP_WAYS_ };

/* Pipes nobody uses now: a connection has one only while bytes are on their way. */
enum { PUMP_IDLE_PIPES = 8 };

struct pump_pool {
	int pipes[PUMP_IDLE_PIPES][2];
	size_t count;
};

void pump_pool_done(struct pump_pool *pool);

struct pump;

struct pump_hooks {
	void *ctx;
	/* How many bytes may go out now; 0 pauses until pump_resume. */
	size_t (*may_send)(void *ctx);
	void (*moved)(void *ctx, enum pump_way way, size_t bytes);
	/* Looks at held bytes from inside, and says how many of them may go on. Returns false to
	 * cut the connection (and may have freed nothing yet). *ret_is_over: need not look any
	 * more. */
	bool (*look)(void *ctx, struct buf *held, size_t *ret_pass, bool *ret_is_over);
	/* The first bytes from outside, while `wants_answer` is set. */
	void (*answered)(void *ctx, const uint8_t *bytes, size_t len);
	/* The connection is over; is_reset: by an error. Frees the pump. */
	void (*ended)(void *ctx, bool is_reset);
};

struct pump_side {
	struct pump *pump;
	int fd; /* owned */
	struct loop_source source;
};

struct pump_line {
	int pipe[2];
	size_t in_pipe;
	bool is_at_end;  /* the source has no more */
	bool is_shut;    /* and the target was told */
	bool is_waiting; /* the target takes no more now */
};

struct pump {
	struct loop *loop;
	struct pump_pool *pool;
	const struct pump_hooks *hooks;
	void *ctx;
	struct pump_side
		sides[PUMP_WAYS_]; /* [PUMP_OUT] is inside, where what goes out comes from */
	struct pump_line lines[PUMP_WAYS_];
	struct buf *held; /* what `look` sees; NULL: nothing is looked at */
	size_t passed;    /* of held: may go on */
	bool is_paused;   /* may_send said 0 */
	bool is_unseen;   /* of held: there may be more to look at, without any news from inside */
	bool wants_answer;
};

/* Takes both sockets. held (or NULL) is the caller's and stays his; it may have bytes already. May
 * end at once, with hooks->ended. */
void pump_start(struct pump *pump, int inside, int outside, struct buf *held);
/* Goes on after a pause. */
void pump_resume(struct pump *pump);
/* Closes both sockets; is_reset: with a reset, so that both sides see a failure. */
void pump_stop(struct pump *pump, bool is_reset);
