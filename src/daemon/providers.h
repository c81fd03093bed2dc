/*
 * The providers of models of this node: those of config.toml, then those that the API made, and the
 * gateway that calls them. One place that finds one, opens its key, asks whether a caller may spend
 * and writes down what was used.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/err.h"
#include "daemon/keys.h"
#include "model/config.h"
#include "model/provider.h"

struct caller;
struct fleet;
struct llm;
struct loop;
struct request;
struct store;
struct tasks;
struct upstreams;

struct providers {
	struct store *store; /* not owned, like all of these but the gateway */
	const struct config *config;
	const struct keys *keys;
	struct fleet *fleet;
	struct tasks *tasks; /* NULL: none yet */
	struct llm *llm;
	struct provider **made; /* by the API, as the store has them */
	size_t made_count;
};

/* The other parts are filled in before. ERR_IO: the store cannot be read. */
int providers_start(struct providers *providers, struct loop *loop, struct upstreams *upstreams,
                    struct err *err) NODISCARD;
/* When every request has ended. */
void providers_stop(struct providers *providers);
/* As llm_settle. */
void providers_settle(struct providers *providers, const char *run);
/* Answers a request for a model; target is path and query. caller NULL: it is refused with err. */
void providers_serve(struct providers *providers, struct request *request, const char *target,
                     const struct caller *caller, const struct err *err);

/* As in struct engine_ops. */
const struct provider *providers_at(const struct providers *providers, size_t index);
void providers_put(struct providers *providers, const struct provider_change *change,
                   engine_on_done on_done, void *ctx);
void providers_remove(struct providers *providers, const char *id, engine_on_done on_done,
                      void *ctx);
void providers_test(struct providers *providers, const struct provider *provider,
                    engine_on_status on_status, void *ctx);
