/*
 * Who asks: the key in the Authorization header (of a WebSocket: or among the protocols it offers),
 * or the user at the other end of the Unix socket, or the run in whose sandbox the connection
 * began. Nobody learns from a refusal whether a key was wrong, expired, revoked or never there.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct api;
struct caller;
struct identify;
struct request;

struct identify *identify_new(struct api *api);
/* The objects of scopes have changed: what roles and operators have is made anew. */
void identify_rescope(struct identify *identify);
/* Stores when keys were last used; the store is still open. */
void identify_shut(struct identify *identify);
void identify_free(struct identify *identify);

/*
 * Gives a reference. ERR_UNAUTHORIZED: no key, or none that counts. ERR_FORBIDDEN: a user the
 * socket does not serve. ERR_LIMITED: asks too often; the headers that say so are on the request,
 * in all three cases. The request is cut when the key expires.
 */
int identify_caller(struct api *api, struct request *request, struct caller **ret,
                    struct err *err) NODISCARD;
/* The same for a request that is for a model: the key may be wherever an API of models has it. What
 * is no key of ours is a word that a client insists on sending; then where it comes from counts. */
int identify_model_caller(struct api *api, struct request *request, struct caller **ret,
                          struct err *err) NODISCARD;
/* The same for a request with a token of connect.h: its caller drives one session. */
int identify_connect(struct api *api, struct request *request, struct caller **ret,
                     struct err *err) NODISCARD;
/* After something was revoked: ends every request whose key does not count any more, except this
 * one (which may be NULL), and every run that was started with it. With an id also the requests of
 * that key. */
void identify_recheck(struct api *api, const struct request *except, const char *id);
