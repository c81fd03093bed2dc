/*
 * Agents' manifests as the daemon sees them: who vouches for one, and what that makes of the tasks
 * it works on. The file itself is model/agent.h, its signature api/signature.h.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"
#include "model/trust.h"

struct api;

struct vouched {
	enum trust trust;
	char *signed_by; /* name of the trusted key; NULL: nobody */
	char *runtime;   /* that it asks for; may be NULL */
	struct strings capabilities, tools, repositories;
};

/* What the text is worth for a team: whether the signature (NULL: there is none) is of these bytes
 * and of a key the team trusts. Sets trust and signed_by alone. */
int vouch_judge(struct api *api, const char *team, const char *text, const char *signature,
                struct vouched *ret, struct err *err) NODISCARD;
/* Reads the file and the .sig beside it. Fills *ret, which must hold nothing. A file that cannot be
 * read or understood is ERR_MISSING: its agent works for nobody. */
int vouch_load(struct api *api, const char *team, const char *path, struct vouched *ret,
               struct err *err) NODISCARD;
void vouched_done(struct vouched *manifest);
/* The runtime of its sandboxes before any floor; asked may be NULL. Whom nobody vouches for gets
 * the strongest there is, whatever was asked for. */
int vouch_runtime(const struct vouched *manifest, const char *asked, const char **ret,
                  struct err *err) NODISCARD;
