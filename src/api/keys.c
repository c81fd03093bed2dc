/* API keys: made (shown once), listed, rotated, revoked. */
#include <sodium.h>

#include "api/authz.h"
#include "api/call.h"
#include "api/decode.h"
#include "api/encode.h"
#include "api/identify.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "model/config.h"
#include "store/identity.h"

enum { CHAIN_MOST = 16 };

static json_t *encode_words(const char *text)
{
	json_t *list = json_array();

	while (text && *text) {
		size_t len = strcspn(text, " ");

		json_array_append_new(list, json_stringn(text, len));
		text += len;
		text += strspn(text, " ");
	}
	return list;
}

static json_t *encode_key(const struct credential *key)
{
	auto_free char *scopes = scopes_format(&key->scopes);
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(key->id.text));
	json_object_set_new(object, "name", encode_text(key->name));
	json_object_set_new(object, "principal", encode_text(key->principal_name));
	json_object_set_new(object, "team", encode_text(key->team_name));
	json_object_set_new(object, "role",
	                    key->has_role ? json_string(role_name(key->role)) : json_null());
	json_object_set_new(object, "operator", json_boolean(key->is_operator));
	json_object_set_new(object, "scopes", encode_words(scopes));
	json_object_set_new(object, "chain", encode_words(key->chain));
	json_object_set_new(object, "createdAt", encode_time(key->created_ms));
	json_object_set_new(object, "expiresAt", encode_time(key->expires_ms));
	json_object_set_new(object, "revokedAt", encode_time(key->revoked_ms));
	json_object_set_new(object, "lastUsedAt", encode_time(key->last_used_ms));
	return object;
}

/* --- finding --- */

static bool is_admin(const struct caller *caller)
{
	return caller->is_operator || caller->role == ROLE_ADMIN;
}

/* One's own; as an admin the team's; as an operator all. */
static bool may_see(const struct caller *caller, const struct credential *key)
{
	if (caller->is_operator)
		return true;
	return str_eq(key->team.text, caller->team.text) && !key->is_operator &&
	       (caller->role == ROLE_ADMIN || str_eq(key->principal.text, caller->principal.text));
}

/* Of the path; on failure the call was ended. */
static int find_key(struct call *call, struct credential **ret)
{
	auto_(credential_freep) struct credential *key = NULL;
	struct err err = {0};
	char shown[80];
	int r = store_credential_get(call->api->store, call->params[0], &key, &err);

	if (r < 0 && err.code != ERR_NOT_FOUND) {
		call_fail(call, &err);
		return -1;
	}
	if (r < 0 || key->run.text[0] || !may_see(call->caller, key)) {
		str_escape(shown, sizeof(shown), call->params[0], strlen(call->params[0]));
		(void)err_set(&err, ERR_NOT_FOUND, "no key '%s'", shown); /* always -1 */
		call_fail(call, &err);
		return -1;
	}
	*ret = take_ptr(key);
	return 0;
}

void handle_key_info(struct call *call)
{
	auto_(credential_freep) struct credential *key = NULL;

	if (find_key(call, &key) == 0)
		call_answer(call, 200, encode_key(key));
}

static int list(struct call *call, struct credential_page *page, struct err *err)
{
	const struct caller *caller = call->caller;
	const char *team = call_query(call, "team", NULL);
	struct credential_filter filter = {
		.team = caller->is_operator ? NULL : caller->team.text,
		.principal = is_admin(caller) ? NULL : caller->principal.text,
		.with_revoked = call_query_bool(call, "revoked"),
		.cursor = call_query(call, "cursor", NULL),
		.limit = MIN(call_query_u64(call, "limit", 0), (uint64_t)LIMIT_PAGE),
	};
	struct team found = {0};
	int r;

	if (team && !caller->is_operator && !str_eq(team, caller->team_name) &&
	    !str_eq(team, caller->team.text))
		return err_set(err, ERR_NOT_FOUND, "no team '%.63s'", team);
	if (team && caller->is_operator) {
		if (store_team_get(call->api->store, team, &found, err) < 0)
			return -1;
		filter.team = found.id.text;
	}
	r = store_credential_list(call->api->store, &filter, page, err);
	team_done(&found);
	return r;
}

void handle_key_list(struct call *call)
{
	struct credential_page page = {0};
	struct err err = {0};
	json_t *items;

	if (list(call, &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++) {
		if (may_see(call->caller, page.items[i]))
			json_array_append_new(items, encode_key(page.items[i]));
	}
	call_answer(call, 200, encode_page(items, page.next_cursor));
	credential_page_done(&page);
}

/* --- making --- */

struct making {
	struct call *call;
	struct credential *key;
	char secret[SECRET_TEXT];
};

static void making_free(struct making *making)
{
	credential_free(making->key);
	sodium_memzero(making->secret, sizeof(making->secret));
	mem_freep(&making);
}

/* The only time the secret is told. */
static void on_made(const struct store_result *result, void *ctx)
{
	struct making *making = ctx;
	struct call *call = making->call;
	json_t *object;

	if (!result->ok) {
		making_free(making);
		call_fail(call, &result->err);
		return;
	}
	object = encode_key(making->key);
	json_object_set_new(object, "secret", json_string(making->secret));
	making_free(making);
	call_answer(call, call->route->status, object);
}

static const char *text_of(const json_t *body, const char *name)
{
	return json_string_value(json_object_get(body, name));
}

/* The team it is for: the caller's, or as an operator another one. */
static int choose_team(struct call *call, struct team *ret, struct err *err)
{
	const char *name = text_of(call->body, "team");
	const struct caller *caller = call->caller;

	if (name && !caller->is_operator && !str_eq(name, caller->team_name) &&
	    !str_eq(name, caller->team.text))
		return err_set(err, ERR_NOT_FOUND, "no team '%.63s'", name);
	return store_team_get(call->api->store, name ? name : caller->team.text, ret, err);
}

/* Who it is for: oneself, or as an admin another member. */
static int choose_principal(struct call *call, const struct team *team, struct membership *ret,
                            struct err *err)
{
	const char *name = text_of(call->body, "principal");
	const struct caller *caller = call->caller;
	struct principal principal = {0};
	int r;

	if (name && !is_admin(caller) && !str_eq(name, caller->name))
		return err_set(err, ERR_FORBIDDEN, "only an admin makes keys for others");
	if (store_principal_get(call->api->store, name ? name : caller->principal.text, &principal,
	                        err) < 0)
		return -1;
	r = store_membership_get(call->api->store, team->id.text, principal.id.text, ret, err);
	if (r < 0 && err->code == ERR_NOT_FOUND)
		(void)err_set(err, ERR_NOT_FOUND, "'%s' is no member of team '%s'", principal.name,
		              team->name); /* always -1 */
	principal_done(&principal);
	return r;
}

/* Asked for, or the team's default, or all of the caller's; never more than the caller's. */
static int choose_scopes(struct call *call, const struct team *team, struct scopes *ret,
                         struct err *err)
{
	const struct strings *objects = &call->api->config->scope_objects;
	const json_t *asked = json_object_get(call->body, "scopes");
	struct strings words = {0};
	int r = 0;

	if (asked)
		decode_words(asked, &words);
	else if (team->default_scopes)
		strings_split(&words, team->default_scopes);
	if (asked || team->default_scopes)
		r = scopes_parse(&words, objects, ret, err);
	else
		scopes_copy(ret, &call->caller->scopes);
	strings_done(&words);
	if (r < 0)
		return -1;
	auto_free char *wanted = scopes_format(ret);

	scopes_intersect(ret, &call->caller->scopes);
	if (!scopes_is_empty(ret))
		return 0;
	return err_set(err, ERR_FORBIDDEN,
	               "none of the scopes asked for (%.120s) is your own: a key never has more",
	               wanted);
}

static int choose_end(const struct call *call, uint64_t now_ms, uint64_t *ret, struct err *err)
{
	const json_t *asked = json_object_get(call->body, "expiresIn");
	uint64_t most = call->caller->expires_ms, in_ms = 0;

	*ret = most;
	if (!asked || json_is_null(asked))
		return 0;
	if (schema_ms(asked, "expiresIn", &in_ms, err) < 0)
		return -1;
	if (in_ms < 1000 || in_ms > 10ULL * 365 * 24 * 3600 * 1000)
		return err_set(err, ERR_INVALID, "'expiresIn' is between 1s and 3650d");
	if (most && now_ms + in_ms > most)
		return err_set(err, ERR_FORBIDDEN,
		               "'expiresIn': your own key ends before, and no key outlives the one "
		               "it was made with");
	*ret = now_ms + in_ms;
	return 0;
}

static int choose_chain(const struct caller *caller, struct credential *key, struct err *err)
{
	size_t count = 1;

	if (!caller->credential.text[0])
		return 0;
	key->parent = caller->credential;
	key->chain = caller->chain ? mem_printf("%s %s", caller->chain, caller->credential.text)
	                           : mem_strdup(caller->credential.text);
	for (const char *at = key->chain; (at = strchr(at, ' ')); at++)
		count++;
	return count <= CHAIN_MOST ? 0
	                           : err_set(err, ERR_FORBIDDEN,
	                                     "keys made with keys made with keys … end here");
}

static int fill_key(struct call *call, struct credential *key, struct err *err)
{
	struct membership member = {0};
	struct team team = {0};
	const char *name = text_of(call->body, "name");
	bool for_operator = json_is_true(json_object_get(call->body, "operator"));
	int r = -1;

	key->created_ms = io_real_ms();
	key->budget = UINT64_MAX;
	key->is_operator = for_operator;
	key->name = mem_strdup(name);
	if (for_operator && !call->caller->is_operator)
		return err_set(err, ERR_FORBIDDEN, "only an operator makes an operator's key");
	if (identity_check_label(name, err) == 0 && choose_team(call, &team, err) == 0 &&
	    choose_principal(call, &team, &member, err) == 0 &&
	    choose_scopes(call, &team, &key->scopes, err) == 0 &&
	    choose_end(call, key->created_ms, &key->expires_ms, err) == 0)
		r = choose_chain(call->caller, key, err);
	if (r == 0) {
		key->team = team.id;
		key->team_name = mem_strdup(team.name);
		key->principal = member.principal.id;
		key->principal_name = mem_strdup(member.principal.name);
		key->has_role = true;
		key->role = member.role;
	}
	membership_done(&member);
	team_done(&team);
	return r;
}

void handle_key_create(struct call *call)
{
	struct making *making = mem_new(struct making);
	struct store_write *write;
	struct err err = {0};

	making->call = call;
	making->key = mem_new(struct credential);
	if (fill_key(call, making->key, &err) < 0) {
		making_free(making);
		call_fail(call, &err);
		return;
	}
	secret_make(&making->key->id, making->secret, making->key->hash);
	authz_made(call, making->key->id.text);
	write = store_write_new(call->api->store);
	store_add_credential(write, making->key);
	store_write_submit(write, on_made, making);
}

/* --- changing --- */

static void on_rotated(const struct store_result *result, void *ctx)
{
	struct making *making = ctx;

	if (result->ok)
		identify_recheck(making->call->api, making->call->request, making->key->id.text);
	on_made(result, making);
}

void handle_key_rotate(struct call *call)
{
	struct credential *key = NULL;
	struct making *making;
	struct store_write *write;
	struct err err = {0};

	if (find_key(call, &key) < 0)
		return;
	if (!credential_is_live(key, io_real_ms())) {
		(void)err_set(&err, ERR_CONFLICT, "the key is revoked or expired"); /* always -1 */
		credential_free(key);
		call_fail(call, &err);
		return;
	}
	making = mem_new(struct making);
	making->call = call;
	making->key = key;
	secret_renew(&key->id, making->secret, key->hash);
	write = store_write_new(call->api->store);
	store_rotate_credential(write, key->id.text, key->hash, key->expires_ms);
	store_write_submit(write, on_rotated, making);
}

static void on_revoked(const struct store_result *result, void *ctx)
{
	struct call *call = ctx;

	if (result->ok) {
		identify_recheck(call->api, call->request, NULL);
		call_answer_empty(call);
	} else {
		call_fail(call, &result->err);
	}
}

/* With all keys that were made with it. Twice is as good as once. */
void handle_key_revoke(struct call *call)
{
	auto_(credential_freep) struct credential *key = NULL;
	struct store_write *write;

	if (find_key(call, &key) < 0)
		return;
	write = store_write_new(call->api->store);
	store_revoke_credential(write, key->id.text, io_real_ms());
	store_write_submit(write, on_revoked, call);
}
