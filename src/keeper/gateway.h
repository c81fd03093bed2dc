/*
 * The gateway of one sandbox: everything that leaves it passes here and is judged here. Part of the
 * keeper (one thread, one loop), but knows nothing of it: what it needs from outside are hooks. It
 * owns connections, questions, meters; the sockets inside are the uplink's.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/loop.h"
#include "keeper/decision.h"
#include "keeper/dial.h"
#include "keeper/judge.h"
#include "keeper/pump.h"
#include "keeper/resolver.h"
#include "keeper/uplink.h"

struct flow;
struct exchange;

enum { GATEWAY_FLOWS = 1000, GATEWAY_EXCHANGES = 256 };

struct gateway_hooks {
	void *ctx;
	/* A decision for the daemon and the people inside; of DECISION_ASK, gateway_answer says how
	 * it is answered. */
	void (*tell)(void *ctx, const struct decision *decision);
	/* A connection to our own address, port 80: takes fd. */
	void (*guest)(void *ctx, int fd);
	/* Who has the socket inside; decisions_known answers. False: nobody can say. */
	bool (*who)(void *ctx, uint64_t token, const struct decision *decision);
};

/* A destination and a name that are forbidden whatever the policy says: tried from inside to prove
 * that the policy is in force. */
struct gateway_probe {
	bool is_on;
	struct transparent_end to;
	char name[DOMAIN_TEXT];
	bool saw_connection, saw_question;
};

struct gateway {
	struct loop *loop;
	struct uplink *uplink;
	struct gateway_hooks hooks;
	struct judge judge;
	uint64_t generation;
	struct dials dials;
	struct decisions decisions;
	struct resolver resolver;
	struct pump_pool pool;
	struct flow *flows;
	size_t flow_count;
	struct exchange *exchanges;
	size_t exchange_count;
	struct loop_source tcp[UPLINK_FAMILIES_], udp[UPLINK_FAMILIES_], groups;
	struct loop_timer accept_again;
	uint64_t sent, received, connections;
	uint64_t rate_tokens, rate_us;
	struct loop_timer rate;
	uint64_t last_ask;
	uint64_t ask_ms; /* until a question nobody answered is a denial */
	struct gateway_probe probe;
	uint8_t *bytes; /* one datagram */
};

/* Nothing is allowed until a policy comes. */
int gateway_start(struct gateway *gateway, struct loop *loop, struct uplink *uplink,
                  const struct gateway_hooks *hooks) NODISCARD;
void gateway_done(struct gateway *gateway);
/* In force at once: what it forbids is cut. Takes what *policy holds. */
void gateway_set_policy(struct gateway *gateway, uint64_t generation, struct policy *policy);
/* What a person said to the question of that number. False: nobody waits for it (any more). */
bool gateway_answer(struct gateway *gateway, uint64_t number, bool is_allowed);
/* The daemon may have forgotten: every question that waits is asked once more. */
void gateway_ask_again(struct gateway *gateway);
/* Chooses what a probe from inside must be refused; the next attempts at it are not told. */
const struct gateway_probe *gateway_probe_begin(struct gateway *gateway);
/* Both attempts came here. */
bool gateway_probe_end(struct gateway *gateway);

/* --- for the gateway's own files --- */
uint64_t gateway_now_ms(const struct gateway *gateway);
/* How many bytes may be sent now; 0: wait for the rate, or never. */
size_t gateway_may_send(struct gateway *gateway);
bool gateway_is_capped(const struct gateway *gateway);
/* Whether that many more bytes may leave under the cap. */
bool gateway_fits_cap(const struct gateway *gateway, size_t bytes);
void gateway_count_sent(struct gateway *gateway, size_t bytes);
/* A decision about `to`, filled from a judgement. */
void gateway_fill(const struct gateway *gateway, const struct judgement *judgement,
                  enum decision_proto proto, const struct transparent_end *from,
                  const struct transparent_end *to, struct decision *ret);

/* flow.c: TCP */
void flow_accept(struct gateway *gateway, int fd);
void flow_policy_changed(struct gateway *gateway);
void flow_resume_all(struct gateway *gateway);
bool flow_answer(struct gateway *gateway, uint64_t number, bool is_allowed);
void flow_ask_again(struct gateway *gateway);
void flow_cut_all(struct gateway *gateway, enum judge_reason reason);
/* Brings the hosts' meters up to date with what open connections moved. */
void flow_count_all(struct gateway *gateway);
void flow_free_all(struct gateway *gateway);
/* Closes a socket with a reset. */
void flow_reset(int *fd);

/* exchange.c: UDP other than DNS */
void exchange_datagram(struct gateway *gateway, const uint8_t *bytes, size_t len,
                       const struct transparent_end *from, const struct transparent_end *to);
void exchange_policy_changed(struct gateway *gateway);
void exchange_cut_all(struct gateway *gateway, enum judge_reason reason);
void exchange_count_all(struct gateway *gateway); /* as flow_count_all */
void exchange_free_all(struct gateway *gateway);
