/*
 * Server-sent events: a pure, bounded parser of the stream's lines. Fields other than event, id
 * and data are ignored, comments (keep-alives) too.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"

enum { SSE_EVENT_MAX = 1024 * 1024 };

struct sse {
	struct buf in;
	struct buf data; /* of the event under way */
	char event[64];
	char id[64]; /* the last one seen: for Last-Event-ID */
	bool has_data;
	bool is_told; /* the caller has the event: the next call starts a new one */
};

struct sse_event {
	const char *event; /* "message" when the stream names none */
	const char *id;
	const char *data; /* NUL-terminated; valid until the next sse_next */
	size_t len;
};

void sse_init(struct sse *sse);
void sse_done(struct sse *sse);
/* Appends bytes of the stream, at most 64 KiB at a time. -EPROTO when a line is too long. */
int sse_feed(struct sse *sse, const void *bytes, size_t len) NODISCARD;
/* 1: an event; 0: more bytes are needed; -EPROTO. */
int sse_next(struct sse *sse, struct sse_event *ret) NODISCARD;
