/*
 * Server-sent events on a request: a bounded buffer that the client drains, with back-pressure.
 * A comment every 15 s keeps proxies awake and finds clients that went without a word.
 */
#pragma once

#include "base/base.h"

struct request;
struct sse;

struct sse_ops {
	/* After a refused send: there is room again. */
	void (*on_writable)(struct sse *sse, void *ctx);
	/* Exactly once: all was sent after sse_finish (gone false), or the client went. sse is
	 * freed by the module after this returns. */
	void (*on_end)(struct sse *sse, bool gone, void *ctx);
};

/* Whether the client asks for events rather than a document. */
bool sse_is_wanted(const struct request *request);
/* Answers 200; takes the request's on_end. */
struct sse *sse_open(struct request *request, const struct sse_ops *ops, void *ctx);
/* id and event may be NULL; data is one line or several. -EAGAIN: no room, nothing was queued. */
int sse_send(struct sse *sse, const char *id, const char *event, const char *data) NODISCARD;
/* No more events: ends the answer once the buffer is drained. */
void sse_finish(struct sse *sse);
