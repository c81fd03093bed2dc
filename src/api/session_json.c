/* Sessions and turns as JSON, both ways. */
#include "api/encode.h"
#include "api/sessions.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "model/jsonschema.h"
#include "model/money.h"
#include "store/turn.h"
#include "task/sessions.h"

enum { TIMEOUT_LEAST_MS = 100 };

static json_t *number_of(uint64_t number)
{
	return json_integer((json_int_t)number);
}

/* --- requests --- */

static int check_text(const json_t *body, const char *name, size_t most, struct err *err)
{
	const json_t *text = json_object_get(body, name);

	if (json_is_string(text) &&
	    (json_string_length(text) == 0 || json_string_length(text) > most))
		return err_set(err, ERR_INVALID, "'%s' has 1 to %zu bytes", name, most);
	return 0;
}

static char *text_of(const json_t *body, const char *name)
{
	const char *text = json_string_value(json_object_get(body, name));

	return text ? mem_strdup(text) : NULL;
}

static int take_schema(const json_t *body, struct turn *turn, struct err *err)
{
	auto_(jsonschema_freep) struct jsonschema *schema = NULL;
	const json_t *value = json_object_get(body, "outputSchema");

	if (!value || json_is_null(value))
		return 0;
	turn->schema = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
	if (jsonschema_compile(turn->schema, strlen(turn->schema), NULL, &schema, err) < 0)
		return err_wrap(err, "'outputSchema'");
	return 0;
}

static int take_timeout(const struct call *call, const json_t *body, struct turn *turn,
                        struct err *err)
{
	const struct config_sessions *config = &call->api->config->sessions;
	const json_t *timeout = json_object_get(body, "timeout");

	turn->timeout_ms = MIN(config->turn_ms, config->timeout_ms);
	if (timeout && schema_ms(timeout, "timeout", &turn->timeout_ms, err) < 0)
		return -1;
	if (turn->timeout_ms < TIMEOUT_LEAST_MS || turn->timeout_ms > config->timeout_ms)
		return err_set(err, ERR_INVALID, "'timeout' of a turn is %d to %llu ms",
		               TIMEOUT_LEAST_MS, (unsigned long long)config->timeout_ms);
	return 0;
}

int turn_decode(const struct call *call, const json_t *body, struct turn **ret, struct err *err)
{
	auto_(turn_freep) struct turn *turn = turn_new();

	turn->prompt = text_of(body, "prompt");
	if (!turn->prompt || !turn->prompt[strspn(turn->prompt, " \t\r\n")])
		return err_set(err, ERR_INVALID, "'prompt' is empty");
	if (check_text(body, "prompt", TURN_PROMPT_BYTES, err) < 0 ||
	    check_text(body, "label", TURN_LABEL_BYTES, err) < 0 ||
	    check_text(body, "messageId", TURN_MESSAGE_BYTES, err) < 0 ||
	    take_schema(body, turn, err) < 0 || take_timeout(call, body, turn, err) < 0)
		return -1;
	turn->label = text_of(body, "label");
	turn->message_id = text_of(body, "messageId");
	turn->is_steer = json_is_true(json_object_get(body, "steer"));
	*ret = take_ptr(turn);
	return 0;
}

/* --- turns --- */

static json_t *json_of(const char *text)
{
	json_t *value =
		text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : json_null();

	return value ? value : json_null();
}

json_t *turn_encode(const struct turn *turn, bool whole)
{
	bool is_over = turn_is_over(turn);
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(turn->id.text));
	json_object_set_new(object, "session", json_string(turn->session.text));
	json_object_set_new(object, "number", number_of(turn->number));
	json_object_set_new(object, "label", encode_text(turn->label));
	json_object_set_new(object, "messageId", encode_text(turn->message_id));
	if (whole) {
		json_object_set_new(object, "prompt", encode_text(turn->prompt));
		json_object_set_new(object, "outputSchema", json_of(turn->schema));
	}
	json_object_set_new(object, "steer", json_boolean(turn->is_steer));
	json_object_set_new(object, "status", json_string(turn_state_name(turn->state)));
	json_object_set_new(object, "reason",
	                    is_over && turn->end != TURN_END_NONE
	                            ? json_string(turn_end_name(turn->end))
	                            : json_null());
	json_object_set_new(object, "detail", encode_text(turn->detail));
	json_object_set_new(object, "stopReason", encode_text(turn->stop_reason));
	json_object_set_new(object, "output", json_of(turn->output));
	json_object_set_new(object, "text", encode_text(turn->text));
	json_object_set_new(object, "attempts", number_of(turn->attempts));
	json_object_set_new(object, "nudged", json_boolean(turn->is_nudged));
	json_object_set_new(object, "repaired", json_boolean(turn->is_repaired));
	json_object_set_new(object, "inputTokens",
	                    is_over ? number_of(turn->input_tokens) : json_null());
	json_object_set_new(object, "outputTokens",
	                    is_over ? number_of(turn->output_tokens) : json_null());
	json_object_set_new(object, "cost",
	                    is_over ? json_real(money_to_dollars(turn->cost)) : json_null());
	json_object_set_new(object, "timeout", number_of(turn->timeout_ms));
	json_object_set_new(object, "createdAt", encode_time(turn->created_ms));
	json_object_set_new(object, "startedAt", encode_time(turn->started_ms));
	json_object_set_new(object, "completedAt", encode_time(turn->ended_ms));
	return object;
}

/* --- sessions --- */

static json_t *encode_box(struct api *api, const struct run *run, const json_t *choices)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	const json_t *wish = json_object_get(choices, "sandbox");
	const char *profile = json_string_value(json_object_get(wish, "profile"));
	const char *id = run && run->sandbox.text[0] ? run->sandbox.text : NULL;
	auto_free char *instance = NULL;
	json_t *object = json_object();
	struct err err = {0};

	if (id && store_sandbox_get(api->store, id, &sandbox, &err) == 0)
		instance = mem_printf("%s-%llu", id, (unsigned long long)sandbox->started_ms);
	json_object_set_new(object, "sandbox_id", encode_text(id));
	json_object_set_new(object, "backend",
	                    encode_text(sandbox ? sandbox->spec.runtime
	                                : id    ? "native"
	                                        : NULL));
	json_object_set_new(object, "profile",
	                    encode_text(sandbox   ? sandbox->spec.profile
	                                : profile ? profile
	                                          : "default"));
	json_object_set_new(object, "instance_id", encode_text(instance));
	json_object_set_new(object, "state",
	                    encode_text(sandbox ? sandbox_state_name(sandbox->state)
	                                : id    ? "removed"
	                                        : NULL));
	json_object_set_new(object, "last_error",
	                    encode_text(sandbox && sandbox->state == SANDBOX_FAILED
	                                        ? sandbox->detail
	                                : run && run->end == RUN_END_SANDBOX_LOST ? run->detail
	                                                                          : NULL));
	return object;
}

static void put_run(json_t *object, const struct run *run)
{
	bool is_over = run && run_is_over(run->state);

	json_object_set_new(object, "status",
	                    json_string(run ? run_state_name(run->state) : "created"));
	json_object_set_new(object, "endReason",
	                    is_over ? json_string(run_end_name(run->end)) : json_null());
	json_object_set_new(object, "detail", encode_text(run ? run->detail : NULL));
	json_object_set_new(object, "run", encode_text(run ? run->id.text : NULL));
	json_object_set_new(object, "inputTokens", number_of(run ? run->input_tokens : 0));
	json_object_set_new(object, "outputTokens", number_of(run ? run->output_tokens : 0));
	json_object_set_new(object, "cost", json_real(run ? money_to_dollars(run->cost) : 0));
	json_object_set_new(object, "timeout", number_of(run ? run->timeout_ms : 0));
	json_object_set_new(object, "idleTimeout",
	                    run && run->idle_ms ? number_of(run->idle_ms) : json_null());
	json_object_set_new(object, "startedAt", encode_time(run ? run->started_ms : 0));
	json_object_set_new(object, "completedAt", encode_time(run ? run->ended_ms : 0));
}

static void put_now(json_t *object, struct api *api, const struct task *task, const struct run *run)
{
	static const char *const phases[] = {[SESSION_OVER] = NULL,
	                                     [SESSION_WAITING] = "waiting",
	                                     [SESSION_STARTING] = "starting",
	                                     [SESSION_IDLE] = "idle",
	                                     [SESSION_BUSY] = "busy"};
	struct session_now now = {0};
	uint64_t count = 0;
	struct err err = {0};

	if (run)
		sessions_look(api->tasks, run->id.text, &now);
	(void)!store_turn_last(api->store, task->id.text, &count, &err);
	json_object_set_new(object, "phase", encode_text(phases[now.phase]));
	json_object_set_new(object, "agentVersion", encode_text(*now.agent ? now.agent : NULL));
	json_object_set_new(object, "turns", number_of(count));
	json_object_set_new(object, "queued", number_of(now.queued));
	json_object_set_new(object, "turn", encode_text(now.turn.text[0] ? now.turn.text : NULL));
}

static json_t *encode_labels(const struct strings *labels)
{
	json_t *map = json_object();

	for (size_t i = 0; i < labels->count; i++) {
		size_t len = strcspn(labels->items[i], "=");
		auto_free char *key = mem_strndup(labels->items[i], len);

		json_object_set_new(
			map, key,
			json_string(labels->items[i] + len + (labels->items[i][len] == '=')));
	}
	return map;
}

json_t *session_encode(struct api *api, const struct task *task, const struct run *run)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(task->id.text));
	json_object_set_new(object, "title", encode_text(task->title));
	json_object_set_new(object, "agent", json_string(task->agent));
	json_object_set_new(object, "model",
	                    encode_text(json_string_value(json_object_get(choices, "model"))));
	json_object_set_new(object, "labels", encode_labels(&task->labels));
	put_run(object, run);
	put_now(object, api, task, run);
	json_object_set_new(object, "sandbox", encode_box(api, run, choices));
	json_object_set_new(object, "createdAt", encode_time(task->created_ms));
	json_decref(choices);
	return object;
}
