#include <unistd.h>

#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "model/config.h"
#include "store/store.h"

void handle_health(struct call *call)
{
	call_answer(call, 200, json_pack("{s:s}", "status", "ok"));
}

void handle_version(struct call *call)
{
	struct store_counts counts = {0};
	struct err err = {0};
	json_int_t alive = 0;

	if (store_count(call->api->store, &counts, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	for (int state = 0; state < SANDBOX_STATE_COUNT_; state++) {
		if (sandbox_is_alive((enum sandbox_state)state))
			alive += (json_int_t)counts.sandboxes[state];
	}
	call_answer(call, 200,
	            json_pack("{s:s, s:s, s:I, s:o, s:o, s:I, s:o}", "version", CLOCHE_VERSION,
	                      "apiVersion", "v1", "pid", (json_int_t)getpid(), "startedAt",
	                      encode_time(call->api->started_ms), "stateDir",
	                      encode_text(call->api->state_path), "sandboxes", alive, "listen",
	                      encode_text(call->api->listen)));
}

void handle_openapi(struct call *call)
{
	call_answer(call, 200, route_openapi());
}

void handle_profiles(struct call *call)
{
	const struct config *config = call->api->config;
	json_t *items = json_array();

	for (size_t i = 0; i < config->profile_count; i++) {
		if (authz_may_use(call->caller, &config->profiles[i]))
			json_array_append_new(items, encode_profile(&config->profiles[i]));
	}
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

void handle_profile(struct call *call)
{
	const struct profile *profile;
	struct err err = {0};

	if (authz_profile(call->api, call->caller, call->params[0], &profile, &err) < 0)
		call_fail(call, &err);
	else
		call_answer(call, 200, encode_profile(profile));
}

static void on_checks(const struct strings *checks, const struct err *err, void *ctx)
{
	struct call *call = ctx;
	json_t *items;
	bool ok = true;

	if (err->code != ERR_OK) {
		call_fail(call, err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < checks->count; i++) {
		json_t *check = encode_check(checks->items[i]);

		ok = ok && str_eq(json_string_value(json_object_get(check, "status")), "ok");
		json_array_append_new(items, check);
	}
	call_answer(call, 200, json_pack("{s:b, s:o}", "ok", ok, "checks", items));
}

void handle_doctor(struct call *call)
{
	call->api->engine->ops->doctor(call->api->engine, on_checks, call);
}

void handle_metrics(struct call *call)
{
	auto_free char *text = call->api->engine->ops->metrics(call->api->engine);

	request_answer(call->request, 200, "text/plain; version=0.0.4; charset=utf-8", text,
	               strlen(text));
	call_done(call);
}
