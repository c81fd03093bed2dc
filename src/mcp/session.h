/*
 * Sessions of MCP clients, and streams of messages that can be taken up again: what was said on a
 * stream is kept, so that a client whose connection broke hears the rest. In memory: after a
 * restart clients shake hands anew. Pure; the daemon's loop.
 */
#pragma once

#include "base/base.h"

enum {
	SESSION_ID = 40,
	SESSION_MOST = 1024, /* of all callers; the one used longest ago goes */
	SESSION_OF_OWNER = 64,
	SESSION_IDLE_MS = 3600 * 1000,
	SESSION_STREAMS = 32, /* kept; those that are over go first, more under way are refused */
	SESSION_STREAMS_OF_OWNER = 256, /* under way in all their sessions */
	SESSION_STREAM_BYTES = 4 * 1024 * 1024,
	SESSION_BYTES_OF_OWNER = 8 * 1024 * 1024, /* above it the oldest that are over go */
};

struct sessions;
struct session;

struct stream {
	unsigned refs;
	struct session *session; /* NULL: none, or it has ended */
	struct stream *next;     /* of the session, newest first */
	uint64_t number;
	uint64_t age;  /* of all streams: lower is older */
	char *request; /* the id of the request it answers, as JSON; "" for none */
	char **messages;
	size_t count, bytes;
	bool is_over;
	/* Whoever makes the messages: nobody wants them any more. NULL: cannot be stopped. */
	void (*on_cancel)(struct stream *stream, void *ctx);
	void *maker;
	/* Whoever sends them: there are more, or it is over. NULL: nobody does. */
	void (*on_news)(struct stream *stream, void *ctx);
	void *reader;
};

struct sessions *sessions_new(void);
void sessions_free(struct sessions *sessions);
/* owner: whose it is, in one text. Never fails: old ones make room. */
struct session *sessions_open(struct sessions *sessions, const char *owner, const char *version,
                              uint64_t now_ms);
/* NULL: there is none of that owner. */
struct session *sessions_find(struct sessions *sessions, const char *id, const char *owner,
                              uint64_t now_ms);
void sessions_close(struct sessions *sessions, struct session *session);
const char *session_id(const struct session *session);
const char *session_version(const struct session *session);
/* Cancels what answers that request (its id as JSON). */
void session_cancel(struct session *session, const char *request);
/* Of an event's id ("7-2"): the stream, and how many of its messages came before. NULL: no such. */
struct stream *session_stream(struct session *session, const char *event, size_t *ret_seen);

/* Whether as much is under way as may be: nothing new is to be begun. */
bool session_is_full(const struct session *session);

/* session may be NULL. The caller has a reference. */
struct stream *stream_new(struct session *session, const char *request);
void stream_unref(struct stream *stream);
struct stream *stream_ref(struct stream *stream);
/* Takes the text. More than SESSION_STREAM_BYTES are not kept: false. */
bool stream_put(struct stream *stream, char *message);
void stream_end(struct stream *stream);
/* Ends it in silence and keeps nothing: nobody comes back to it. */
void stream_drop(struct stream *stream);
