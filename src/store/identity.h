/*
 * Teams, principals and credentials in the store, and the secrets that prove a credential. Part of
 * store.h: the same rules for writes and reads. What is decided here is decided inside the
 * transaction, so two requests cannot both take the last of a budget.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/identity.h"
#include "store/store.h"

/* --- secrets: "sk_live_<id>_<secret>" --- */
enum { SECRET_TEXT = 96 };

/* A new credential's id, the text to show once (wiped by the caller) and what to keep of it. */
void secret_make(struct id *ret_id, char text[SECRET_TEXT], uint8_t hash[CREDENTIAL_HASH]);
/* Another secret for an id that is there. */
void secret_renew(const struct id *id, char text[SECRET_TEXT], uint8_t hash[CREDENTIAL_HASH]);
/* The id a text claims to be and the hash to compare; false: it is no secret of ours. */
bool secret_read(const char *text, struct id *ret_id, uint8_t hash[CREDENTIAL_HASH]) NODISCARD;
/* In constant time. */
bool secret_is_same(const uint8_t a[CREDENTIAL_HASH], const uint8_t b[CREDENTIAL_HASH]);

/* --- writing --- */
/* ERR_CONFLICT when the name is taken. */
void store_put_team(struct store_write *write, const struct team *team);
/* ERR_CONFLICT when the name or the uid is somebody else's. */
void store_put_principal(struct store_write *write, const struct principal *principal);
/* Inserts, or changes the role. */
void store_put_membership(struct store_write *write, const char *team, const char *principal,
                          enum role role, uint64_t now_ms);
/* With every credential the principal has in the team, those made with these, and what it has there
 * told elsewhere (webhooks). ERR_NOT_FOUND. */
void store_delete_membership(struct store_write *write, const char *team, const char *principal,
                             uint64_t now_ms);
void store_add_credential(struct store_write *write, const struct credential *credential);
/* Also everything below it. Nothing happens to what is revoked already. */
void store_revoke_credential(struct store_write *write, const char *id, uint64_t now_ms);
/* ERR_NOT_FOUND when it is revoked. */
void store_rotate_credential(struct store_write *write, const char *id,
                             const uint8_t hash[CREDENTIAL_HASH], uint64_t expires_ms);
void store_touch_credential(struct store_write *write, const char *id, uint64_t used_ms);

/*
 * The token of a run, below credential->parent (which may be ""). ERR_FORBIDDEN, naming what is
 * missing: the parent is over, has children_max live children already, or has not that much of its
 * budget left.
 */
void store_add_token(struct store_write *write, const struct credential *token,
                     unsigned children_max, uint64_t now_ms);
/* Spent is spent: also above a budget, on the token's account and on those of all above it. */
void store_spend(struct store_write *write, const char *id, uint64_t amount);

struct trusted_key {
	struct id id; /* tk_… */
	char *name;
	char *public_key; /* 64 hexadecimal digits */
	struct id team;   /* "": of all teams */
	char *team_name;  /* may be NULL */
	uint64_t created_ms;
};
void trusted_key_done(struct trusted_key *key);
/* ERR_CONFLICT when name or key are there. */
void store_add_trusted(struct store_write *write, const struct trusted_key *key);
/* ERR_NOT_FOUND. */
void store_delete_trusted(struct store_write *write, const char *id);

/* --- reading --- */
/* By id or name. */
int store_team_get(struct store *store, const char *id_or_name, struct team *ret,
                   struct err *err) NODISCARD;
struct team_page {
	struct team *items; /* by name */
	size_t count;
	char *next_cursor;
};
int store_team_list(struct store *store, const char *cursor, size_t limit, struct team_page *ret,
                    struct err *err) NODISCARD;
void team_page_done(struct team_page *page);

int store_principal_get(struct store *store, const char *id_or_name, struct principal *ret,
                        struct err *err) NODISCARD;
int store_membership_get(struct store *store, const char *team_id, const char *principal_id,
                         struct membership *ret, struct err *err) NODISCARD;
/* What the user is in the named team, or ("") in the one it was first added to. */
int store_membership_of_uid(struct store *store, uint32_t uid, const char *team_name,
                            struct membership *ret, struct err *err) NODISCARD;
struct membership_page {
	struct membership *items; /* by name */
	size_t count;
	char *next_cursor;
};
int store_membership_list(struct store *store, const char *team_id, const char *cursor,
                          size_t limit, struct membership_page *ret, struct err *err) NODISCARD;
void membership_page_done(struct membership_page *page);

int store_credential_get(struct store *store, const char *id, struct credential **ret,
                         struct err *err) NODISCARD;
int store_credential_of_run(struct store *store, const char *run, struct credential **ret,
                            struct err *err) NODISCARD;
struct credential_filter {
	const char *team;      /* id; NULL: of all */
	const char *principal; /* id; NULL: of all */
	bool with_revoked;
	const char *cursor;
	size_t limit;
};
struct credential_page {
	struct credential **items; /* API keys, oldest first */
	size_t count;
	char *next_cursor;
};
int store_credential_list(struct store *store, const struct credential_filter *filter,
                          struct credential_page *ret, struct err *err) NODISCARD;
void credential_page_done(struct credential_page *page);
/* Runs whose tokens are not revoked: for a start that looks for what a crash left. */
int store_live_runs(struct store *store, struct strings *ret, struct err *err) NODISCARD;
/* What a credential may still spend or hand down; UINT64_MAX: no limit. */
int store_budget_left(struct store *store, const char *id, uint64_t now_ms, uint64_t *ret,
                      struct err *err) NODISCARD;

struct trusted_list {
	struct trusted_key *items; /* by name */
	size_t count;
};
/* Those that count for a team ("": all there are). */
int store_trusted_list(struct store *store, const char *team_id, struct trusted_list *ret,
                       struct err *err) NODISCARD;
void trusted_list_done(struct trusted_list *list);
