/*
 * Who there is: teams, principals, who is what in which team, and credentials (API keys and the
 * tokens of runs). Plain objects; what they may do is model/access.h and model/rights.h.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "model/scope.h"
#include "model/strings.h"

enum principal_kind {
#define PRINCIPAL(id, text, about) PRINCIPAL_##id,
#include "model/principals.def"
#undef PRINCIPAL
	PRINCIPAL_COUNT_
};

struct team {
	struct id id; /* tm_… */
	char *name;
	char *default_scopes; /* of keys made without any: a list with blanks; NULL: the caller's */
	char *trust_floor;    /* the weakest runtime allowed; NULL: any */
	uint64_t created_ms;
};

struct principal {
	struct id id; /* pr_… */
	char *name;
	enum principal_kind kind;
	bool has_uid;
	uint32_t uid; /* of the machine's user that it is on the socket */
	uint64_t created_ms;
};

struct membership {
	struct principal principal;
	struct id team;
	char *team_name;
	enum role role;
	uint64_t created_ms;
};

enum { CREDENTIAL_HASH = 32 };

struct credential {
	struct id id; /* ky_… */
	char *name;
	struct id principal;
	char *principal_name;
	struct id team;
	char *team_name;
	bool has_role; /* false: it is no member of that team any more */
	enum role role;
	bool is_operator;
	struct scopes scopes;
	uint8_t hash[CREDENTIAL_HASH]; /* of the secret part */
	uint64_t created_ms;
	uint64_t expires_ms;   /* 0: never */
	uint64_t revoked_ms;   /* 0: not */
	uint64_t last_used_ms; /* 0: never; some seconds behind at most */
	struct id parent;      /* the credential it was made with; "": none */
	char *chain;           /* all of these, oldest first, blanks between; NULL: none */
	struct id run;         /* whose token it is; "" for an API key */
	struct strings rights; /* of a run's token: lines of model/rights.h */
	uint64_t budget;       /* of a token, in millionths of a dollar; UINT64_MAX: no limit */
	uint64_t spent;        /* by itself and by all below it */
};

void team_done(struct team *team);
void principal_done(struct principal *principal);
void membership_done(struct membership *membership);
void credential_free(struct credential *credential);
void credential_freep(struct credential **credential);
/* Not revoked, not expired. */
bool credential_is_live(const struct credential *credential, uint64_t now_ms);

/* Names of teams and principals: as names of sandboxes, and none that looks like an id. */
int identity_check_name(const char *what, const char *name, struct err *err) NODISCARD;
/* Names of credentials are for people: any text of 1 to 100 bytes without control characters.
 * "task:" is kept for the tokens of runs. */
int identity_check_label(const char *name, struct err *err) NODISCARD;

const char *principal_kind_name(enum principal_kind kind);
bool principal_kind_from(const char *text, enum principal_kind *ret) NODISCARD;
