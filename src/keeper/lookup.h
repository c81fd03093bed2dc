/*
 * One question to the resolvers of this machine, through the dialer: a fresh socket (and so a fresh
 * port) and a random number each time, the next resolver when one is silent or fails, TCP when the
 * answer does not fit a datagram.
 */
#pragma once

#include "base/base.h"
#include "base/loop.h"
#include "keeper/dial.h"
#include "net/dns.h"

/* An answer to the question, unread beyond that; bytes is NULL when nobody answered. The lookup is
 * gone then. */
typedef void (*lookup_on_done)(void *ctx, uint16_t id, const uint8_t *bytes, size_t len);

struct lookup {
	struct dials *dials;
	char name[DNS_NAME_TEXT];
	uint16_t type;
	uint16_t id;
	bool is_tcp;
	unsigned attempts;
	size_t *preferred; /* the resolver to ask first; the one that answered is remembered */
	struct dial *dial;
	int fd; /* owned */
	struct loop_source source;
	struct loop_timer timer;
	uint8_t *bytes; /* over TCP: what came so far */
	size_t len;
	lookup_on_done on_done;
	void *ctx;
};

/* NULL: the name cannot be asked for. */
struct lookup *lookup_start(struct dials *dials, const char *name, uint16_t type, size_t *preferred,
                            lookup_on_done on_done, void *ctx);
/* Without calling on_done. Accepts NULL. */
void lookup_cancel(struct lookup *lookup);
