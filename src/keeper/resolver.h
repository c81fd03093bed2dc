/*
 * The only name server a sandbox has, whatever server it asks: names its policy does not allow are
 * answered here and nothing leaves; for the others a resolver of the machine is asked through the
 * dialer, one fresh socket a question. Answers are kept for their time, and pinned: connections are
 * judged by them (net/pins.h). Types other than A and AAAA have no answer unless every name is
 * allowed.
 */
#pragma once

#include "base/base.h"
#include "base/loop.h"
#include "keeper/judge.h"
#include "net/dns.h"
#include "os/transparent.h"

struct gateway;
struct resolver_entry;
struct resolver_search;
struct resolver_client;
struct resolver_refusal;

enum { RESOLVER_WILDCARDS = 32 };

/* Names asked for the first time below one wildcard. */
struct resolver_quota {
	char name[DOMAIN_TEXT]; /* of the rule; "": free */
	uint64_t minute_ms, hour_ms;
	size_t names, label_bytes;
};

struct resolver {
	struct gateway *gateway;
	struct resolver_entry *entries; /* newest first */
	size_t entry_count;
	struct resolver_search *searches; /* questions under way */
	size_t search_count;
	struct resolver_client *clients; /* who asks over TCP */
	size_t client_count;
	uint64_t last_client;
	struct resolver_refusal *refusals; /* answered when they are told */
	struct resolver_quota quotas[RESOLVER_WILDCARDS];
	double tokens; /* questions that may be asked now */
	uint64_t tokens_ms;
	uint64_t asked; /* of resolvers, so far */
	uint16_t last_stand_in;
	size_t preferred; /* the resolver that answered last */
};

/* Who asked, and how he is answered. */
struct resolver_ask {
	struct transparent_end from, to;
	uint64_t client; /* over TCP; 0: a datagram */
	struct dns_query query;
	uint8_t bytes[DNS_QUERY_MOST];
	size_t len;
};

void resolver_init(struct resolver *resolver, struct gateway *gateway);
void resolver_done(struct resolver *resolver);
/* A datagram to port 53 of anywhere. */
void resolver_datagram(struct resolver *resolver, const uint8_t *bytes, size_t len,
                       const struct transparent_end *from, const struct transparent_end *to);
/* A connection to port 53 of anywhere; takes fd. */
void resolver_accept(struct resolver *resolver, int fd, const struct transparent_end *from,
                     const struct transparent_end *to);

/* NULL: nobody answered. */
typedef void (*resolver_on_found)(void *ctx, const struct dns_answer *answer);
/* Resolves a name (which must be allowed) for ourselves, as IPv4; answers are pinned like any.
 * on_found is called once, perhaps at once, unless resolver_cancel comes first. */
void resolver_find(struct resolver *resolver, const char *name, resolver_on_found on_found,
                   void *ctx);
void resolver_cancel(struct resolver *resolver, void *ctx);

/* --- between the resolver's own files --- */
/* resolver.c: one question, wherever it came from. */
void resolver_question(struct resolver *resolver, struct resolver_ask *ask);
/* client.c: over TCP */
void client_reply(struct resolver *resolver, uint64_t number, const uint8_t *bytes, size_t len);
void client_free_all(struct resolver *resolver);
