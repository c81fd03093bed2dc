/*
 * One call of the API on its way: the request, the route it matched, what was read of it. A
 * handler (and whatever it waits for) owns the call until it ends it with exactly one of the
 * call_answer, call_fail or call_done functions.
 */
#pragma once

#include <jansson.h>

#include "api/api.h"
#include "api/engine.h"
#include "api/route.h"
#include "base/base.h"
#include "base/err.h"
#include "model/sandbox.h"

struct config;
struct request;
struct store;
struct hooks;
struct hub;
struct tasks;

/* Everything handlers reach; one per daemon. */
struct api {
	struct loop *loop;
	struct store *store;
	const struct config *config;
	struct engine *engine;
	struct hub *hub; /* followers of events */
	struct tasks *tasks;
	struct hooks *hooks;
	int sandboxes_fd;
	int spool_fd;
	char *state_path;
	uint64_t started_ms;
	bool is_shut;
	struct api_peers peers;
	struct record *record;     /* record.h */
	struct identify *identify; /* identify.h */
	bool has_floors;           /* some team asks for stronger isolation */
	char *listen;              /* where TCP is listened on; NULL: nowhere */
	const uint8_t *sign_public, *sign_secret;
	struct mcp *mcp;    /* mcp.h */
	struct hold *holds; /* holds.h, oldest first */
	struct call *keyed; /* calls with an Idempotency-Key that are under way */
};

struct call {
	struct api *api;
	struct request *request;
	const struct route *route;
	char *params[ROUTE_PARAMS];
	json_t *body;            /* of a JSON route */
	struct caller *caller;   /* NULL: a public route */
	struct sandbox *sandbox; /* of the path, checked; call_sandbox gives it away */
	uint64_t audit;          /* ticket of what the route makes */
	/* Idempotency; key NULL: none. */
	char *key;
	char *key_route;
	char *key_hash;
	struct call *next_keyed;
	/* An answer that waits for its key's commit. */
	int status;
	char *text;
};

struct call *call_new(struct api *api, struct request *request, const struct route *route);
/* Sends the JSON (taken) and ends the call. */
void call_answer(struct call *call, int status, json_t *json);
/* 204 where the route says so. */
void call_answer_empty(struct call *call);
/* The error in the form of RFC 9457; ends the call. */
void call_fail(struct call *call, const struct err *err);
/* Ends the call without an answer: somebody else gives it (a stream). */
void call_done(struct call *call);

/* The problem document of an error. */
json_t *call_problem(const struct err *err);
/* The query parameter, or `otherwise`. Kinds were checked before the handler. */
const char *call_query(const struct call *call, const char *name, const char *otherwise);
uint64_t call_query_u64(const struct call *call, const char *name, uint64_t otherwise);
bool call_query_bool(const struct call *call, const char *name);

/* The sandbox of the path, by id or name in the caller's team, which they may do with what the
 * route says; the caller frees it. On failure the call was ended. */
int call_sandbox(struct call *call, struct sandbox **ret) NODISCARD;
/* Also the exec of the path, which must be its. */
int call_exec(struct call *call, struct sandbox **ret_sandbox, struct exec **ret_exec) NODISCARD;

/* Idempotency-Key: runs `proceed` once the key is stored, or answers in its place. bytes are what
 * must be the same next time. */
void call_with_key(struct call *call, const void *bytes, size_t len, route_handler proceed);
