/*
 * The one answer to "may this caller do this with that object": who asks (struct caller), whose the
 * object is (struct ownership), what comes of the two. Scopes say which kinds of object a
 * credential may touch, this says which ones of a kind. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "base/limits.h"
#include "model/scope.h"

/* The team and principal that every store has: what belonged to nobody belongs to them. */
#define ACCESS_TEAM      "tm_00000000000000000000"
#define ACCESS_OPERATOR  "pr_00000000000000000000"
#define ACCESS_TEAM_NAME "default"

enum visibility {
#define VISIBILITY(id, text, about) VISIBILITY_##id,
#include "model/visibilities.def"
#undef VISIBILITY
	VISIBILITY_COUNT_
};

struct ownership {
	const char *owner; /* principal id */
	const char *team;  /* team id */
	enum visibility visibility;
	const char *made_by; /* of what runs may make: the credentials it was made on; else NULL */
};

/*
 * Somebody who asks, with what is left to them: scopes are those of the credential, of the role and
 * of nothing more. Shared by whatever works for one request; counted references.
 */
struct caller {
	unsigned refs;
	struct id principal;
	char name[LIMIT_NAME_LEN + 1]; /* of the principal */
	struct id team;
	char team_name[LIMIT_NAME_LEN + 1];
	enum role role;
	bool is_operator; /* of the whole machine: no team's walls */
	struct scopes scopes;
	struct id credential; /* key or run token; "" on the socket */
	char *chain;          /* ids of the credentials it came from, oldest first; NULL: none */
	struct id run;        /* whose token it is; "" for everybody else */
	bool is_connect;      /* drives the session of that run, and may do nothing else at all */
	bool can_approve;     /* of such a one: also answers what its agent asks */
	char source[64];      /* "uid 1000", "127.0.0.1" */
	uint64_t expires_ms;  /* CLOCK_REALTIME; 0: never */
};

struct caller *caller_new(void);
struct caller *caller_ref(struct caller *caller);
void caller_unref(struct caller *caller);
void caller_unrefp(struct caller **caller);
/* Its credential, behind those above it; the caller frees. NULL: it has none. */
char *caller_chain(const struct caller *caller);

enum access {
	ACCESS_HIDDEN, /* to be answered as if it were not there */
	ACCESS_LOOK,
	ACCESS_CHANGE,
};

/* Made on the caller's credential, or on one below it. */
bool access_is_below(const struct caller *caller, const struct ownership *ownership);
enum access access_to(const struct caller *caller, const struct ownership *ownership);

const char *visibility_name(enum visibility visibility);
bool visibility_from(const char *text, enum visibility *ret) NODISCARD;
/* ERR_INVALID names the possible ones. */
int visibility_parse(const char *text, enum visibility *ret, struct err *err) NODISCARD;
