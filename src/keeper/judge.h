/*
 * The verdict about a destination, from everything that has a say: the policy, the names that led
 * to the address, the never-list, and what the client sends about itself. One place, used for the
 * first byte and again whenever the policy changes.
 */
#pragma once

#include "base/base.h"
#include "model/policy.h"
#include "net/inspect.h"
#include "net/pins.h"
#include "os/transparent.h"

enum judge_reason {
#define GATEWAY_REASON(reason, text, remedy) JUDGE_##reason,
#include "keeper/gateway_reasons.def"
#undef GATEWAY_REASON
};

/* What verdicts are made from. */
struct judge {
	struct policy policy;
	struct addr_cidr *grants; /* what the policy opens of the never-list */
	size_t grant_count;
	struct pins pins;
};

struct judgement {
	enum policy_answer answer;
	char host[DOMAIN_TEXT]; /* the name that counts; "" when there is none */
	char rule[POLICY_TEXT];
	char remedy[POLICY_TEXT]; /* of a denial */
	bool is_recorded;
};

void judge_init(struct judge *judge);
void judge_done(struct judge *judge);
/* Takes what *policy holds. */
void judge_take_policy(struct judge *judge, struct policy *policy);

/* Addresses that stand for a name nobody was asked for yet (RFC 2544's, which lead nowhere): what a
 * program gets while a person has to decide. The name is resolved once that is done. */
bool judge_is_stand_in(const struct addr *addr);
struct addr judge_stand_in(uint16_t number);

/* A denial of ours; `what` is the name or address in question. */
void judge_refuse(struct judgement *judgement, enum judge_reason reason, const char *what);
/* The same of whatever comes from another address than the sandbox's own. */
void judge_source(struct judgement *judgement, const struct addr *from);
/* May this name be asked for? */
void judge_question(const struct judge *judge, const char *name, struct judgement *ret);
/* NULL, or why an address must not be handed out for an allowed name. */
const char *judge_address(const struct judge *judge, const struct addr *addr);
/* Whether a connection that is allowed by name may be made to this address on this port. */
bool judge_may_dial(const struct judge *judge, const struct addr *addr, uint16_t port);
/* A stream to this destination; ret_kind says what must be seen of it before it may go on, and
 * *ret_is_strict whether the client must name an allowed host. */
void judge_stream(const struct judge *judge, const struct transparent_end *to, uint64_t now_ms,
                  struct judgement *ret, enum inspect_kind *ret_kind, bool *ret_is_strict);
/* What the client named itself. judgement->host is then that name. */
void judge_named(const struct judge *judge, const struct transparent_end *to,
                 const struct inspect *inspect, bool is_strict, uint64_t now_ms,
                 struct judgement *ret);
/* A datagram to this destination. */
void judge_datagram(const struct judge *judge, const struct transparent_end *to,
                    struct judgement *ret);
