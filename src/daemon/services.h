/*
 * The services of this node: those of config.toml, and those that the API made (in the store, some
 * with sealed secrets). One place that finds one, changes one, opens what is sealed, and writes
 * down what was asked of them.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/err.h"
#include "daemon/keys.h"
#include "model/config.h"
#include "model/service.h"

struct fleet;
struct loop;
struct proxy;
struct proxy_report;
struct request;
struct store;

struct services {
	struct store *store;         /* not owned, like all of these but the proxy */
	const struct config *config; /* comes before the store: an operator's file wins */
	const struct keys *keys;
	struct fleet *fleet;
	struct proxy *proxy; /* calls of sandboxes */
};

/* The other parts are filled in before. */
void services_start(struct services *services, struct loop *loop);
/* When every request has ended. */
void services_stop(struct services *services);
/* A call of a sandbox is over: it becomes an event. */
void services_note(struct services *services, const struct proxy_report *report);
/* Answers the request of a sandbox. */
void services_serve(struct services *services, struct request *request, const char *name);

/* By id, or by name in that team (NULL: the default one); the caller frees. ERR_NOT_FOUND. */
int services_get(const struct services *services, const char *team, const char *name,
                 struct service **ret, struct err *err) NODISCARD;
void services_put(const struct services *services, const struct service_change *change,
                  engine_on_done on_done, void *ctx);
void services_remove(const struct services *services, const struct service *service,
                     engine_on_done on_done, void *ctx);
void services_test(const struct services *services, const struct service *service, const char *path,
                   engine_on_status on_status, void *ctx);
