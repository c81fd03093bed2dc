/*
 * Calls of sandboxes to services: http://NAME.cloche.internal/PATH inside becomes upstream + PATH
 * outside. Credentials are added here and nowhere else, and taken out of what comes back should
 * the upstream repeat them. Streams both ways; one thread, the daemon's loop.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "gateway/fetch.h"
#include "gateway/secret.h"
#include "gateway/trial.h"
#include "model/config.h"
#include "model/service.h"

struct loop;
struct proxy;
struct request;
struct upstreams;

/* One call, when it is over. Texts are valid during the call; neither header nor body nor query. */
struct proxy_report {
	const char *sandbox; /* id */
	const char *service; /* name, as it was asked for */
	const char *method, *path;
	int status;         /* that the sandbox was given; 0: none */
	const char *denied; /* why it was not passed on; NULL: it was */
	uint64_t sent, received, took_ms;
};

struct proxy_config {
	struct loop *loop;
	const struct config *config;
	/* The service of that name, if this sandbox may use it; the caller frees. ERR_NOT_FOUND. */
	int (*find)(const char *sandbox, const char *name, struct service **ret, struct err *err,
	            void *ctx);
	gateway_unseal unseal;
	void (*told)(const struct proxy_report *report, void *ctx);
	void *ctx;
};

struct proxy *proxy_new(const struct proxy_config *config);
/* Every request must have ended. Accepts NULL. */
void proxy_free(struct proxy *proxy);
/* For other calls of the daemon. */
struct upstreams *proxy_upstreams(struct proxy *proxy);
/* Answers the request of a guest. */
void proxy_serve(struct proxy *proxy, struct request *request, const char *name);

/* One call of the daemon's own to a service of a manifest, with its secret. `type` is that of the
 * body; NULL: there is none. on_end is called once, never before this returns. */
struct proxy_call {
	const char *method, *target;
	const char *type;
	const void *body;
	size_t body_len;
};
void proxy_fetch(struct proxy *proxy, const struct service *service, const struct proxy_call *asked,
                 fetch_on_end on_end, void *ctx);

/* Calls it once from here, as a sandbox's GET of that path would be. on_tested is called once,
 * never before this returns. */
void proxy_test(struct proxy *proxy, const struct service *service, const char *path,
                trial_on_end on_tested, void *ctx);
