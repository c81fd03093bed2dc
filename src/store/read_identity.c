/* Teams, principals, memberships, credentials and trusted keys out of the store. */
#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"
#include "store/hex.h"
#include "store/identity.h"
#include "store/pack.h"
#include "store/store_impl.h"

#define begin(store, sql, row, err, ...)                                                           \
	db_begin(&(store)->reader, sql, (const struct value[]){__VA_ARGS__},                       \
	         sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value), row, err)

/* The first row; ERR_NOT_FOUND says what there is none of. The caller resets it. */
static int first(struct store *store, sqlite3_stmt *row, const char *what, const char *name,
                 struct err *err)
{
	int r = db_step(&store->reader, row, err);
	char shown[80];

	if (r > 0)
		return 0;
	if (r < 0)
		return -1;
	str_escape(shown, sizeof(shown), name, strlen(name));
	return err_set(err, ERR_NOT_FOUND, "no %s '%s'", what, shown);
}

/* --- teams --- */

static void take_team(sqlite3_stmt *row, struct team *ret)
{
	*ret = (struct team){
		.id = db_column_id(row, 0),
		.name = db_column_text(row, 1),
		.default_scopes = db_column_text(row, 2),
		.trust_floor = db_column_text(row, 3),
		.created_ms = db_column_int(row, 4),
	};
}

int store_team_get(struct store *store, const char *id_or_name, struct team *ret, struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_TEAM_GET, &row, err, value_text(id_or_name)) < 0 ||
	    first(store, row, "team", id_or_name, err) < 0)
		return -1;
	take_team(row, ret);
	sqlite3_reset(row);
	return 0;
}

int store_team_list(struct store *store, const char *cursor, size_t limit, struct team_page *ret,
                    struct err *err)
{
	auto_free char *after = NULL;
	struct team_page page = {0};
	sqlite3_stmt *row;
	int r;

	if (cursor_check_limit(limit, &limit, err) < 0 || cursor_read(cursor, &after, err) < 0 ||
	    begin(store, SQL_TEAM_LIST, &row, err, value_text(after), value_int(limit + 1)) < 0)
		return -1;
	page.items = mem_resize(NULL, limit + 1, sizeof(*page.items));
	while ((r = db_step(&store->reader, row, err)) > 0)
		take_team(row, &page.items[page.count++]);
	if (page.count > limit) {
		team_done(&page.items[--page.count]);
		page.next_cursor = cursor_make(page.items[limit - 1].name);
	}
	if (r < 0)
		team_page_done(&page);
	else
		*ret = page;
	return r;
}

void team_page_done(struct team_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		team_done(&page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct team_page){0};
}

/* --- principals and memberships --- */

static int take_principal(sqlite3_stmt *row, struct principal *ret, struct err *err)
{
	struct principal principal = {
		.id = db_column_id(row, 0),
		.has_uid = sqlite3_column_type(row, 3) != SQLITE_NULL,
		.uid = (uint32_t)db_column_int(row, 3),
		.created_ms = db_column_int(row, 4),
	};

	if (!principal_kind_from(db_column_view(row, 2), &principal.kind))
		return err_set(err, ERR_IO, "the store has principal %s of no kind we know",
		               principal.id.text);
	principal.name = db_column_text(row, 1);
	*ret = principal;
	return 0;
}

static int take_membership(sqlite3_stmt *row, struct membership *ret, struct err *err)
{
	struct membership membership = {
		.team = db_column_id(row, 5),
		.created_ms = db_column_int(row, 8),
	};

	if (!role_from(db_column_view(row, 7), &membership.role))
		return err_set(err, ERR_IO, "the store has a member in no role we know");
	if (take_principal(row, &membership.principal, err) < 0)
		return -1;
	membership.team_name = db_column_text(row, 6);
	*ret = membership;
	return 0;
}

int store_principal_get(struct store *store, const char *id_or_name, struct principal *ret,
                        struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (begin(store, SQL_PRINCIPAL_GET, &row, err, value_text(id_or_name)) < 0 ||
	    first(store, row, "principal", id_or_name, err) < 0)
		return -1;
	r = take_principal(row, ret, err);
	sqlite3_reset(row);
	return r;
}

int store_membership_get(struct store *store, const char *team_id, const char *principal_id,
                         struct membership *ret, struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (begin(store, SQL_MEMBERSHIP_GET, &row, err, value_text(team_id),
	          value_text(principal_id)) < 0 ||
	    first(store, row, "member", principal_id, err) < 0)
		return -1;
	r = take_membership(row, ret, err);
	sqlite3_reset(row);
	return r;
}

int store_membership_of_uid(struct store *store, uint32_t uid, const char *team_name,
                            struct membership *ret, struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (begin(store, SQL_MEMBERSHIP_OF_UID, &row, err, value_int(uid), value_text(team_name)) <
	            0 ||
	    first(store, row, "team of this user named", team_name, err) < 0)
		return -1;
	r = take_membership(row, ret, err);
	sqlite3_reset(row);
	return r;
}

int store_membership_list(struct store *store, const char *team_id, const char *cursor,
                          size_t limit, struct membership_page *ret, struct err *err)
{
	auto_free char *after = NULL;
	struct membership_page page = {0};
	sqlite3_stmt *row;
	int r;

	if (cursor_check_limit(limit, &limit, err) < 0 || cursor_read(cursor, &after, err) < 0 ||
	    begin(store, SQL_MEMBERSHIP_LIST, &row, err, value_text(team_id), value_text(after),
	          value_int(limit + 1)) < 0)
		return -1;
	page.items = mem_resize(NULL, limit + 1, sizeof(*page.items));
	while ((r = db_step(&store->reader, row, err)) > 0) {
		if (take_membership(row, &page.items[page.count], err) < 0) {
			sqlite3_reset(row);
			r = -1;
			break;
		}
		page.count++;
	}
	if (page.count > limit) {
		membership_done(&page.items[--page.count]);
		page.next_cursor = cursor_make(page.items[limit - 1].principal.name);
	}
	if (r < 0)
		membership_page_done(&page);
	else
		*ret = page;
	return r;
}

void membership_page_done(struct membership_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		membership_done(&page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct membership_page){0};
}

/* --- credentials --- */

/* Columns in the order of CREDENTIAL_SELECT. */
static int take_credential(sqlite3_stmt *row, struct credential **ret, struct err *err)
{
	auto_(credential_freep) struct credential *credential = mem_new(struct credential);

	credential->id = db_column_id(row, 0);
	if (!hex_read(db_column_view(row, 6), credential->hash, CREDENTIAL_HASH))
		return err_set(err, ERR_IO, "the store has key %s without its hash",
		               credential->id.text);
	credential->name = db_column_text(row, 1);
	credential->principal = db_column_id(row, 2);
	credential->team = db_column_id(row, 3);
	credential->is_operator = db_column_int(row, 4) != 0;
	scopes_load(db_column_view(row, 5), &credential->scopes);
	credential->created_ms = db_column_int(row, 7);
	credential->expires_ms = db_column_int(row, 8);
	credential->revoked_ms = db_column_int(row, 9);
	credential->last_used_ms = db_column_int(row, 10);
	credential->parent = db_column_id(row, 11);
	credential->chain = db_column_text(row, 12);
	credential->run = db_column_id(row, 13);
	unpack_strings(db_column_view(row, 14), &credential->rights);
	credential->budget =
		sqlite3_column_type(row, 15) == SQLITE_NULL ? UINT64_MAX : db_column_int(row, 15);
	credential->spent = db_column_int(row, 16);
	credential->principal_name = db_column_text(row, 17);
	credential->team_name = db_column_text(row, 18);
	credential->has_role = role_from(db_column_view(row, 19), &credential->role);
	*ret = take_ptr(credential);
	return 0;
}

static int get_credential(struct store *store, enum sql sql, const char *what, const char *id,
                          struct credential **ret, struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (begin(store, sql, &row, err, value_text(id)) < 0 ||
	    first(store, row, what, id, err) < 0)
		return -1;
	r = take_credential(row, ret, err);
	sqlite3_reset(row);
	return r;
}

int store_credential_get(struct store *store, const char *id, struct credential **ret,
                         struct err *err)
{
	return get_credential(store, SQL_CREDENTIAL_GET, "key", id, ret, err);
}

int store_credential_of_run(struct store *store, const char *run, struct credential **ret,
                            struct err *err)
{
	return get_credential(store, SQL_CREDENTIAL_OF_RUN, "token of run", run, ret, err);
}

int store_credential_list(struct store *store, const struct credential_filter *filter,
                          struct credential_page *ret, struct err *err)
{
	auto_free char *after = NULL;
	struct credential_page page = {0};
	sqlite3_stmt *row;
	size_t limit;
	int r;

	if (cursor_check_limit(filter->limit, &limit, err) < 0 ||
	    cursor_read(filter->cursor, &after, err) < 0 ||
	    begin(store, SQL_CREDENTIAL_LIST, &row, err, value_text(after),
	          value_text(filter->team ? filter->team : ""),
	          value_text(filter->principal ? filter->principal : ""),
	          value_int(filter->with_revoked), value_int(limit + 1)) < 0)
		return -1;
	page.items = mem_resize(NULL, limit + 1, sizeof(struct credential *));
	while ((r = db_step(&store->reader, row, err)) > 0) {
		if (take_credential(row, &page.items[page.count], err) < 0) {
			sqlite3_reset(row);
			r = -1;
			break;
		}
		page.count++;
	}
	if (page.count > limit) {
		credential_free(page.items[--page.count]);
		page.next_cursor = cursor_make(page.items[limit - 1]->id.text);
	}
	if (r < 0)
		credential_page_done(&page);
	else
		*ret = page;
	return r;
}

void credential_page_done(struct credential_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		credential_free(page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct credential_page){0};
}

int store_live_runs(struct store *store, struct strings *ret, struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_CREDENTIAL_LIVE_RUNS, NULL, 0, &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0)
		strings_add(ret, db_column_view(row, 0));
	return r;
}

int store_budget_left(struct store *store, const char *id, uint64_t now_ms, uint64_t *ret,
                      struct err *err)
{
	sqlite3_stmt *row;
	int64_t left;

	if (begin(store, SQL_TOKEN_LEFT, &row, err, value_text(id), value_int(now_ms)) < 0 ||
	    first(store, row, "key", id, err) < 0)
		return -1;
	left = sqlite3_column_int64(row, 0);
	if (sqlite3_column_type(row, 0) == SQLITE_NULL)
		*ret = UINT64_MAX;
	else
		*ret = left > 0 ? (uint64_t)left : 0;
	sqlite3_reset(row);
	return 0;
}

/* --- trusted keys --- */

int store_trusted_list(struct store *store, const char *team_id, struct trusted_list *ret,
                       struct err *err)
{
	struct trusted_list list = {0};
	sqlite3_stmt *row;
	int r;

	if (begin(store, SQL_TRUSTED_LIST, &row, err, value_text(team_id)) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0) {
		list.items = mem_resize(list.items, list.count + 1, sizeof(*list.items));
		list.items[list.count++] = (struct trusted_key){
			.id = db_column_id(row, 0),
			.name = db_column_text(row, 1),
			.public_key = db_column_text(row, 2),
			.team = db_column_id(row, 3),
			.team_name = db_column_text(row, 4),
			.created_ms = db_column_int(row, 5),
		};
	}
	if (r < 0)
		trusted_list_done(&list);
	else
		*ret = list;
	return r;
}

void trusted_key_done(struct trusted_key *key)
{
	free(key->name);
	free(key->public_key);
	free(key->team_name);
	*key = (struct trusted_key){0};
}

void trusted_list_done(struct trusted_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		trusted_key_done(&list->items[i]);
	free(list->items);
	*list = (struct trusted_list){0};
}
