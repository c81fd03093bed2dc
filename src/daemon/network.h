/*
 * The daemon's part of a sandbox's network: compiling its policy when it starts, handing it to who
 * enforces it (the dialer's ranges by the runtime, then the keeper), changing it while it runs, and
 * taking down what was decided. Nothing here decides about a connection.
 *
 * A change is stored first, then enforced: after a crash the stored one is handed over again. What
 * the keeper refuses is taken back, so that the old one stays in force and in the row.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/err.h"
#include "daemon/fleet.h"
#include "model/host.h"
#include "model/sandbox.h"
#include "wire/wire.h"

struct json_t;

struct network_wish {
	const struct spec *spec;
	const struct strings *approved; /* NULL: none */
	uint64_t generation;            /* the last one it had; 0: none */
	bool even_nothing; /* also no network at all becomes a policy: it has another one now */
};
/* What a wish comes to now, as the next generation. Fills *ret, which must hold nothing; it has no
 * policy where there is no network. ERR_NOT_FOUND: there is no such environment; ERR_INVALID,
 * ERR_TOO_LARGE. */
int network_compile(const struct fleet *fleet, const struct network_wish *wish,
                    struct sandbox_network *ret, struct err *err) NODISCARD;
/* Hands over what the row has. on_done is called at once when there is nothing to hand over. */
typedef void (*network_on_enforced)(struct member *member, const struct err *err);
void network_enforce(struct member *member, network_on_enforced on_done);
/* After a reconnect: once more, in case it did not arrive. */
void network_confirm(struct member *member);

void network_set(struct fleet *fleet, const char *id, const struct network_change *change,
                 engine_on_sandbox on_sandbox, void *ctx);
/* Hosts a sandbox had to do with, from its keeper while it runs, else from its events. */
void network_hosts(struct fleet *fleet, const char *id, engine_on_hosts on_hosts, void *ctx);

/* From the events alone, also of one that is gone. */
int network_read_hosts(struct store *from, const char *id, struct host_uses *ret,
                       struct err *err) NODISCARD;

/* What the keeper tells. */
void network_on_decision(struct member *member, const struct wire_msg *msg);
/* A call to a service is over; takes the data. */
void network_on_service(struct member *member, struct json_t *data);
/* The same for a call to a model. */
void network_on_model(struct member *member, struct json_t *data);
void network_on_host(struct member *member, const struct wire_msg *msg);

/* Adds the variables of its environment that env does not set. The caller wipes *env with
 * environments_wipe. */
int network_add_variables(struct member *member, struct strings *env, struct err *err) NODISCARD;
