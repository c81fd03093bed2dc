#include "api/agent_server.h"

#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "api/events.h"
#include "api/ports.h"
#include "api/record.h"
#include "api/sessions.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/request.h"
#include "mcp/rpc.h"
#include "store/store.h"
#include "store/task.h"
#include "task/sessions.h"
#include "task/tasks.h"

enum { RPC_FAILED = -32000 };

bool agent_server_session(struct api *api, const char *sandbox, struct task **ret)
{
	auto_(run_freep) struct run *run = NULL;
	struct err err = {0};
	struct id id;

	if (!api->tasks || !tasks_run_in(api->tasks, sandbox, &id) ||
	    store_run_get(api->store, id.text, &run, &err) < 0 ||
	    !str_has_prefix(run->task.text, TASK_SESSION_PREFIX "_") ||
	    store_task_get(api->store, run->task.text, ret, &err) < 0)
		return false;
	return true;
}

/* --- /health --- */

static json_t *phases_of(struct api *api, const char *run)
{
	struct progress_list steps = {0};
	json_t *list = json_array();
	struct err err = {0};

	(void)!store_run_steps(api->store, run, &steps, &err); /* then there are none to show */
	for (size_t i = 0; i < steps.count; i++) {
		const struct run_progress *at = &steps.items[i];
		bool is_over = at->ended_ms >= at->started_ms && at->ended_ms > 0;

		json_array_append_new(list,
		                      json_pack("{s:s, s:o, s:o}", "name", run_step_name(at->step),
		                                "status", encode_text(at->status), "ms",
		                                is_over ? json_integer((json_int_t)(at->ended_ms -
		                                                                    at->started_ms))
		                                        : json_null()));
	}
	progress_list_done(&steps);
	return list;
}

static json_t *method_names(void);

static void health(struct call *call, const struct task *task)
{
	static const char *const readiness[] = {[SESSION_OVER] = "ended",
	                                        [SESSION_WAITING] = "starting",
	                                        [SESSION_STARTING] = "starting",
	                                        [SESSION_IDLE] = "ready",
	                                        [SESSION_BUSY] = "ready"};
	struct session_now now = {0};

	sessions_look(call->api->tasks, task->run.text, &now);
	call_answer(call, 200,
	            json_pack("{s:s, s:b, s:s, s:b, s:s, s:s, s:o, s:o}", "status", "ok",
	                      "hasSession", now.phase >= SESSION_IDLE, "readiness",
	                      readiness[now.phase], "busy", now.phase == SESSION_BUSY, "session",
	                      task->id.text, "run", task->run.text, "phases",
	                      phases_of(call->api, task->run.text), "capabilities",
	                      method_names()));
}

/* --- /events --- */

static void events(struct call *call, const struct task *task)
{
	json_t *hello = json_pack("{s:s, s:s, s:s}", "type", "connected", "run_id", task->run.text,
	                          "session_id", task->id.text);
	auto_free char *text = json_dumps(hello, JSON_COMPACT);

	json_decref(hello);
	events_stream(call, task->id.text, text);
}

/* --- /command --- */

/* One message on its way. */
struct message {
	struct call *call;
	struct task *task;
	struct rpc rpc;
	bool was_open; /* the same message is with the agent, or waits for it */
};

static void message_end(struct message *message, int status, json_t *json)
{
	auto_free char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(12));

	must(text);
	json_decref(json);
	request_answer(message->call->request, status, "application/json", text, strlen(text));
	call_done(message->call);
	rpc_done(&message->rpc);
	task_free(message->task);
	mem_freep(&message);
}

static void message_refuse(struct message *message, struct rpc_fault *fault)
{
	message_end(message, fault->status, rpc_error(message->rpc.id, fault));
}

static void message_answer(struct message *message, json_t *result)
{
	message_end(message, 200, rpc_result(message->rpc.id, result));
}

static void message_fail(struct message *message, const struct err *err)
{
	struct rpc_fault fault;

	(void)rpc_refuse(&fault, 200, err->code == ERR_INVALID ? RPC_PARAMS : RPC_FAILED, "%s",
	                 err->msg); /* always -1 */
	fault.data = json_pack("{s:s}", "code", err_name(err->code));
	message_refuse(message, &fault);
}

static void answer_done(const struct err *err, void *ctx)
{
	if (err->code == ERR_OK)
		message_answer(ctx, json_object());
	else
		message_fail(ctx, err);
}

/* The text of "content": itself, or that of its blocks. NULL: it has other things. The caller
 * frees. */
static char *content_of(const json_t *content)
{
	char *text = json_is_string(content) ? mem_strdup(json_string_value(content)) : NULL;
	const json_t *block;
	size_t i;

	json_array_foreach (content, i, block) {
		const char *type = json_string_value(json_object_get(block, "type"));
		const char *part = json_string_value(json_object_get(block, "text"));
		char *longer;

		if (!type || !str_eq(type, "text") || !part) {
			mem_freep(&text);
			return NULL;
		}
		longer = text ? mem_printf("%s\n%s", text, part) : mem_strdup(part);
		free(text);
		text = longer;
	}
	return text;
}

static const char *stop_of(const struct message *message, const struct turn *turn,
                           bool is_duplicate)
{
	if (is_duplicate && !message->was_open)
		return "duplicate_delivery";
	if (turn->end == TURN_END_STEERED)
		return "steered";
	if (turn->state == TURN_CANCELLED)
		return "cancelled";
	if (turn->stop_reason)
		return turn->stop_reason;
	return turn->state == TURN_COMPLETED ? "end_turn" : turn_end_name(turn->end);
}

static void on_turn_over(const struct turn *turn, bool is_duplicate, const struct err *err,
                         void *ctx)
{
	struct message *message = ctx;

	if (!turn) {
		message_fail(message, err);
		return;
	}
	message_answer(message,
	               json_pack("{s:s, s:o}", "stopReason", stop_of(message, turn, is_duplicate),
	                         "turn", turn_encode(turn, false)));
}

/* A TurnRequest from the parameters. */
static int turn_of(const struct message *message, struct turn **ret, struct err *err)
{
	static const char *const same[] = {"messageId", "steer", "outputSchema", "label",
	                                   "timeout"};
	auto_free char *text = content_of(json_object_get(message->rpc.params, "content"));
	json_t *body = json_object();
	auto_free char *bytes = NULL;
	json_t *checked = NULL;
	int r;

	json_object_set_new(body, "prompt", text ? json_string(text) : NULL);
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		json_t *value = json_object_get(message->rpc.params, same[i]);

		if (value && !json_is_null(value))
			json_object_set(body, same[i], value);
	}
	bytes = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	if (!text || !bytes)
		return err_set(
			err, ERR_INVALID,
			"'content' is a text, or a list of {\"type\": \"text\", \"text\": …}");
	r = schema_read(schema_find("TurnRequest"), bytes, strlen(bytes), &checked, err);
	if (r == 0)
		r = turn_decode(message->call, checked, ret, err);
	json_decref(checked);
	return r;
}

static void user_message(struct message *message)
{
	struct api *api = message->call->api;
	struct turn *turn = NULL;
	struct err err = {0};

	if (turn_of(message, &turn, &err) < 0) {
		message_fail(message, &err);
		return;
	}
	message->was_open = turn->message_id &&
	                    sessions_message(api->tasks, message->task->run.text, turn->message_id);
	session_ask(api, message->task, turn, UINT64_MAX, on_turn_over, message);
}

static void cancel(struct message *message)
{
	const char *turn = json_string_value(json_object_get(message->rpc.params, "turnId"));
	struct api *api = message->call->api;
	struct session_now now = {0};

	sessions_look(api->tasks, message->task->run.text, &now);
	if (!turn && !now.turn.text[0])
		message_answer(message, json_object());
	else
		sessions_cancel(api->tasks, message->task->run.text, turn ? turn : now.turn.text,
		                answer_done, message);
}

static void close_session(struct message *message)
{
	sessions_end(message->call->api->tasks, message->task->run.text, RUN_END_FINISHED, NULL,
	             answer_done, message);
}

/* Only what an agent asks in this sandbox, and only for this once. */
static const struct approval *find_question(const struct message *message, const char *id)
{
	struct engine *engine = message->call->api->engine;
	const struct approval *approval;
	struct id run;

	for (size_t i = 0; (approval = engine->ops->approval_at(engine, i)); i++) {
		if (str_eq(approval->id.text, id) && approval->title &&
		    tasks_run_in(message->call->api->tasks, approval->sandbox.text, &run) &&
		    str_eq(run.text, message->task->run.text))
			return approval;
	}
	return NULL;
}

static void permission_response(struct message *message)
{
	const char *id = json_string_value(json_object_get(message->rpc.params, "requestId"));
	const char *option = json_string_value(json_object_get(message->rpc.params, "optionId"));
	struct call *call = message->call;
	struct approval_answer answer = {.reach = APPROVAL_ONCE, .by = call->caller->name};
	const struct approval *approval = id ? find_question(message, id) : NULL;
	struct err err = {0};

	answer.is_allowed = option && str_eq(option, "allow");
	if (!option || (!answer.is_allowed && !str_eq(option, "deny")))
		(void)err_set(&err, ERR_INVALID, "'optionId' is allow or deny");
	else if (!call->caller->can_approve)
		(void)err_set(&err, ERR_FORBIDDEN,
		              "whoever asked for this token may not answer approvals");
	else if (!approval)
		(void)err_set(&err, ERR_INVALID, "'requestId': no such question waits");
	if (err.code != ERR_OK)
		message_fail(message, &err);
	else
		call->api->engine->ops->approval_answer(call->api->engine, approval->id.text,
		                                        &answer, answer_done, message);
}

static const struct method {
	const char *name;
	void (*run)(struct message *message);
} methods[] = {{"user_message", user_message},
               {"cancel", cancel},
               {"close", close_session},
               {"permission_response", permission_response}};

static json_t *method_names(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		json_array_append_new(list, json_string(methods[i].name));
	return list;
}

static void dispatch(struct message *message)
{
	struct rpc_fault fault;
	char shown[64];

	if (message->rpc.kind != RPC_REQUEST) {
		(void)rpc_refuse(&fault, 400, RPC_INVALID, "a command has an 'id' and is answered");
		message_refuse(message, &fault);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (str_eq(methods[i].name, message->rpc.method)) {
			methods[i].run(message);
			return;
		}
	}
	str_escape(shown, sizeof(shown), message->rpc.method, strlen(message->rpc.method));
	(void)rpc_refuse(&fault, 200, RPC_NO_METHOD,
	                 "no method '%s': user_message, cancel, close, permission_response", shown);
	message_refuse(message, &fault);
}

static void on_cut_off(struct request *request, bool gone, void *ctx)
{
	struct message *message = ctx;

	call_done(message->call);
	task_free(message->task);
	mem_freep(&message);
}

static void on_body(struct request *request, const char *bytes, size_t len, void *ctx)
{
	struct message *message = ctx;
	struct rpc_fault fault = {0};

	request_set_on_end(request, NULL, NULL);
	if (rpc_read(bytes, len, &message->rpc, &fault) < 0)
		message_refuse(message, &fault);
	else
		dispatch(message);
}

static void commands(struct call *call, struct task *task)
{
	struct message *message = mem_new(struct message);

	*message = (struct message){.call = call, .task = task};
	request_set_on_end(call->request, on_cut_off, message);
	request_read_body(call->request, LIMIT_JSON_BODY_BYTES, on_body, message);
}

/* --- the door --- */

enum door { DOOR_NONE, DOOR_HEALTH, DOOR_EVENTS, DOOR_COMMAND };

static const struct {
	const char *path, *method;
} doors[] = {[DOOR_HEALTH] = {"/health", "GET"},
             [DOOR_EVENTS] = {"/events", "GET"},
             [DOOR_COMMAND] = {"/command", "POST"}};

static enum door door_of(const char *target)
{
	size_t len = strcspn(target, "?");

	for (int door = DOOR_HEALTH; door <= DOOR_COMMAND; door++) {
		if (strlen(doors[door].path) == len && strncmp(doors[door].path, target, len) == 0)
			return (enum door)door;
	}
	return DOOR_NONE;
}

/* Takes the task. */
static void serve(struct call *call, enum door door, struct task *task)
{
	struct err err = {0};

	if (!str_eq(request_method(call->request), doors[door].method)) {
		request_add_header(call->request, "Allow", doors[door].method);
		(void)err_set(&err, ERR_METHOD, "%s takes %s", doors[door].path,
		              doors[door].method);
	} else if (door != DOOR_HEALTH && !call->caller->is_connect) {
		request_add_header(call->request, "WWW-Authenticate", "Bearer realm=\"cloche\"");
		(void)err_set(&err, ERR_UNAUTHORIZED,
		              "%s takes the token of GET /sandboxes/{sandbox}/connect",
		              doors[door].path);
	}
	if (err.code != ERR_OK)
		call_fail(call, &err);
	else if (door == DOOR_HEALTH)
		health(call, task);
	else if (door == DOOR_EVENTS)
		events(call, task);
	if (err.code != ERR_OK || door != DOOR_COMMAND)
		task_free(task);
	else
		commands(call, task);
}

bool agent_server_take(struct call *call, const char *sandbox, const char *target)
{
	enum door door = door_of(target);
	struct task *task = NULL;

	if (door == DOOR_NONE || !agent_server_session(call->api, sandbox, &task))
		return false;
	serve(call, door, task);
	return true;
}

static int find(struct call *call, struct err *err)
{
	const struct caller *caller = call->caller;
	struct id run;

	if (!str_eq(call->params[1], "8080"))
		return err_set(err, ERR_FORBIDDEN, "this token is for port %d only",
		               AGENT_SERVER_PORT);
	if (store_sandbox_find(call->api->store, caller->team.text, call->params[0], &call->sandbox,
	                       err) < 0 ||
	    !tasks_run_in(call->api->tasks, call->sandbox->id.text, &run) ||
	    !str_eq(run.text, caller->run.text)) {
		*err = (struct err){0};
		record_denial(call->api, call->request, caller, call->route->name, call->params[0],
		              "another run's");
		return err_set(err, ERR_FORBIDDEN, "this token is of another run");
	}
	return 0;
}

void agent_server_enter(struct call *call)
{
	auto_free char *target = NULL;
	struct err err = {0};

	if (find(call, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	if (!str_eq(request_method(call->request), "GET"))
		record_action(call, call->sandbox->id.text, "connect");
	target = port_target(call);
	if (agent_server_take(call, call->sandbox->id.text, target))
		return;
	(void)err_set(&err, ERR_NOT_FOUND, "the agent server has /health, /events and /command");
	call_fail(call, &err);
}
