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
};

/* The other parts are filled in before. */
void providers_start(struct providers *providers, struct loop *loop, struct upstreams *upstreams);
/* When every request has ended. */
void providers_stop(struct providers *providers);
/* Answers a request for a model; target is path and query. caller NULL: it is refused with err. */
void providers_serve(struct providers *providers, struct request *request, const char *target,
                     const struct caller *caller, const struct err *err);
