/*
 * Webhooks: who is told of which events, and each delivery of one. Pure: the form of a message and
 * its signature are those of Standard Webhooks (headers webhook-id, webhook-timestamp,
 * webhook-signature); making and sending them is src/hook.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "model/strings.h"

enum delivery_state {
	DELIVERY_PENDING,
	DELIVERY_DELIVERED,
	DELIVERY_DEAD, /* given up; may be sent again by hand */
	DELIVERY_STATE_COUNT_
};

enum {
	WEBHOOK_URL_BYTES = 2048,
	WEBHOOK_EVENTS = 32,
	WEBHOOKS_MOST = 64,                      /* of one team */
	WEBHOOK_GIVE_UP_MS = 24 * 3600 * 1000,   /* after the first attempt */
	WEBHOOK_PAUSE_MOST_MS = 4 * 3600 * 1000, /* between two attempts */
	WEBHOOK_OVERLAP_MS = 24 * 3600 * 1000,   /* an old secret signs, too */
};

struct webhook {
	struct id id; /* wh_… */
	char *url;
	struct strings events; /* kinds; "task.*" is all that begin so, "*" all */
	char *about;           /* may be NULL */
	char *sealed;          /* its secret */
	char *sealed_before;   /* the one before it, until before_until_ms; NULL: none */
	uint64_t before_until_ms;
	struct id owner, team;
	uint64_t created_ms;
	uint64_t after_seq; /* it is told of events with greater numbers */
};

struct delivery {
	struct id id; /* msg_…: the same for every attempt */
	struct id webhook;
	uint64_t event_seq;
	char *kind;
	char *subject; /* task or sandbox: these are told in order; "" for others */
	char *payload;
	enum delivery_state state;
	uint64_t attempts, next_ms;
	int last_status;  /* of HTTP; 0: none came */
	char *last_error; /* may be NULL */
	uint64_t created_ms, ended_ms;
};

void webhook_done(struct webhook *webhook);
void delivery_done(struct delivery *delivery);
const char *delivery_state_name(enum delivery_state state);
/* DELIVERY_STATE_COUNT_ for an unknown word. */
enum delivery_state delivery_state_from(const char *text);

/* "http://HOST…" or "https://HOST…" without user, fragment or control characters. ERR_INVALID. */
int webhook_check_url(const char *url, struct err *err) NODISCARD;
/* Kinds of events there are, or a word and ".*", or "*". ERR_INVALID. */
int webhook_check_events(const struct strings *events, struct err *err) NODISCARD;
bool webhook_wants(const struct webhook *webhook, const char *kind);
/* Before the so-manieth attempt (1: after the first failed), without the jitter. */
uint64_t webhook_pause_ms(uint64_t first_ms, uint64_t attempts);
