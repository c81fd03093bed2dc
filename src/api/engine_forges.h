/* What the API and the tasks ask of forges: part of struct engine_ops (api/engine.h). */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/forge.h"

struct engine;
struct request;

/* An HTTP status; 0: err says why there is none. */
typedef void (*engine_on_status)(int status, const struct err *err, void *ctx);

struct engine_forges {
	/* Answers git inside a sandbox. grant NULL: it is refused with err, in words. */
	void (*serve)(struct engine *engine, struct request *request,
	              const struct forge_grant *grant, const struct err *err);
	/* Sees to it that the branch has an open pull request. */
	void (*pull)(struct engine *engine, const struct forge_pull *pull,
	             forge_on_pulled on_pulled, void *ctx);
	/* The run needs its forge no longer. */
	void (*forget)(struct engine *engine, const char *run);
	/* Asks the forge who we are, with the credential. */
	void (*test)(struct engine *engine, const struct forge *forge, engine_on_status on_status,
	             void *ctx);
	/* Keeps its secret, which config.toml says is sealed. */
	void (*seal)(struct engine *engine, const struct forge *forge, const char *value,
	             void (*on_done)(const struct err *err, void *ctx), void *ctx);
};
