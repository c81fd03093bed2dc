/* Teams, keys, tokens and the audit in the store: what holds inside a transaction. */
#include <unistd.h>

#include "harness/test.h"

#include <poll.h>
#include <sodium.h>
#include <sqlite3.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/access.h"
#include "model/rights.h"
#include "store/audit.h"
#include "store/identity.h"
#include "store/load.h"

static struct err err;

#define OK(call)                                                                                   \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			test_fail(__FILE__, __LINE__, "%s: %s", #call, err.msg);                   \
	} while (0)

static const char *db_path(void)
{
	static char path[4096];

	(void)snprintf(path, sizeof(path), "%s/cloche.db", test_dir());
	return path;
}

static struct store *open_store(void)
{
	struct store_options options = {.path = db_path()};
	struct store *store = NULL;

	CHECK(sodium_init() >= 0);
	OK(store_open(&options, &store, &err));
	return store;
}

static int wait_for(struct store_write *write)
{
	err = (struct err){0};
	return store_write_wait(write, NULL, &err);
}

static struct id add_team(struct store *store, const char *name)
{
	struct team team = {.id = id_new("tm"), .name = (char *)name, .created_ms = 1};
	struct store_write *write = store_write_new(store);

	store_put_team(write, &team);
	OK(wait_for(write));
	return team.id;
}

static struct id add_principal(struct store *store, const char *name, const struct id *team,
                               enum role role)
{
	struct principal principal = {.id = id_new("pr"), .name = (char *)name};
	struct store_write *write = store_write_new(store);

	store_put_principal(write, &principal);
	store_put_membership(write, team->text, principal.id.text, role, 1);
	OK(wait_for(write));
	return principal.id;
}

/* A key of the operator's; text gets the secret. */
static struct id add_key(struct store *store, const char *name, const struct id *parent,
                         char text[SECRET_TEXT])
{
	struct credential key = {.name = (char *)name, .budget = UINT64_MAX, .created_ms = 1};
	struct store_write *write = store_write_new(store);
	char own[SECRET_TEXT];

	secret_make(&key.id, text ? text : own, key.hash);
	CHECK(str_copy(key.principal.text, sizeof(key.principal.text), ACCESS_OPERATOR));
	CHECK(str_copy(key.team.text, sizeof(key.team.text), ACCESS_TEAM));
	key.scopes.bits = 1 << SCOPE_SANDBOXES_READ;
	if (parent)
		key.parent = *parent;
	store_add_credential(write, &key);
	OK(wait_for(write));
	return key.id;
}

static uint64_t revoked_at(struct store *store, const struct id *id)
{
	auto_(credential_freep) struct credential *key = NULL;

	OK(store_credential_get(store, id->text, &key, &err));
	return key->revoked_ms;
}

/* --- secrets --- */

TEST(a_secret_proves_its_id_and_nothing_else_does)
{
	uint8_t hash[CREDENTIAL_HASH], other[CREDENTIAL_HASH];
	char text[SECRET_TEXT], copy[SECRET_TEXT];
	struct id id, read;

	CHECK(sodium_init() >= 0);
	secret_make(&id, text, hash);
	CHECK(str_has_prefix(text, "sk_live_"));
	CHECK(secret_read(text, &read, other));
	CHECK_STR(read.text, id.text);
	CHECK(secret_is_same(hash, other));
	/* Every character counts, the last one too. */
	for (size_t i = strlen("sk_live_"); i < strlen(text); i++) {
		memcpy(copy, text, sizeof(copy));
		copy[i] = copy[i] == 'a' ? 'b' : 'a';
		if (secret_read(copy, &read, other))
			CHECK(!str_eq(read.text, id.text) || !secret_is_same(hash, other));
	}
	for (size_t len = 0; len < strlen(text); len++) {
		(void)snprintf(copy, sizeof(copy), "%.*s", (int)len, text);
		CHECK(!secret_read(copy, &read, other));
	}
	(void)snprintf(copy, sizeof(copy), "%s0", text);
	CHECK(!secret_read(copy, &read, other));
	CHECK(!secret_read("sk_live_IIIIIIIIIIIIIIIIIIII_", &read, other));
	secret_renew(&id, copy, other);
	CHECK(!secret_is_same(hash, other));
}

/* --- teams and members --- */

TEST(the_default_team_and_its_operator_are_there)
{
	struct store *store = open_store();
	struct membership membership = {0};
	struct team team = {0};

	OK(store_team_get(store, "default", &team, &err));
	CHECK_STR(team.id.text, ACCESS_TEAM);
	OK(store_membership_get(store, ACCESS_TEAM, ACCESS_OPERATOR, &membership, &err));
	CHECK_STR(membership.principal.name, "operator");
	CHECK_INT(membership.role, ROLE_ADMIN);
	membership_done(&membership);
	team_done(&team);
	store_close(store);
}

TEST(names_and_uids_belong_to_one)
{
	struct store *store = open_store();
	struct id team = add_team(store, "ops");
	struct principal alice = {
		.id = id_new("pr"), .name = (char *)"alice", .has_uid = true, .uid = 1000};
	struct principal bob = {
		.id = id_new("pr"), .name = (char *)"bob", .has_uid = true, .uid = 1000};
	struct team again = {.id = id_new("tm"), .name = (char *)"ops"};
	struct membership found = {0};
	struct store_write *write = store_write_new(store);

	store_put_principal(write, &alice);
	store_put_membership(write, team.text, alice.id.text, ROLE_VIEWER, 1);
	OK(wait_for(write));
	write = store_write_new(store);
	store_put_principal(write, &bob);
	CHECK(wait_for(write) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	write = store_write_new(store);
	store_put_team(write, &again);
	CHECK(wait_for(write) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	OK(store_membership_of_uid(store, 1000, "", &found, &err));
	CHECK_STR(found.principal.name, "alice");
	CHECK_STR(found.team_name, "ops");
	CHECK_INT(found.role, ROLE_VIEWER);
	membership_done(&found);
	CHECK(store_membership_of_uid(store, 1000, "default", &found, &err) < 0);
	CHECK(store_membership_of_uid(store, 1001, "", &found, &err) < 0);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	store_close(store);
}

TEST(who_leaves_a_team_leaves_the_keys)
{
	struct store *store = open_store();
	struct id team = add_team(store, "ops");
	struct id alice = add_principal(store, "alice", &team, ROLE_MEMBER);
	struct credential key = {.name = (char *)"a", .principal = alice, .team = team};
	struct store_write *write = store_write_new(store);
	struct id child;
	char text[SECRET_TEXT];

	secret_make(&key.id, text, key.hash);
	store_add_credential(write, &key);
	OK(wait_for(write));
	child = add_key(store, "child", &key.id, NULL);
	write = store_write_new(store);
	store_delete_membership(write, team.text, alice.text, 99);
	OK(wait_for(write));
	CHECK_INT(revoked_at(store, &key.id), 99);
	CHECK_INT(revoked_at(store, &child), 99);
	write = store_write_new(store);
	store_delete_membership(write, team.text, alice.text, 100);
	CHECK(wait_for(write) < 0);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	store_close(store);
}

/* --- keys --- */

TEST(a_key_comes_back_as_it_was)
{
	struct store *store = open_store();
	char text[SECRET_TEXT];
	struct id id = add_key(store, "ci", NULL, text), read;
	auto_(credential_freep) struct credential *key = NULL;
	uint8_t hash[CREDENTIAL_HASH];

	OK(store_credential_get(store, id.text, &key, &err));
	CHECK(secret_read(text, &read, hash) && secret_is_same(hash, key->hash));
	CHECK_STR(key->name, "ci");
	CHECK_STR(key->principal_name, "operator");
	CHECK_STR(key->team_name, "default");
	CHECK(key->has_role && key->role == ROLE_ADMIN);
	CHECK_INT(key->scopes.bits, 1 << SCOPE_SANDBOXES_READ);
	CHECK_INT(key->budget, UINT64_MAX);
	CHECK(credential_is_live(key, 5));
	store_close(store);
}

TEST(revoking_reaches_all_below_and_nobody_else)
{
	struct store *store = open_store();
	struct id root = add_key(store, "root", NULL, NULL);
	struct id one = add_key(store, "one", &root, NULL);
	struct id two = add_key(store, "two", &one, NULL);
	struct id other = add_key(store, "other", NULL, NULL);
	struct store_write *write = store_write_new(store);

	store_revoke_credential(write, one.text, 50);
	OK(wait_for(write));
	CHECK_INT(revoked_at(store, &root), 0);
	CHECK_INT(revoked_at(store, &one), 50);
	CHECK_INT(revoked_at(store, &two), 50);
	CHECK_INT(revoked_at(store, &other), 0);
	write = store_write_new(store);
	store_revoke_credential(write, root.text, 60);
	OK(wait_for(write));
	CHECK_INT(revoked_at(store, &root), 60);
	CHECK_INT(revoked_at(store, &two), 50);
	write = store_write_new(store);
	store_rotate_credential(write, root.text, (const uint8_t[CREDENTIAL_HASH]){0}, 0);
	CHECK(wait_for(write) < 0);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	store_close(store);
}

TEST(keys_are_listed_by_team_and_principal)
{
	struct store *store = open_store();
	struct credential_filter filter = {.team = ACCESS_TEAM, .limit = 2};
	struct credential_page page = {0};
	struct store_write *write;
	struct id last;

	for (int i = 0; i < 3; i++) {
		last = add_key(store, "key", NULL, NULL);
		usleep(2000); /* ids are in order of their milliseconds */
	}
	OK(store_credential_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 2);
	filter.cursor = page.next_cursor;
	CHECK(filter.cursor != NULL);
	struct credential_page rest = {0};

	OK(store_credential_list(store, &filter, &rest, &err));
	CHECK_INT(rest.count, 1);
	CHECK_STR(rest.items[0]->id.text, last.text);
	credential_page_done(&rest);
	credential_page_done(&page);
	filter = (struct credential_filter){.principal = "pr_01jd3q8k2v9m4x7c5t0z"};
	OK(store_credential_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 0);
	credential_page_done(&page);
	write = store_write_new(store);
	store_revoke_credential(write, last.text, 9);
	OK(wait_for(write));
	filter = (struct credential_filter){0};
	OK(store_credential_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 2);
	credential_page_done(&page);
	filter.with_revoked = true;
	OK(store_credential_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 3);
	credential_page_done(&page);
	store_close(store);
}

TEST(the_last_use_never_goes_back)
{
	struct store *store = open_store();
	struct id id = add_key(store, "key", NULL, NULL);
	auto_(credential_freep) struct credential *key = NULL;
	struct store_write *write = store_write_new(store);

	store_touch_credential(write, id.text, 500);
	store_touch_credential(write, id.text, 400);
	OK(wait_for(write));
	OK(store_credential_get(store, id.text, &key, &err));
	CHECK_INT(key->last_used_ms, 500);
	store_close(store);
}

/* --- tokens of runs --- */

static struct id next_token;

/* Adds a token below parent at time 1000; the message of a refusal, "" when it was taken. */
static const char *add_token(struct store *store, const struct id *parent, uint64_t budget,
                             unsigned children)
{
	struct credential token = {.budget = budget, .expires_ms = 100000, .run = id_new("rn")};
	auto_free char *name = mem_printf("task:%s", token.run.text);
	struct store_write *write = store_write_new(store);
	char text[SECRET_TEXT];

	secret_make(&token.id, text, token.hash);
	token.name = name;
	CHECK(str_copy(token.principal.text, sizeof(token.principal.text), ACCESS_OPERATOR));
	CHECK(str_copy(token.team.text, sizeof(token.team.text), ACCESS_TEAM));
	if (parent)
		token.parent = *parent;
	store_add_token(write, &token, children, 1000);
	next_token = token.id;
	if (wait_for(write) == 0)
		return "";
	CHECK_INT(err.code, ERR_FORBIDDEN);
	return err.msg;
}

static uint64_t left(struct store *store, const struct id *id)
{
	uint64_t amount;

	OK(store_budget_left(store, id->text, 1000, &amount, &err));
	return amount;
}

TEST(a_budget_is_handed_down_once)
{
	struct store *store = open_store();
	struct id root = add_key(store, "root", NULL, NULL), parent, child;
	struct store_write *write;

	CHECK_INT(left(store, &root), UINT64_MAX);
	CHECK_STR(add_token(store, &root, 1000, 32), "");
	parent = next_token;
	CHECK_STR(add_token(store, &parent, 600, 32), "");
	child = next_token;
	CHECK_INT(left(store, &parent), 400);
	CHECK_HAS(add_token(store, &parent, 401, 32), "budget");
	CHECK_STR(add_token(store, &parent, 400, 32), "");
	CHECK_INT(left(store, &parent), 0);
	/* Spent below is spent above; what an ended child did not spend comes back. */
	write = store_write_new(store);
	store_spend(write, child.text, 100);
	OK(wait_for(write));
	CHECK_INT(left(store, &child), 500);
	CHECK_INT(left(store, &parent), 0);
	write = store_write_new(store);
	store_revoke_credential(write, child.text, 1000);
	OK(wait_for(write));
	CHECK_INT(left(store, &parent), 500);
	write = store_write_new(store);
	store_spend(write, parent.text, 700);
	OK(wait_for(write));
	CHECK_INT(left(store, &parent), 0);
	store_close(store);
}

TEST(children_are_counted_and_a_dead_parent_has_none)
{
	struct store *store = open_store();
	struct id parent;
	struct strings runs = {0};
	struct store_write *write;

	CHECK_STR(add_token(store, NULL, UINT64_MAX, 2), "");
	parent = next_token;
	CHECK_STR(add_token(store, &parent, UINT64_MAX, 2), "");
	CHECK_STR(add_token(store, &parent, UINT64_MAX, 2), "");
	CHECK_HAS(add_token(store, &parent, UINT64_MAX, 2), "children");
	OK(store_live_runs(store, &runs, &err));
	CHECK_INT(runs.count, 3);
	strings_done(&runs);
	write = store_write_new(store);
	store_revoke_credential(write, parent.text, 1000);
	OK(wait_for(write));
	CHECK_HAS(add_token(store, &parent, UINT64_MAX, 2), "time");
	OK(store_live_runs(store, &runs, &err));
	CHECK_INT(runs.count, 0);
	store_close(store);
}

/* Many at once at a budget for ten: exactly ten are admitted, in one commit or in many. */
TEST(no_race_gets_more_than_the_budget)
{
	struct store *store = open_store();
	struct id parent;
	struct store_write *last = NULL;
	size_t admitted = 0;

	CHECK_STR(add_token(store, NULL, 100, 1000), "");
	parent = next_token;
	for (int i = 0; i < 200; i++) {
		struct credential token = {.budget = 10, .expires_ms = 100000, .run = id_new("rn")};
		struct store_write *write = store_write_new(store);
		char text[SECRET_TEXT];

		secret_make(&token.id, text, token.hash);
		token.name = (char *)"task:x";
		CHECK(str_copy(token.principal.text, sizeof(token.principal.text),
		               ACCESS_OPERATOR));
		CHECK(str_copy(token.team.text, sizeof(token.team.text), ACCESS_TEAM));
		token.parent = parent;
		store_add_token(write, &token, 1000, 1000);
		store_write_submit(write, NULL, NULL);
	}
	last = store_write_new(store);
	store_put_meta(last, "done", "1");
	OK(wait_for(last));
	struct strings runs = {0};

	OK(store_live_runs(store, &runs, &err));
	admitted = runs.count - 1;
	strings_done(&runs);
	CHECK_INT(admitted, 10);
	CHECK_INT(left(store, &parent), 0);
	store_close(store);
}

/* --- the audit --- */

static void note(struct store *store, const char *action, const char *object)
{
	struct audit_row row = {
		.time_ms = 7,
		.actor_name = (char *)"operator",
		.source = (char *)"uid 0",
		.action = (char *)action,
		.object = (char *)object,
		.rule = (char *)"sandboxes:write",
	};

	store_audit(store, &row);
}

static void flush(struct store *store)
{
	struct store_write *write = store_write_new(store);

	store_put_meta(write, "any", "write");
	OK(wait_for(write));
}

static struct audit_check verify(struct store *store)
{
	struct audit_check check = {0};

	while (!check.is_over)
		OK(store_audit_verify(store, &check, 3, &err));
	return check;
}

/* Ten rows, then one change behind the program's back. */
static struct audit_check after(const char *sql)
{
	struct store *store = open_store();
	struct audit_check check;
	sqlite3 *db;

	for (int i = 0; i < 10; i++)
		note(store, "sandbox_create", i % 2 ? "sb_a" : "sb_b");
	store_close(store);
	CHECK_INT(sqlite3_open(db_path(), &db), SQLITE_OK);
	CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	CHECK_INT(sqlite3_close(db), SQLITE_OK);
	store = open_store();
	check = verify(store);
	store_close(store);
	return check;
}

TEST(rows_wait_for_the_next_write_and_keep_their_order)
{
	struct store *store = open_store();
	struct audit_filter filter = {0};
	struct audit_page page = {0};
	struct store_stats stats;

	note(store, "one", "sb_a");
	note(store, "two", NULL);
	CHECK(store_audit_waits(store));
	flush(store);
	CHECK(!store_audit_waits(store));
	store_get_stats(store, &stats);
	/* One, unless this process stood still for longer than rows wait. */
	CHECK(stats.commits == 1 || stats.commits == 2);
	OK(store_audit_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 2);
	CHECK_STR(page.items[0].action, "one");
	CHECK_STR(page.items[0].object, "sb_a");
	CHECK_INT(page.items[0].seq, 1);
	CHECK_INT(page.items[0].count, 1);
	CHECK_STR(page.items[1].action, "two");
	CHECK(page.items[1].object == NULL);
	audit_page_done(&page);
	CHECK_INT(verify(store).bad_seq, 0);
	store_close(store);
}

TEST(a_row_with_a_ticket_waits_for_its_object)
{
	struct store *store = open_store();
	struct audit_row row = {
		.action = (char *)"run", .source = (char *)"uid 0", .rule = (char *)"x"};
	struct audit_page page = {0};
	struct audit_filter filter = {0};
	struct sandbox *sandbox;
	struct spec spec;
	struct store_write *write;

	spec_init(&spec);
	spec.audit = store_audit_open(store, &row);
	flush(store);
	CHECK(store_audit_waits(store));
	sandbox = sandbox_new(&spec, 1);
	write = store_write_new(store);
	store_put_sandbox(write, sandbox);
	OK(wait_for(write));
	CHECK(!store_audit_waits(store));
	OK(store_audit_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 1);
	CHECK_STR(page.items[0].object, sandbox->id.text);
	audit_page_done(&page);
	/* One that never got an object is not kept back for ever. */
	store_audit_open(store, &row);
	store_audit_flush(store, io_boot_ms(), 60000);
	CHECK(store_audit_waits(store));
	store_audit_flush(store, io_boot_ms(), 0);
	CHECK(!store_audit_waits(store));
	spec_done(&spec);
	sandbox_free(sandbox);
	store_close(store);
}

TEST(a_refused_change_is_on_record)
{
	struct store *store = open_store();
	struct team team = {.id = id_new("tm"), .name = (char *)"default"};
	struct store_write *write = store_write_new(store);
	struct audit_page page = {0};
	struct audit_filter filter = {0};

	note(store, "team_create", "default");
	store_put_team(write, &team);
	CHECK(wait_for(write) < 0);
	OK(store_audit_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 1);
	audit_page_done(&page);
	store_close(store);
}

TEST(the_record_survives_a_restart_and_goes_on)
{
	struct store *store = open_store();

	note(store, "one", NULL);
	store_close(store);
	store = open_store();
	note(store, "two", NULL);
	store_close(store);
	store = open_store();
	CHECK_INT(verify(store).seq, 2);
	CHECK_INT(verify(store).bad_seq, 0);
	store_close(store);
}

TEST(an_untouched_record_is_good)
{
	CHECK_INT(after("SELECT 1").bad_seq, 0);
}

TEST(an_edited_row_is_found)
{
	CHECK_INT(after("UPDATE audit SET actor_name = 'mallory' WHERE seq = 4").bad_seq, 4);
}

TEST(an_edited_verdict_is_found)
{
	CHECK_INT(after("UPDATE audit SET verdict = 'deny' WHERE seq = 9").bad_seq, 9);
}

TEST(a_text_moved_to_the_next_column_is_found)
{
	CHECK_INT(after("UPDATE audit SET action = 'sandbox', object = '_createsb_a' WHERE seq = 2")
	                  .bad_seq,
	          2);
}

TEST(a_removed_row_is_found)
{
	CHECK_INT(after("DELETE FROM audit WHERE seq = 5").bad_seq, 5);
}

TEST(a_removed_row_with_closed_numbers_is_found)
{
	CHECK_INT(after("DELETE FROM audit WHERE seq = 5; UPDATE audit SET seq = seq - 1 WHERE "
	                "seq > 5; UPDATE audit_head SET seq = 9")
	                  .bad_seq,
	          5);
}

TEST(rows_taken_from_the_end_are_found)
{
	CHECK_INT(after("DELETE FROM audit WHERE seq > 8").bad_seq, 9);
}

TEST(reordered_rows_are_found)
{
	CHECK_INT(after("UPDATE audit SET seq = 100 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE "
	                "seq = 4; UPDATE audit SET seq = 4 WHERE seq = 100")
	                  .bad_seq,
	          3);
}

TEST(an_added_row_is_found)
{
	CHECK_INT(after("INSERT INTO audit SELECT 11, time_ms, actor_id, actor_name, team_id, "
	                "credential_id, chain, source, action, object, verdict, rule, count, hash "
	                "FROM audit WHERE seq = 10; UPDATE audit_head SET seq = 11")
	                  .bad_seq,
	          11);
}

TEST(an_emptied_record_is_found)
{
	CHECK_INT(after("DELETE FROM audit").bad_seq, 1);
}

/* Whoever has the database but not the key cannot make a chain that holds. */
TEST(another_key_makes_another_chain)
{
	uint8_t key[AUDIT_HASH] = {1}, before[AUDIT_HASH] = {0}, one[AUDIT_HASH], two[AUDIT_HASH];
	struct audit_row row = {.seq = 1, .action = (char *)"a"};

	audit_hash(before, before, &row, one);
	audit_hash(key, before, &row, two);
	CHECK(memcmp(one, two, AUDIT_HASH) != 0);
}

/* --- who sees which sandbox and event --- */

static struct id put_sandbox(struct store *store, const char *name, const struct id *owner,
                             const struct id *team, enum visibility visibility)
{
	struct event event = {.kind = EVENT_SANDBOX_CREATED};
	struct store_write *write = store_write_new(store);
	struct sandbox *sandbox;
	struct spec spec;
	struct id id;

	spec_init(&spec);
	spec_set(&spec.name, name);
	spec_set(&spec.owner, owner->text);
	spec_set(&spec.team, team->text);
	spec.visibility = visibility;
	sandbox = sandbox_new(&spec, 1);
	event.sandbox = id = sandbox->id;
	store_put_sandbox(write, sandbox);
	store_put_event(write, &event);
	OK(wait_for(write));
	spec_done(&spec);
	sandbox_free(sandbox);
	return id;
}

static size_t seen(struct store *store, const struct caller *viewer)
{
	struct sandbox_filter sandboxes = {.viewer = viewer};
	struct event_filter events = {.viewer = viewer};
	struct sandbox_page page = {0};
	struct event_page happened = {0};
	size_t count;

	OK(store_sandbox_list(store, &sandboxes, &page, &err));
	OK(store_event_list(store, &events, &happened, &err));
	CHECK_INT(page.count, happened.count);
	count = page.count;
	sandbox_page_done(&page);
	event_page_done(&happened);
	return count;
}

TEST(lists_show_what_access_allows)
{
	struct store *store = open_store();
	struct id ops = add_team(store, "ops"), dev = add_team(store, "dev");
	struct id alice = add_principal(store, "alice", &ops, ROLE_MEMBER);
	struct id bob = add_principal(store, "bob", &ops, ROLE_MEMBER);
	struct id carol = add_principal(store, "carol", &dev, ROLE_ADMIN);
	struct caller viewer = {.team = ops, .principal = alice, .role = ROLE_MEMBER};

	put_sandbox(store, "one", &alice, &ops, VISIBILITY_PRIVATE);
	put_sandbox(store, "two", &bob, &ops, VISIBILITY_PRIVATE);
	put_sandbox(store, "three", &bob, &ops, VISIBILITY_TEAM);
	put_sandbox(store, "four", &carol, &dev, VISIBILITY_TEAM);
	put_sandbox(store, "five", &carol, &dev, VISIBILITY_GLOBAL);
	CHECK_INT(seen(store, &viewer), 3);
	viewer.role = ROLE_ADMIN;
	CHECK_INT(seen(store, &viewer), 4);
	viewer.team = dev;
	CHECK_INT(seen(store, &viewer), 2);
	viewer.is_operator = true;
	CHECK_INT(seen(store, &viewer), 5);
	CHECK_INT(seen(store, NULL), 5);
	store_close(store);
}

TEST(names_are_of_a_team)
{
	struct store *store = open_store();
	struct id ops = add_team(store, "ops"), dev = add_team(store, "dev");
	struct id alice = add_principal(store, "alice", &ops, ROLE_MEMBER);
	struct id one = put_sandbox(store, "build", &alice, &ops, VISIBILITY_TEAM);
	struct id two = put_sandbox(store, "build", &alice, &dev, VISIBILITY_TEAM);
	struct sandbox *sandbox = NULL;

	OK(store_sandbox_find(store, ops.text, "build", &sandbox, &err));
	CHECK_STR(sandbox->id.text, one.text);
	CHECK_STR(sandbox->spec.name, "build");
	sandbox_free(sandbox);
	OK(store_sandbox_find(store, dev.text, "build", &sandbox, &err));
	CHECK_STR(sandbox->id.text, two.text);
	sandbox_free(sandbox);
	CHECK(store_sandbox_get(store, "build", &sandbox, &err) < 0);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	/* Not even with the column's own text. */
	auto_free char *column = mem_printf("%s/build", ops.text);

	CHECK(store_sandbox_get(store, column, &sandbox, &err) < 0);
	OK(store_sandbox_find(store, dev.text, one.text, &sandbox, &err));
	sandbox_free(sandbox);
	store_close(store);
}

TEST(events_of_a_removed_sandbox_stay_with_its_team)
{
	struct store *store = open_store();
	struct id ops = add_team(store, "ops"), dev = add_team(store, "dev");
	struct id alice = add_principal(store, "alice", &ops, ROLE_MEMBER);
	struct id id = put_sandbox(store, NULL, &alice, &ops, VISIBILITY_TEAM);
	struct event event = {.kind = EVENT_SANDBOX_REMOVED, .sandbox = id};
	struct caller viewer = {.team = ops, .principal = alice, .role = ROLE_VIEWER};
	struct event_filter filter = {.viewer = &viewer, .sandbox = id.text};
	struct event_page page = {0};
	struct store_write *write = store_write_new(store);

	store_delete_sandbox(write, id.text);
	store_put_event(write, &event);
	OK(wait_for(write));
	OK(store_event_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 2);
	CHECK_STR(page.items[1].team.text, ops.text);
	event_page_done(&page);
	viewer.team = dev;
	OK(store_event_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 0);
	event_page_done(&page);
	store_close(store);
}
