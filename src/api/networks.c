/* A sandbox's network: its policy, the hosts it had to do with, and what can be learned from it. */
#include "api/authz.h"
#include "api/call.h"
#include "api/decode.h"
#include "api/encode.h"
#include "api/environments.h"
#include "base/io.h"
#include "base/mem.h"
#include "model/config.h"
#include "model/learn.h"
#include "model/sandbox.h"
#include "store/store.h"

static json_t *number_of(uint64_t value)
{
	return json_integer((json_int_t)MIN(value, (uint64_t)INT64_MAX));
}

static json_t *hosts_of(const struct host_uses *uses)
{
	json_t *items = json_array();

	for (size_t i = 0; i < uses->count; i++) {
		const struct host_use *use = &uses->items[i];

		json_array_append_new(
			items, json_pack("{s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "host",
		                         encode_text(use->host), "port", (int)use->port, "proto",
		                         encode_text(use->proto), "connections",
		                         number_of(use->connections), "denied",
		                         number_of(use->denied), "sent", number_of(use->sent),
		                         "received", number_of(use->received)));
	}
	return items;
}

struct looking {
	struct call *call;
	struct sandbox *sandbox;
};

static void on_hosts(const struct host_uses *hosts, const struct err *err, void *ctx)
{
	auto_free struct looking *looking = ctx;
	json_t *object;

	if (hosts) {
		object = encode_network(looking->sandbox);
		json_object_set_new(object, "hosts", hosts_of(hosts));
		call_answer(looking->call, 200, object);
	} else {
		call_fail(looking->call, err);
	}
	sandbox_free(looking->sandbox);
}

void handle_network_info(struct call *call)
{
	struct engine *engine = call->api->engine;
	struct sandbox *sandbox = NULL;
	struct looking *looking;

	if (call_sandbox(call, &sandbox) < 0)
		return;
	looking = mem_new(struct looking);
	*looking = (struct looking){call, sandbox};
	engine->ops->hosts(engine, sandbox->id.text, on_hosts, looking);
}

static void on_set(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct call *call = ctx;

	if (sandbox)
		call_answer(call, 200, encode_sandbox(sandbox));
	else
		call_fail(call, err);
}

void handle_network_set(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct engine *engine = call->api->engine;
	const json_t *mode = json_object_get(call->body, "networkMode");
	struct strings allow = {0}, cidrs = {0};
	struct network_change change = {
		.network = json_string_value(json_object_get(call->body, "network")),
		.mode = json_is_null(mode) ? "" : json_string_value(mode),
	};

	if (call_sandbox(call, &sandbox) < 0)
		return;
	if (call->caller->run.text[0]) {
		struct err err = {0};

		(void)err_set(&err, ERR_FORBIDDEN,
		              "a run does not change the network of a sandbox"); /* always -1 */
		call_fail(call, &err);
		return;
	}
	decode_list(call->body, "allow", &allow);
	decode_list(call->body, "allowCidrs", &cidrs);
	change.allow = json_object_get(call->body, "allow") ? &allow : NULL;
	change.allow_cidrs = json_object_get(call->body, "allowCidrs") ? &cidrs : NULL;
	engine->ops->set_network(engine, sandbox->id.text, &change, on_set, call);
	strings_done(&allow);
	strings_done(&cidrs);
}

/* --- learning --- */

struct learning {
	struct call *call;
	struct environment *environment;
	json_t *hosts;
	size_t left;
};

static void learning_free(struct learning *learning)
{
	environment_free(learning->environment);
	json_decref(learning->hosts);
	mem_freep(&learning);
}

static void on_learned(const struct err *err, void *ctx)
{
	struct learning *learning = ctx;

	if (err->code == ERR_OK)
		call_answer(learning->call, 201,
		            json_pack("{s:o, s:O, s:o}", "environment",
		                      environment_encode(learning->environment), "hosts",
		                      learning->hosts, "left", number_of(learning->left)));
	else
		call_fail(learning->call, err);
	learning_free(learning);
}

static void on_used(const struct host_uses *hosts, const struct err *err, void *ctx)
{
	struct learning *learning = ctx;
	struct engine *engine = learning->call->api->engine;
	struct err refused = *err;

	if (!hosts ||
	    learn_environment(hosts, learning->environment, &learning->left, &refused) < 0) {
		call_fail(learning->call, &refused);
		learning_free(learning);
		return;
	}
	learning->hosts = hosts_of(hosts);
	engine->ops->environment_put(
		engine,
		&(struct environment_change){.environment = learning->environment, .is_new = true},
		on_learned, learning);
}

static int check_new_name(struct call *call, const char *name, struct err *err)
{
	if (environment_check_name(name, err) < 0)
		return -1;
	if (config_environment(call->api->config, name))
		return err_set(err, ERR_CONFLICT, "config.toml has an environment '%s'", name);
	return 0;
}

/* Events outlive their sandbox: one that is no row any more can still be learned from, by whoever
 * may look at them. */
static int check_events(struct call *call, const char *id, struct err *err)
{
	struct event_filter filter = {.viewer = call->caller, .sandbox = id, .limit = 1};
	struct event_page page = {0};
	bool is_there;

	if (call->sandbox)
		return 0;
	if (store_event_list(call->api->store, &filter, &page, err) < 0)
		return -1;
	is_there = page.count > 0;
	event_page_done(&page);
	return is_there ? 0 : err_set(err, ERR_NOT_FOUND, "no sandbox '%.63s'", id);
}

void handle_network_learn(struct call *call)
{
	const char *name = json_string_value(json_object_get(call->body, "name"));
	struct engine *engine = call->api->engine;
	const char *id = call->sandbox ? call->sandbox->id.text : call->params[0];
	struct learning *learning;
	struct err err = {0};

	if (check_new_name(call, name, &err) < 0 || check_events(call, id, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	learning = mem_new(struct learning);
	learning->call = call;
	learning->environment = environment_new(name);
	learning->environment->id = id_new("en");
	spec_set(&learning->environment->owner, call->caller->principal.text);
	spec_set(&learning->environment->team, call->caller->team.text);
	authz_made(call, learning->environment->id.text);
	learning->environment->created_ms = learning->environment->updated_ms = io_real_ms();
	engine->ops->hosts(engine, id, on_used, learning);
}
