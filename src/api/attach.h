/*
 * The streams of one command over WebSocket, protocol cloche.v1: binary messages whose first byte
 * is a channel. Many may look, one may write; the writer's pace is the command's. Shared by
 * /execs/{id}/attach, which joins a command that is there, and by /sandboxes/{id}/exec and /run,
 * which start one.
 */
#pragma once

#include "api/call.h"
#include "api/tail.h"
#include "base/base.h"
#include "base/buf.h"
#include "http/ws.h"

struct attach;

struct attach_ops {
	/* A text message of the client. */
	void (*on_text)(struct attach *attach, const char *text, size_t len, void *ctx);
	/* The command ended; the end is said by attach_finish. */
	void (*on_end)(struct attach *attach, const struct tail_exit *end, void *ctx);
	/* The connection is over, or never came to be; the attach goes with this call. */
	void (*on_gone)(struct attach *attach, void *ctx);
};

struct attach {
	struct api *api;
	struct ws *ws; /* NULL: not open yet */
	struct tail tail;
	bool is_started; /* tail follows a command */
	bool is_readonly;
	struct buf input; /* taken from the client, not yet by the command */
	bool has_eof;
	struct outlog_record record; /* did not fit */
	bool has_record;
	bool has_ended;
	const struct attach_ops *ops; /* NULL: the end is said at once, text is refused */
	void *ctx;
};

struct attach *attach_new(struct api *api, bool is_readonly, const struct attach_ops *ops,
                          void *ctx);
void attach_free(struct attach *attach);
/* Prepares attach->tail for a command that is about to start or to be joined. */
void attach_target(struct attach *attach, const char *sandbox, const char *exec);
/* Answers the call with the handshake; the attach lives until the connection is over. */
void attach_accept(struct attach *attach, struct call *call);
/* The command runs: input flows, output too. */
void attach_start(struct attach *attach);
/* Says the end and goodbye. */
void attach_finish(struct attach *attach, const struct tail_exit *end);
/* A JSON text message (taken). */
void attach_say(struct attach *attach, json_t *json);
/* The handshake's checks. */
int attach_check(const struct call *call, struct err *err) NODISCARD;
