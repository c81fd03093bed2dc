/*
 * The daemon's end of a wire socket to another of our processes (broker, keeper): asynchronous
 * requests with numbers and time limits, and notifications. What the other side sends is checked
 * by wire_parse; an unknown answer is ignored, a malformed one ends the connection. A full socket
 * makes messages wait here in order; a peer that takes nothing for too long is cut.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "wire/wire.h"

struct loop;
struct peer;

/* msg is NULL when the request failed (err says why: refused, timeout, connection gone), else the
 * OK answer, valid during the call; err is never NULL. */
typedef void (*peer_on_answer)(struct wire_msg *msg, const struct err *err, void *ctx);
/* Everything that is no OK or ERROR. */
typedef void (*peer_on_message)(struct wire_msg *msg, void *ctx);
/* The connection is gone; pending requests were answered before. Free the peer here or later. */
typedef void (*peer_on_closed)(void *ctx);

struct peer_config {
	const char *role; /* of the other side, for messages */
	peer_on_message on_message;
	peer_on_closed on_closed;
	void *ctx;
};

/* Takes fd and says hello on it. */
int peer_new(struct loop *loop, int fd, const struct peer_config *config, struct peer **ret,
             struct err *err) NODISCARD;
/* Pending requests are answered with ERR_UNAVAILABLE; on_closed is not called. */
void peer_free(struct peer *peer);

/* Starts a message with the next request number, which it returns. */
uint64_t peer_begin(struct peer *peer, struct wire_out *out, enum wire_type type);
/* Sends it; on_answer is called exactly once, never before this returns. */
void peer_call(struct peer *peer, uint64_t number, struct wire_out *out, uint64_t timeout_ms,
               peer_on_answer on_answer, void *ctx);
/* A message that has no answer. Lost when the connection is. */
void peer_notify(struct peer *peer, struct wire_out *out);
bool peer_is_open(const struct peer *peer);
