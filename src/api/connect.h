/*
 * Tokens with which a client outside drives one session: GET /sandboxes/{sandbox}/connect makes
 * them, the agent server (agent_server.h) takes them, and nothing else does.
 *
 * "cn_" + the id of the run + "." + when it ends + "." + what it may + "." + who asked for it + "."
 * + proof. The proof is a keyed hash of what stands before it; the key is what the store has of the
 * run's credential, whose secret nobody ever saw. So there is nothing more to keep, and a token
 * counts no longer than the credential does, nor than the key it was asked for with.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"

struct api;
struct credential;
struct request;

/* One stands in the Authorization header; NULL: none does. */
const char *connect_token_of(const struct request *request);

struct connect_grant {
	struct credential *credential; /* of the run; the caller frees it */
	uint64_t expires_ms;
	struct id
		by; /* the credential, or the principal, that asked for it; "-" for the operator */
	bool can_approve; /* it may also answer what the agent asks */
};
/* ERR_UNAUTHORIZED, without a word about what is wrong with it. */
int connect_read(struct api *api, const char *text, struct connect_grant *ret,
                 struct err *err) NODISCARD;
