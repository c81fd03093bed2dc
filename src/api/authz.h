/*
 * The one place that answers "may this caller do this": the scope of the route (routes.def), then
 * the object in its path (model/access.h), and the record of both. What a caller may not see is
 * answered as if it were not there.
 *
 * A request comes through authz_admit (headers are there), then, with its body, through
 * authz_enter, which calls the handler. Handlers whose object is not in the path ask authz_*
 * themselves.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "model/access.h"

struct api;
struct call;
struct profile;
struct request;
struct route;
struct sandbox;
struct spec;

/* Host and Origin. 0: go on; 1: answered (a browser asked whether it may ask); <0: refused. */
int authz_gate(struct api *api, struct request *request, struct err *err) NODISCARD;
/* Fills call->caller. route is NULL when nothing is there: whoever may not know so is refused
 * first. The refusal is on record. */
int authz_admit(struct api *api, struct request *request, const struct route *route,
                struct caller **ret, struct err *err) NODISCARD;
/* Finds the sandbox of the path, checks it, records what is about to be done and calls the handler;
 * or ends the call. */
void authz_enter(struct call *call);

/* --- for handlers --- */
/* One more scope than the route's, on the object of the path. ERR_FORBIDDEN. */
int authz_more(struct call *call, enum scope scope, struct err *err) NODISCARD;
/* May look at, may change. ERR_NOT_FOUND "no WHAT 'name'", as if it were not there; ERR_FORBIDDEN.
 */
int authz_look(struct call *call, const struct ownership *ownership, const char *what,
               const char *name, struct err *err) NODISCARD;
int authz_change(struct call *call, const struct ownership *ownership, const char *what,
                 const char *name, struct err *err) NODISCARD;
/* Without a word and off the record: for lists. */
bool authz_sees(const struct call *call, const struct ownership *ownership);
/* A sandbox that is named in the body and shall be worked in: fills call->sandbox. */
int authz_sandbox(struct call *call, const char *name, struct err *err) NODISCARD;
/* Whether the caller has all scopes that the token of this run has, while it is live: who makes a
 * run do something does it with its rights. what and id name the object that is asked for.
 * ERR_FORBIDDEN names the scope. */
int authz_run(struct call *call, const char *run, const char *what, const char *id,
              struct err *err) NODISCARD;
/* What the route makes has this id: call it before the write that makes it. */
void authz_made(struct call *call, const char *id);

/* The profile of that name, if this caller may use it. ERR_NOT_FOUND with the nearest of theirs. */
int authz_profile(const struct api *api, const struct caller *caller, const char *name,
                  const struct profile **ret, struct err *err) NODISCARD;
bool authz_may_use(const struct caller *caller, const struct profile *profile);
/* What a sandbox for this caller is made from: decode_spec, then whose it is and how strongly it is
 * isolated. ticket is that of record_creation. */
int authz_spec(struct api *api, const struct caller *caller, uint64_t ticket, const json_t *body,
               struct spec *ret, struct err *err) NODISCARD;
struct ownership authz_ownership(const struct sandbox *sandbox);
