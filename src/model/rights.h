/*
 * What a run may do, and how it is handed down: a child's rights are made from its parent's and a
 * wish, and are never more than what the parent has left. Pure; money and time are numbers here,
 * the store keeps them atomically (store/identity.h).
 *
 * Every list comes in two kinds of "nothing said": any (no limit) and empty (nothing at all).
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/reach.h"
#include "model/scope.h"
#include "model/strings.h"

/* No limit, in time and in money. */
#define RIGHTS_UNLIMITED UINT64_MAX

enum {
	RIGHTS_DEPTH = 4,                 /* ancestors, unless config.toml says otherwise */
	RIGHTS_CHILDREN = 32,             /* of one parent, likewise */
	RIGHTS_GRACE_MS = 30 * 1000,      /* a token outlives its run's timeout by this */
	RIGHTS_LIFE_MS = 6 * 3600 * 1000, /* the longest life of a token */
};

struct allowed {
	bool any;
	struct strings items; /* exact names; "*" stands for nothing special */
};

struct rights {
	struct scopes scopes;
	struct reach network;
#define RIGHT(field, text, about) struct allowed field;
#include "model/rights.def"
#undef RIGHT
	uint64_t until_ms; /* CLOCK_REALTIME; RIGHTS_UNLIMITED: no end */
	uint64_t budget;   /* millionths of a dollar that are left; RIGHTS_UNLIMITED: no limit */
	unsigned depth;    /* ancestors */
};

/* What is asked for; a part that is NULL (or not has_…) is not, and means all the parent has. */
struct wish {
	const struct scopes *scopes;
	const struct reach *network;
#define RIGHT(field, text, about) const struct allowed *field;
#include "model/rights.def"
#undef RIGHT
	bool has_time;
	uint64_t time_ms; /* from now */
	bool has_budget;
	uint64_t budget;
};

void allowed_done(struct allowed *allowed);
void allowed_copy(struct allowed *to, const struct allowed *from);
bool allowed_has(const struct allowed *allowed, const char *name);

/* Everything, without end. */
void rights_init(struct rights *rights, const struct scopes *scopes);
void rights_done(struct rights *rights);
/* Replaces what *to holds. */
void rights_copy(struct rights *to, const struct rights *from);

/*
 * The child's rights. Scopes are what both have: what only the child asks for is left out, but
 * nothing left at all is refused. Anything else that is more than the parent's is refused, and the
 * message names it. ERR_FORBIDDEN. Fills *ret, which must hold nothing. The parent's budget is not
 * touched: rights_reserve does that.
 */
int rights_delegate(const struct rights *parent, const struct wish *wish, uint64_t now_ms,
                    unsigned depth_max, struct rights *ret, struct err *err) NODISCARD;
/* Takes a child's budget out of the parent's; false: it has not that much left. And back what the
 * child did not spend. Without a limit nothing is counted. */
bool rights_reserve(struct rights *parent, uint64_t budget) NODISCARD;
void rights_return(struct rights *parent, uint64_t unspent);
/* When the token of a run that may take timeout_ms ends: with its grace, never after the parent and
 * never after RIGHTS_LIFE_MS. */
uint64_t rights_token_until(uint64_t now_ms, uint64_t timeout_ms, uint64_t parent_until_ms);
/* Whether inner is nowhere more than outer; if not, `extra` (≥ REACH_TEXT bytes) names it. */
bool rights_within(const struct rights *inner, const struct rights *outer, char *extra,
                   size_t size);

/* As lines for a store, and back. ERR_INVALID for lines no version of ours wrote. */
void rights_list(const struct rights *rights, struct strings *ret);
int rights_load(const struct strings *list, struct rights *ret, struct err *err) NODISCARD;
