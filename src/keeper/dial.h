/*
 * The keeper's side of the dialer (broker/dialer.h): asks for sockets, waits until they are
 * connected, gives them to whoever asked. While there is no dialer, what is asked for waits a
 * little for the next one and then fails: nothing leaves without it.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/loop.h"
#include "os/transparent.h"
#include "wire/wire.h"

struct dials;

/* fd is the callee's from now on; -1 when err says why there is none. The dial is gone then. */
typedef void (*dial_on_done)(void *ctx, int fd, const struct err *err);

struct dial {
	struct dial *next;
	struct dials *dials;
	uint64_t request;
	enum wire_type type; /* D_DIAL or D_RESOLVE */
	bool is_udp;
	struct transparent_end to; /* D_RESOLVE: port is the resolver's number */
	int fd;                    /* while it connects */
	struct loop_source source;
	struct loop_timer timer; /* gives up */
	struct loop_timer again; /* the dialer knew another policy than we do: ask once more */
	dial_on_done on_done;
	void *ctx;
};

struct dials {
	struct loop *loop;
	const uint64_t *generation; /* of the policy in force */
	int sock;                   /* owned; -1: there is no dialer now */
	struct loop_source source;
	struct dial *first;
	uint64_t last_request;
	uint8_t *bytes;
	size_t resolvers; /* how many there are; 0: not asked yet */
	bool has_v6;      /* this machine has a way to IPv6 */
};

void dials_init(struct dials *dials, struct loop *loop, const uint64_t *generation);
void dials_done(struct dials *dials);
/* Takes sock: a new dialer, who is asked everything that waits. */
void dials_take(struct dials *dials, int sock);

struct dial *dial_to(struct dials *dials, const struct transparent_end *to, bool is_udp,
                     dial_on_done on_done, void *ctx);
struct dial *dial_resolver(struct dials *dials, uint16_t number, bool is_udp, dial_on_done on_done,
                           void *ctx);
/* Without calling on_done. Accepts NULL. */
void dial_cancel(struct dial *dial);
