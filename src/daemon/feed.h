/*
 * The standard input of one exec on its way to the keeper. What was sent is kept until the keeper
 * says that the command has it, since a connection that is cut may swallow some: over the next one
 * the rest is sent again, each piece with its place, and the keeper drops what it has already. So
 * input goes on without a gap or a repeat. Memory: LIMIT_STDIN_WINDOW_BYTES at most. One thread.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"

struct peer;
struct wire_msg;

struct feed {
	const char *exec; /* its id; not owned */
	struct buf unread;
	uint64_t foreign; /* bytes of an earlier daemon the keeper has not passed on yet */
	uint64_t sent;    /* since the start, by whomever */
	bool is_end_sent;
};

void feed_init(struct feed *feed, const char *exec);
void feed_done(struct feed *feed);
/* So many bytes may be sent now. */
size_t feed_room(const struct feed *feed);
/* len ≤ feed_room. */
void feed_send(struct feed *feed, struct peer *peer, const uint8_t *bytes, size_t len);
void feed_end(struct feed *feed, struct peer *peer);
/* K_STDIN_ROOM: the command has so many bytes more. */
void feed_drained(struct feed *feed, uint64_t count);
/* K_EXEC_INFO of an exec another daemon started. */
void feed_adopt(struct feed *feed, const struct wire_msg *msg);
/* K_EXEC_INFO of our own: sends again what did not arrive. */
void feed_sync(struct feed *feed, struct peer *peer, const struct wire_msg *msg);
