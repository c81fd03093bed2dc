/*
 * Forges in the daemon: who of the sandboxes reaches which repository is decided by the API, what
 * is asked outside by gateway/forge.h; here both meet. On the loop's thread.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/forge.h"

struct forgeway;
struct loop;
struct request;
struct services;
struct upstreams;

struct forges {
	struct forgeway *forgeway;
	struct services *services; /* whose events calls become; store and keys, too */
};

void forges_start(struct forges *forges, struct loop *loop, struct upstreams *upstreams);
/* Requests have ended. */
void forges_stop(struct forges *forges);
/* Keeps its secret; answered once that is stored. */
void forges_seal(struct forges *forges, const struct forge *forge, const char *value,
                 void (*on_done)(const struct err *err, void *ctx), void *ctx);
/* grant NULL: err says why not. */
void forges_serve(struct forges *forges, struct request *request, const struct forge_grant *grant,
                  const struct err *err);
