/*
 * A question that waits for a person: may a sandbox reach this destination? Asked by a policy in
 * mode `ask`. Or: may its agent do this? No answer in time denies. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"

struct approval {
	struct id id; /* ap_… */
	struct id sandbox;
	uint64_t ask;  /* the keeper's number of it */
	char *proto;   /* "tcp", "udp", "dns" */
	char *host;    /* NULL: an address that no name led to */
	char *address; /* NULL: only the name was asked for */
	char *program; /* who asks, as it says itself; may be NULL */
	uint16_t port; /* 0: only the name was asked for */
	char *title;   /* of what an agent wants to do; NULL: it is about a destination */
	uint64_t pid;
	uint64_t asked_ms;   /* CLOCK_REALTIME */
	uint64_t expires_ms; /* then it is denied */
};

/* Whether somebody allowed it; false also when nobody answered. */
typedef void (*approval_on_verdict)(bool is_allowed, void *ctx);

struct approval_question {
	const char *sandbox;
	const char *title, *program; /* what it is about, and who asks; for people */
	uint64_t timeout_ms;
	approval_on_verdict on_verdict; /* once, unless it is withdrawn */
	void *ctx;
};

/* How far an answer reaches. */
enum approval_reach {
#define REACH(reach, text, about) APPROVAL_##reach,
#include "model/approval_reaches.def"
#undef REACH
	APPROVAL_REACH_COUNT_
};

struct approval_answer {
	bool is_allowed;
	enum approval_reach reach; /* of an allowance */
	const char *by;            /* name of who answers; may be NULL */
};

/* A new id. */
struct approval *approval_new(void);
void approval_free(struct approval *approval);

const char *approval_reach_name(enum approval_reach reach);
bool approval_reach_from(const char *text, enum approval_reach *ret) NODISCARD;
/* What a policy must list to allow it: "example.org:443" (a domain) or "192.0.2.1/32:443" (a
 * range); *ret_is_cidr says which. The caller frees. */
char *approval_entry(const struct approval *approval, bool *ret_is_cidr) NODISCARD;
