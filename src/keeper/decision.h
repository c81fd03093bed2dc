/*
 * What was decided about the network, made fit to be told: alike decisions are counted instead of
 * repeated, so that no flood from inside becomes one outside; for those that are told, the program
 * behind them is looked up while it still waits for its answer. Also the meters of each host.
 */
#pragma once

#include "base/base.h"
#include "base/loop.h"
#include "model/domain.h"
#include "model/policy.h"
#include "os/transparent.h"

/* SOCKET: a call that was refused before there was anything to go anywhere. */
enum decision_proto { DECISION_TCP, DECISION_UDP, DECISION_DNS, DECISION_SOCKET };
enum decision_verdict { DECISION_ALLOW, DECISION_DENY, DECISION_ASK, DECISION_CLOSED };

enum { DECISION_PROGRAM = 32 };

struct decision {
	enum decision_verdict verdict;
	enum decision_proto proto;
	char host[DOMAIN_TEXT];      /* "" when no name is known */
	struct transparent_end from; /* inside */
	struct transparent_end to;
	char rule[POLICY_TEXT];
	char remedy[POLICY_TEXT]; /* of a denial */
	uint64_t generation;
	uint64_t count; /* how many it stands for */
	uint64_t sent, received;
	uint64_t at_ms;                 /* CLOCK_REALTIME */
	char program[DECISION_PROGRAM]; /* "" when it could not be found out */
	uint64_t pid;                   /* inside; 0 likewise */
	uint64_t ask, left_ms;          /* of DECISION_ASK: its number, and how long it waits on */
};

/* Meters of one destination. */
struct decision_host {
	char host[DOMAIN_TEXT]; /* name or, without one, the address */
	uint16_t port;
	enum decision_proto proto;
	uint64_t allowed, denied, sent, received;
};

enum { DECISION_HOSTS = 256 };

struct decision_hooks {
	void *ctx;
	void (*tell)(void *ctx, const struct decision *decision);
	/* Asks who has the socket; decisions_known answers. False: nobody can say. */
	bool (*who)(void *ctx, uint64_t token, const struct decision *decision);
};

struct decisions {
	struct loop *loop;
	struct decision_hooks hooks;
	struct decision_kind *kinds; /* those told of late */
	struct decision_wait *waits; /* those whose program is being looked up */
	uint64_t last_token;
	size_t wait_count;
	uint64_t overflow; /* decisions beyond what the table of kinds holds */
	struct loop_timer tick;
	struct decision_host *hosts;
	size_t host_count;
	uint64_t denied;
};

void decisions_init(struct decisions *decisions, struct loop *loop,
                    const struct decision_hooks *hooks);
void decisions_done(struct decisions *decisions);

typedef void (*decision_on_told)(void *ctx);
/* Tells or counts it. If somebody looks for the program, true is returned and on_told is called
 * when that is over (soon): until then the connection should stay as it is. False: on_told is not
 * called. */
bool decision_make(struct decisions *decisions, const struct decision *decision,
                   decision_on_told on_told, void *ctx);
/* Always tells it, as soon as the program is known: a question must not be counted instead. */
void decision_tell(struct decisions *decisions, const struct decision *decision);
/* on_told(ctx) must not be called any more. */
void decision_forget(struct decisions *decisions, void *ctx);
/* The answer to `who`; an empty program means that it was not found. */
void decisions_known(struct decisions *decisions, uint64_t token, const char *program,
                     uint64_t pid);
/* Bytes of an open connection. */
void decision_count_bytes(struct decisions *decisions, const struct decision *decision,
                          uint64_t sent, uint64_t received);
const char *decision_proto_name(enum decision_proto proto);
const char *decision_verdict_name(enum decision_verdict verdict);
