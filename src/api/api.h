/*
 * The REST interface: routes.def says what there is, one file per resource does it. Lives in the
 * daemon, on the loop's thread; reaches sandboxes only through struct engine.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

struct config;
struct engine;
struct hooks;
struct event;
struct loop;
struct request;
struct store;
struct tasks;

struct api;

/* Who is at the other end; the daemon knows. */
struct api_peers {
	/* A user of this machine who is its operator, also as seen from our pid namespace. */
	bool (*is_operator)(uid_t uid, pid_t pid, void *ctx);
	/* Calls each request that is under way, on every socket. */
	void (*each_request)(void (*each)(struct request *request, void *ctx), void *each_ctx,
	                     void *ctx);
	void *ctx;
};

struct api_config {
	struct loop *loop;
	struct store *store;
	const struct config *config;
	struct engine *engine;
	struct tasks *tasks;
	struct hooks *hooks;
	int sandboxes_fd; /* $STATE/sandboxes; not owned */
	int spool_fd;     /* $STATE/tmp; not owned */
	const char *state_path;
	struct api_peers peers;
	const char *listen; /* "127.0.0.1:7070"; NULL: no TCP */
	/* The node's Ed25519 key, for what it signs; outlives the api. */
	const uint8_t *sign_public, *sign_secret;
};

struct api *api_new(const struct api_config *config);
/* Before the sandboxes are let go: calls that fail from now on were cut off, and their
 * Idempotency-Keys stay claimed, because what they began may well have happened. */
void api_shut(struct api *api);
void api_free(struct api *api);
/* For struct server_config, with the api as ctx: a request whose headers are complete. */
void api_on_request(struct request *request, void *ctx);
/* The same for a request that somebody inside has for a model. */
void api_on_model(struct request *request, void *ctx);
/* The same for git inside: http://git.cloche.internal. */
void api_on_git(struct request *request, void *ctx);
void api_on_refuse(struct request *request, enum err_code code, const char *detail, void *ctx);
/* For store_listen, with the api as ctx: followers of events hear it. */
void api_on_event(const struct event *event, void *ctx);
