/* Questions that wait for a person. Who may see the sandbox sees them, who may change it answers.
 */
#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "api/holds.h"
#include "base/str.h"
#include "model/approval.h"
#include "store/store.h"

static json_t *encode(const struct approval *approval)
{
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(approval->id.text));
	json_object_set_new(object, "kind",
	                    json_string(approval->title ? "permission" : "network"));
	json_object_set_new(object, "tool", encode_text(approval->title));
	json_object_set_new(object, "arguments", json_null());
	json_object_set_new(object, "caller", json_null());
	json_object_set_new(object, "run", json_null());
	json_object_set_new(object, "sandbox", json_string(approval->sandbox.text));
	json_object_set_new(object, "state", json_string("waiting"));
	json_object_set_new(object, "proto", encode_text(approval->proto));
	json_object_set_new(object, "host", encode_text(approval->host));
	json_object_set_new(object, "address", encode_text(approval->address));
	json_object_set_new(object, "port", json_integer(approval->port));
	json_object_set_new(object, "program", encode_text(approval->program));
	json_object_set_new(object, "askedAt", encode_time(approval->asked_ms));
	json_object_set_new(object, "expiresAt", encode_time(approval->expires_ms));
	return object;
}

static bool is_seen(struct call *call, const struct approval *approval)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct ownership whose;

	if (store_sandbox_get(call->api->store, approval->sandbox.text, &sandbox,
	                      &(struct err){0}) < 0)
		return false;
	whose = authz_ownership(sandbox);
	return authz_sees(call, &whose);
}

/* What becomes a rule of an environment is for those who may change it. One that does not change
 * here is refused as that, later. */
static int check_environment(struct call *call, const struct spec *spec, struct err *err)
{
	auto_(environment_freep) struct environment *environment = NULL;
	struct engine *engine = call->api->engine;
	struct ownership whose;

	if (authz_more(call, SCOPE_ENVIRONMENTS_WRITE, err) < 0 ||
	    engine->ops->environment_get(engine, spec->team ? spec->team : ACCESS_TEAM,
	                                 spec->network, &environment, err) < 0)
		return -1;
	whose = environment_ownership(environment);
	return environment->id.text[0]
	               ? authz_change(call, &whose, "environment", environment->name, err)
	               : 0;
}

/* Whether the caller may change the sandbox that asks, and what else the answer changes. */
static int check(struct call *call, const struct approval *approval, enum approval_reach reach,
                 struct err *err)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct ownership whose;

	if (store_sandbox_get(call->api->store, approval->sandbox.text, &sandbox, err) < 0)
		return -1;
	whose = authz_ownership(sandbox);
	if (authz_change(call, &whose, "approval", approval->id.text, err) < 0)
		return err->code == ERR_NOT_FOUND ? holds_absent(approval->id.text, err) : -1;
	return reach == APPROVAL_ENVIRONMENT ? check_environment(call, &sandbox->spec, err) : 0;
}

void handle_approval_list(struct call *call)
{
	struct engine *engine = call->api->engine;
	const struct approval *approval;
	json_t *items = json_array();

	for (size_t i = 0; (approval = engine->ops->approval_at(engine, i)); i++) {
		if (is_seen(call, approval))
			json_array_append_new(items, encode(approval));
	}
	holds_list(call, items);
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

static const struct approval *find(struct call *call, struct err *err)
{
	struct engine *engine = call->api->engine;
	struct ownership nobodys = {"", "", VISIBILITY_PRIVATE, NULL};
	const struct approval *approval;

	for (size_t i = 0; (approval = engine->ops->approval_at(engine, i)); i++) {
		if (str_eq(approval->id.text, call->params[0]))
			return approval;
	}
	(void)!authz_look(call, &nobodys, "approval", call->params[0], err); /* for the record */
	(void)!holds_absent(call->params[0], err);                           /* always -1 */
	return NULL;
}

static void on_answered(const struct err *err, void *ctx)
{
	struct call *call = ctx;

	if (err->code == ERR_OK)
		call_answer_empty(call);
	else
		call_fail(call, err);
}

static int decode(const json_t *body, struct approval_answer *ret, struct err *err)
{
	const char *verdict = json_string_value(json_object_get(body, "verdict"));
	const char *reach = json_string_value(json_object_get(body, "for"));

	ret->is_allowed = str_eq(verdict, "allow");
	if (!ret->is_allowed && !str_eq(verdict, "deny"))
		return err_set(err, ERR_INVALID, "'verdict' is allow or deny");
	if (reach && !ret->is_allowed)
		return err_set(err, ERR_INVALID,
		               "'for' goes with allow: a denial is for this once");
	if (reach && !approval_reach_from(reach, &ret->reach))
		return err_set(err, ERR_INVALID, "'for' is once, sandbox or environment");
	return 0;
}

void handle_approval_answer(struct call *call)
{
	struct engine *engine = call->api->engine;
	struct approval_answer answer = {.reach = APPROVAL_ONCE, .by = call->caller->name};
	const struct approval *approval;
	struct err err = {0};

	if (decode(call->body, &answer, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	if (holds_answer(call, call->params[0], answer.is_allowed, answer.reach == APPROVAL_ONCE) >
	    0)
		return;
	if (!(approval = find(call, &err)) || check(call, approval, answer.reach, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	engine->ops->approval_answer(engine, approval->id.text, &answer, on_answered, call);
}
