/*
 * An event: an append-only, numbered record of something that happened. Numbers are given by the
 * store when the event is committed, without gaps: over everything this node does, and again
 * within each sandbox.
 */
#pragma once

#include "base/base.h"
#include "base/id.h"
#include "model/access.h"

enum event_kind {
#define EVENT(kind, text, about) EVENT_##kind,
#include "model/events.def"
#undef EVENT
	EVENT_COUNT_,
	EVENT_NONE = -1
};

struct event {
	uint64_t seq;         /* 1, 2, 3 … of this node; 0 until committed */
	uint64_t sandbox_seq; /* 1, 2, 3 … of this sandbox or task; 0 when it is about none */
	uint64_t time_ms;     /* CLOCK_REALTIME */
	enum event_kind kind;
	struct id sandbox; /* or task that it is about; "" when it is about none */
	char *data;        /* one JSON object as text, or NULL for {} */
	/* Whose the sandbox was then, filled by the store; "" when it is about none. */
	struct id owner, team;
	enum visibility visibility;
};

/* The content; the struct may be on the stack. */
void event_done(struct event *event);
const char *event_name(enum event_kind kind);
/* EVENT_NONE for an unknown word. */
enum event_kind event_from(const char *name);
