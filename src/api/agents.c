/* Agents: whose signatures are trusted, and what a manifest would be given. */
#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "api/signature.h"
#include "api/vouch.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/agent.h"
#include "model/backend.h"
#include "model/capability.h"
#include "model/config.h"
#include "model/trust.h"
#include "store/identity.h"

static json_t *encode_trusted(const struct trusted_key *key)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", key->id.text, "name", key->name,
	                 "publicKey", key->public_key, "team", encode_text(key->team_name),
	                 "createdAt", encode_time(key->created_ms));
}

/* Those that count for the caller's team; an operator sees all. */
static int read_trusted(struct call *call, struct trusted_list *ret, struct err *err)
{
	const struct caller *caller = call->caller;

	return store_trusted_list(call->api->store, caller->is_operator ? "" : caller->team.text,
	                          ret, err);
}

void handle_trusted_list(struct call *call)
{
	struct trusted_list list = {0};
	struct err err = {0};
	json_t *items;

	if (read_trusted(call, &list, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < list.count; i++)
		json_array_append_new(items, encode_trusted(&list.items[i]));
	trusted_list_done(&list);
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

/* --- changing --- */

struct trusting {
	struct call *call;
	struct trusted_key key;
};

static void on_trusted(const struct store_result *result, void *ctx)
{
	auto_free struct trusting *trusting = ctx;
	struct call *call = trusting->call;

	if (result->ok)
		call_answer(call, 201, encode_trusted(&trusting->key));
	else
		call_fail(call, &result->err);
	trusted_key_done(&trusting->key);
}

/* An operator's key counts for all teams unless one is named, an admin's for the own one. */
static int choose_team(struct call *call, struct trusted_key *key, struct err *err)
{
	const struct caller *caller = call->caller;
	const char *name = json_string_value(json_object_get(call->body, "team"));
	struct team team = {0};

	if (!caller->is_operator && caller->role != ROLE_ADMIN)
		return err_set(err, ERR_FORBIDDEN, "only an admin says whom the team trusts");
	if (!caller->is_operator && name && !str_eq(name, caller->team_name))
		return err_set(err, ERR_NOT_FOUND, "no team '%.63s'", name);
	if (caller->is_operator && !name)
		return 0;
	if (store_team_get(call->api->store, name ? name : caller->team.text, &team, err) < 0)
		return -1;
	key->team = team.id;
	key->team_name = mem_strdup(team.name);
	team_done(&team);
	return 0;
}

void handle_trusted_add(struct call *call)
{
	const char *name = json_string_value(json_object_get(call->body, "name"));
	const char *public_key = json_string_value(json_object_get(call->body, "publicKey"));
	struct trusted_key key = {.id = id_new("tk"), .created_ms = io_real_ms()};
	uint8_t bytes[SIGNATURE_PUBLIC];
	struct trusting *trusting;
	struct store_write *write;
	struct err err = {0};

	key.name = mem_strdup(name);
	key.public_key = mem_strdup(public_key);
	if (!signature_parse_key(public_key, bytes))
		(void)err_set(&err, ERR_INVALID,
		              "'publicKey' has 64 hexadecimal digits, as the .pub file has them");
	if (err.code != ERR_OK || identity_check_name("name", name, &err) < 0 ||
	    choose_team(call, &key, &err) < 0) {
		trusted_key_done(&key);
		call_fail(call, &err);
		return;
	}
	trusting = mem_new(struct trusting);
	*trusting = (struct trusting){call, key};
	authz_made(call, key.id.text);
	write = store_write_new(call->api->store);
	store_add_trusted(write, &key);
	store_write_submit(write, on_trusted, trusting);
}

static void on_removed(const struct store_result *result, void *ctx)
{
	struct call *call = ctx;

	if (result->ok)
		call_answer_empty(call);
	else
		call_fail(call, &result->err);
}

/* By id or name; of the caller's team, or any for an operator. */
static const struct trusted_key *find(const struct call *call, const struct trusted_list *list)
{
	const struct caller *caller = call->caller;

	for (size_t i = 0; i < list->count; i++) {
		const struct trusted_key *key = &list->items[i];

		if (!str_eq(key->id.text, call->params[0]) && !str_eq(key->name, call->params[0]))
			continue;
		if (caller->is_operator ||
		    (caller->role == ROLE_ADMIN && str_eq(key->team.text, caller->team.text)))
			return key;
	}
	return NULL;
}

void handle_trusted_remove(struct call *call)
{
	struct trusted_list list = {0};
	const struct trusted_key *key;
	struct store_write *write;
	struct err err = {0};

	if (read_trusted(call, &list, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	key = find(call, &list);
	if (key) {
		write = store_write_new(call->api->store);
		store_delete_trusted(write, key->id.text);
		store_write_submit(write, on_removed, call);
	} else {
		(void)err_set(&err, ERR_NOT_FOUND, "no trusted key of yours has that name");
		call_fail(call, &err);
	}
	trusted_list_done(&list);
}

/* --- looking at a manifest --- */

static json_t *encode_list(const struct strings *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, encode_text(list->items[i]));
	return array;
}

static json_t *encode_reach(const struct reach *reach)
{
	json_t *array = json_array();
	char text[REACH_TEXT];

	for (size_t i = 0; i < reach->count; i++) {
		reach_format(&reach->rules[i], text, sizeof(text));
		json_array_append_new(array, json_string(text));
	}
	return array;
}

/* The runtime it would get here, or why none. */
static void put_runtime(struct call *call, json_t *object, const struct agent *agent,
                        enum trust trust)
{
	struct trust_ask ask = {.trust = trust, .wanted = agent->runtime, .have = backend_names()};
	struct team team = {0};
	const char *chosen = NULL;
	struct err err = {0};

	if (store_team_get(call->api->store, call->caller->team.text, &team, &err) == 0) {
		ask.floors[0] = team.trust_floor;
		(void)!trust_choose(&ask, &chosen, &err); /* err says why not */
	}
	json_object_set_new(object, "runtime", encode_text(chosen));
	json_object_set_new(object, "refusal", chosen ? json_null() : encode_text(err.msg));
	team_done(&team);
}

static json_t *report(struct call *call, const struct agent *agent, const struct demand *demand,
                      enum trust trust, const char *signed_by)
{
	json_t *object = json_object();

	json_object_set_new(object, "name", encode_text(agent->name));
	json_object_set_new(object, "version", encode_text(agent->version));
	json_object_set_new(object, "trust", json_string(trust_name(trust)));
	json_object_set_new(object, "signedBy", encode_text(signed_by));
	put_runtime(call, object, agent, trust);
	json_object_set_new(object, "capabilities", encode_list(&agent->capabilities));
	json_object_set_new(object, "network", encode_reach(&demand->rights.network));
	json_object_set_new(object, "tools", encode_list(&agent->tools));
	json_object_set_new(object, "repositories", encode_list(&agent->repositories));
	return object;
}

void handle_agent_verify(struct call *call)
{
	const char *manifest = json_string_value(json_object_get(call->body, "manifest"));
	const struct config *config = call->api->config;
	struct vouched vouched = {0};
	struct demand demand = {0};
	struct agent agent = {0};
	struct err err = {0};

	if (agent_parse("manifest", manifest, strlen(manifest), &agent, &err) < 0 ||
	    capability_compile(&agent.capabilities, &config->capabilities, &config->scope_objects,
	                       &demand, &err) < 0 ||
	    vouch_judge(call->api, call->caller->team.text, manifest,
	                json_string_value(json_object_get(call->body, "signature")), &vouched,
	                &err) < 0)
		call_fail(call, &err);
	else
		call_answer(call, 200,
		            report(call, &agent, &demand, vouched.trust, vouched.signed_by));
	vouched_done(&vouched);
	demand_done(&demand);
	agent_done(&agent);
}
