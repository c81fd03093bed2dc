/* Teams and who is what in them. */
#include "api/authz.h"
#include "api/call.h"
#include "api/decode.h"
#include "api/encode.h"
#include "api/identify.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "hook/hooks.h"
#include "model/backend.h"
#include "model/config.h"
#include "store/identity.h"

static json_t *encode_team(const struct team *team)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "id", team->id.text, "name", team->name,
	                 "defaultScopes", encode_text(team->default_scopes), "trustFloor",
	                 encode_text(team->trust_floor), "createdAt",
	                 encode_time(team->created_ms));
}

static json_t *encode_member(const struct membership *member)
{
	const struct principal *principal = &member->principal;

	return json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:o}", "id", principal->id.text, "name",
	                 principal->name, "kind", principal_kind_name(principal->kind), "uid",
	                 principal->has_uid ? json_integer(principal->uid) : json_null(), "team",
	                 member->team_name, "role", role_name(member->role), "addedAt",
	                 encode_time(member->created_ms));
}

/* The team of the path, if it is the caller's; on failure the call was ended. */
static int find_team(struct call *call, struct team *ret)
{
	const struct caller *caller = call->caller;
	struct err err = {0};
	char shown[80];
	int r = store_team_get(call->api->store, call->params[0], ret, &err);

	if (r == 0 && (caller->is_operator || str_eq(ret->id.text, caller->team.text)))
		return 0;
	if (r == 0 || err.code == ERR_NOT_FOUND) {
		team_done(ret);
		str_escape(shown, sizeof(shown), call->params[0], strlen(call->params[0]));
		(void)err_set(&err, ERR_NOT_FOUND, "no team '%s'", shown); /* always -1 */
	}
	call_fail(call, &err);
	return -1;
}

void handle_team_info(struct call *call)
{
	struct team team = {0};

	if (find_team(call, &team) < 0)
		return;
	call_answer(call, 200, encode_team(&team));
	team_done(&team);
}

void handle_team_list(struct call *call)
{
	struct team_page page = {0};
	struct err err = {0};
	json_t *items;

	if (store_team_list(call->api->store, call_query(call, "cursor", NULL),
	                    MIN(call_query_u64(call, "limit", 0), (uint64_t)LIMIT_PAGE), &page,
	                    &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++) {
		if (call->caller->is_operator ||
		    str_eq(page.items[i].id.text, call->caller->team.text))
			json_array_append_new(items, encode_team(&page.items[i]));
	}
	call_answer(call, 200,
	            encode_page(items, call->caller->is_operator ? page.next_cursor : NULL));
	team_page_done(&page);
}

/* --- changing --- */

struct saving {
	struct call *call;
	struct team team;
};

static void on_team_saved(const struct store_result *result, void *ctx)
{
	auto_free struct saving *saving = ctx;
	struct call *call = saving->call;

	if (result->ok) {
		call->api->has_floors = call->api->has_floors || saving->team.trust_floor;
		call_answer(call, call->route->status, encode_team(&saving->team));
	} else {
		call_fail(call, &result->err);
	}
	team_done(&saving->team);
}

static int read_default_scopes(const struct call *call, struct team *team, struct err *err)
{
	const json_t *asked = json_object_get(call->body, "defaultScopes");
	struct strings words = {0};
	struct scopes scopes = {0};
	char *text = NULL;
	int r = 0;

	if (!asked)
		return 0;
	if (!json_is_null(asked)) {
		decode_words(asked, &words);
		r = scopes_parse(&words, &call->api->config->scope_objects, &scopes, err);
		if (r == 0)
			text = strings_join(&words);
	}
	if (r == 0) {
		free(team->default_scopes);
		team->default_scopes = text;
	}
	scopes_done(&scopes);
	strings_done(&words);
	return r;
}

/* What the operator demands, no team takes back. */
static int read_floor(const struct call *call, struct team *team, struct err *err)
{
	const json_t *asked = json_object_get(call->body, "trustFloor");
	const char *floor = json_string_value(asked);

	if (!asked)
		return 0;
	if (!call->caller->is_operator)
		return err_set(err, ERR_FORBIDDEN, "only an operator sets a team's trustFloor");
	if (floor && backend_check_name(floor, err) < 0)
		return -1;
	mem_freep(&team->trust_floor);
	team->trust_floor = floor ? mem_strdup(floor) : NULL;
	return 0;
}

static void save(struct call *call, struct team *team)
{
	struct saving *saving = mem_new(struct saving);
	struct store_write *write = store_write_new(call->api->store);

	*saving = (struct saving){call, *team};
	store_put_team(write, team);
	store_write_submit(write, on_team_saved, saving);
}

void handle_team_create(struct call *call)
{
	const char *name = json_string_value(json_object_get(call->body, "name"));
	struct team team = {.id = id_new("tm"), .created_ms = io_real_ms()};
	struct err err = {0};

	team.name = mem_strdup(name);
	if (identity_check_name("team", name, &err) < 0 ||
	    read_default_scopes(call, &team, &err) < 0 || read_floor(call, &team, &err) < 0) {
		team_done(&team);
		call_fail(call, &err);
		return;
	}
	authz_made(call, team.id.text);
	save(call, &team);
}

static bool is_admin(const struct call *call)
{
	return call->caller->is_operator || call->caller->role == ROLE_ADMIN;
}

void handle_team_change(struct call *call)
{
	struct team team = {0};
	struct err err = {0};

	if (find_team(call, &team) < 0)
		return;
	if (!is_admin(call))
		(void)err_set(&err, ERR_FORBIDDEN, "only an admin changes the team");
	if (err.code != ERR_OK || read_default_scopes(call, &team, &err) < 0 ||
	    read_floor(call, &team, &err) < 0) {
		team_done(&team);
		call_fail(call, &err);
		return;
	}
	save(call, &team);
}

/* --- members --- */

void handle_member_list(struct call *call)
{
	struct membership_page page = {0};
	struct team team = {0};
	struct err err = {0};
	json_t *items;
	int r;

	if (find_team(call, &team) < 0)
		return;
	r = store_membership_list(call->api->store, team.id.text, call_query(call, "cursor", NULL),
	                          MIN(call_query_u64(call, "limit", 0), (uint64_t)LIMIT_PAGE),
	                          &page, &err);
	team_done(&team);
	if (r < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, encode_member(&page.items[i]));
	call_answer(call, 200, encode_page(items, page.next_cursor));
	membership_page_done(&page);
}

struct joining {
	struct call *call;
	struct membership member;
};

static void on_joined(const struct store_result *result, void *ctx)
{
	auto_free struct joining *joining = ctx;
	struct call *call = joining->call;

	if (result->ok)
		call_answer(call, 200, encode_member(&joining->member));
	else
		call_fail(call, &result->err);
	membership_done(&joining->member);
}

/* What the body says about the principal; is_new: it was not there before. */
static int read_principal(const struct call *call, bool is_new, struct principal *principal,
                          struct err *err)
{
	const char *kind = json_string_value(json_object_get(call->body, "kind"));
	const json_t *uid = json_object_get(call->body, "uid");

	if ((uid || (kind && !is_new)) && !call->caller->is_operator)
		return err_set(err, ERR_FORBIDDEN,
		               "only an operator maps users of this machine, or changes what "
		               "somebody is");
	if (kind && !principal_kind_from(kind, &principal->kind))
		return err_set(err, ERR_INVALID, "'kind' is person, service or agent");
	if (!uid)
		return 0;
	principal->has_uid = json_is_integer(uid);
	if (principal->has_uid &&
	    (json_integer_value(uid) == 0 || json_integer_value(uid) >= UINT32_MAX))
		return err_set(err, ERR_INVALID,
		               "'uid' is a user other than root, who is operator");
	principal->uid = (uint32_t)json_integer_value(uid);
	return 0;
}

static int read_member(struct call *call, const struct team *team, struct membership *ret,
                       struct err *err)
{
	const char *name = call->params[1];
	const char *role = json_string_value(json_object_get(call->body, "role"));
	struct principal *principal = &ret->principal;
	bool is_new;

	if (!is_admin(call))
		return err_set(err, ERR_FORBIDDEN, "only an admin changes who is in the team");
	if (!role_from(role, &ret->role))
		return err_set(err, ERR_INVALID, "'role' is viewer, member or admin");
	is_new = store_principal_get(call->api->store, name, principal, err) < 0;
	if (is_new && err->code != ERR_NOT_FOUND)
		return -1;
	if (is_new && identity_check_name("member", name, err) < 0)
		return -1;
	if (!is_new && str_eq(principal->id.text, ACCESS_OPERATOR))
		return err_set(err, ERR_CONFLICT, "the operator is what it is");
	if (is_new) {
		*principal = (struct principal){.id = id_new("pr"), .created_ms = io_real_ms()};
		principal->name = mem_strdup(name);
	}
	*err = (struct err){0};
	ret->team = team->id;
	ret->team_name = mem_strdup(team->name);
	ret->created_ms = io_real_ms();
	return read_principal(call, is_new, principal, err);
}

void handle_member_set(struct call *call)
{
	struct joining *joining;
	struct membership member = {0};
	struct team team = {0};
	struct store_write *write;
	struct err err = {0};
	int r;

	if (find_team(call, &team) < 0)
		return;
	r = read_member(call, &team, &member, &err);
	team_done(&team);
	if (r < 0) {
		membership_done(&member);
		call_fail(call, &err);
		return;
	}
	joining = mem_new(struct joining);
	*joining = (struct joining){call, member};
	write = store_write_new(call->api->store);
	store_put_principal(write, &member.principal);
	store_put_membership(write, member.team.text, member.principal.id.text, member.role,
	                     member.created_ms);
	store_write_submit(write, on_joined, joining);
}

static void on_left(const struct store_result *result, void *ctx)
{
	struct call *call = ctx;

	if (result->ok) {
		identify_recheck(call->api, call->request, NULL);
		hooks_reload(call->api->hooks);
		call_answer_empty(call);
	} else {
		call_fail(call, &result->err);
	}
}

/* With the keys and webhooks somebody has there. */
void handle_member_remove(struct call *call)
{
	struct principal principal = {0};
	struct team team = {0};
	struct store_write *write;
	struct err err = {0};

	if (find_team(call, &team) < 0)
		return;
	if (!is_admin(call))
		(void)err_set(&err, ERR_FORBIDDEN, "only an admin changes who is in the team");
	else if (store_principal_get(call->api->store, call->params[1], &principal, &err) == 0 &&
	         str_eq(principal.id.text, ACCESS_OPERATOR))
		(void)err_set(&err, ERR_CONFLICT, "the operator is what it is");
	if (err.code != ERR_OK) {
		if (err.code == ERR_NOT_FOUND)
			(void)err_set(&err, ERR_NOT_FOUND, "no such member in this team");
		call_fail(call, &err);
	} else {
		write = store_write_new(call->api->store);
		store_delete_membership(write, team.id.text, principal.id.text, io_real_ms());
		store_write_submit(write, on_left, call);
	}
	principal_done(&principal);
	team_done(&team);
}
