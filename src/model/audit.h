/*
 * The audit record: who did what, with which credential, on which object, with which verdict and by
 * which rule. No secrets and no content. Rows are numbered without gaps and chained: each one's
 * hash covers it and the hash before, so that an edited, removed or reordered row is found
 * (store/audit.h).
 */
#pragma once

#include "base/base.h"
#include "base/id.h"

enum { AUDIT_HASH = 32, AUDIT_FIELD = 512 };

enum audit_verdict { AUDIT_ALLOW, AUDIT_DENY };

struct audit_row {
	uint64_t seq; /* 1, 2, 3 …; 0 until committed */
	uint64_t time_ms;
	struct id actor;      /* principal; "" when nobody was known */
	char *actor_name;     /* as it was then; may be NULL */
	struct id team;       /* of the credential; "" likewise */
	struct id credential; /* "" on the socket and for nobody */
	char *chain;          /* credentials it came from; may be NULL */
	char *source;         /* "uid 0", "127.0.0.1" */
	char *action;         /* "sandbox_create": the route's name */
	char *object;         /* id, or what was asked for; may be NULL */
	enum audit_verdict verdict;
	char *rule;     /* "sandboxes:write", "not visible", "suppressed", … */
	uint64_t count; /* how many times: more than 1 for a summary */
	uint8_t hash[AUDIT_HASH];
};

void audit_row_done(struct audit_row *row);
/* *to must hold nothing. */
void audit_row_copy(struct audit_row *to, const struct audit_row *from);
const char *audit_verdict_name(enum audit_verdict verdict);
