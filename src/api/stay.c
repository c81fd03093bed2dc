/*
 * GET /sandboxes/{sandbox}/exec: a command in a sandbox that is there, and its streams, over one
 * WebSocket: the client says an ExecRequest in a text message, hears the command's id once its row
 * is stored, and from then on it is as in attach.c. A client that leaves does not end the command:
 * whoever wants to goes on with it through /execs/{id}/attach.
 */
#include "api/attach.h"
#include "api/decode.h"
#include "api/encode.h"
#include "api/schema.h"
#include "base/mem.h"

struct stay {
	struct api *api;
	struct attach *attach; /* NULL: the client left */
	struct sandbox *sandbox;
	bool is_asked;    /* the one command was said */
	bool is_starting; /* the engine will answer */
};

static void stay_release(struct stay *stay)
{
	if (stay->attach || stay->is_starting)
		return;
	sandbox_free(stay->sandbox);
	mem_freep(&stay);
}

static void refuse(struct stay *stay, const struct err *err)
{
	attach_say(stay->attach, json_pack("{s:o}", "error", call_problem(err)));
	ws_close(stay->attach->ws, WS_NORMAL, "");
}

static void on_end(struct attach *attach, const struct tail_exit *end, void *ctx)
{
	attach_finish(attach, end);
}

static void on_gone(struct attach *attach, void *ctx)
{
	struct stay *stay = ctx;

	stay->attach = NULL;
	stay_release(stay);
}

static void on_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct stay *stay = ctx;

	stay->is_starting = false;
	if (!stay->attach) {
		stay_release(stay);
	} else if (!exec) {
		refuse(stay, err);
	} else {
		attach_say(stay->attach, json_pack("{s:{s:s, s:o}, s:{s:s}}", "sandbox", "id",
		                                   stay->sandbox->id.text, "limits",
		                                   encode_limits(&stay->sandbox->spec.limits),
		                                   "exec", "id", exec->id.text));
		attach_start(stay->attach);
	}
}

/* What a conversation has other words for. */
static int check_wish(const json_t *wish, struct err *err)
{
	static const char *const others[] = {"input", "background"};

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		const json_t *value = json_object_get(wish, others[i]);

		if (value && !json_is_false(value) && !json_is_null(value))
			return err_set(err, ERR_INVALID,
			               "'%s' is for POST /execs; here the streams follow",
			               others[i]);
	}
	return 0;
}

static void start(struct stay *stay, const struct decode_exec *decoded)
{
	struct engine *engine = stay->api->engine;
	struct exec_start start = {
		.exec = decoded->exec,
		.env = &decoded->env,
		.size = {decoded->rows, decoded->cols},
		.timeout_ms = decoded->timeout_ms,
		.has_stdin = decoded->has_stdin,
		.is_attached = true,
		.watch = &stay->attach->tail.watch,
	};

	attach_target(stay->attach, stay->sandbox->id.text, decoded->exec->id.text);
	stay->is_starting = true;
	engine->ops->exec(engine, &start, on_started, stay);
}

static int begin(struct stay *stay, const char *text, size_t len, struct err *err)
{
	struct decode_exec decoded;
	json_t *wish = NULL;
	int r = schema_read(schema_find("ExecRequest"), text, len, &wish, err);

	if (r == 0)
		r = check_wish(wish, err);
	if (r == 0)
		r = decode_exec(wish, &stay->sandbox->id, &stay->sandbox->spec, &decoded, err);
	json_decref(wish);
	if (r != 0)
		return -1;
	start(stay, &decoded);
	decode_exec_done(&decoded);
	return 0;
}

static void on_text(struct attach *attach, const char *text, size_t len, void *ctx)
{
	struct stay *stay = ctx;
	struct err err = {0};

	if (stay->is_asked) {
		ws_close(attach->ws, WS_POLICY, "one command a connection");
		return;
	}
	stay->is_asked = true;
	if (begin(stay, text, len, &err) < 0)
		refuse(stay, &err);
}

void handle_exec_stay(struct call *call)
{
	static const struct attach_ops ops = {on_text, on_end, on_gone};
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct err err = {0};
	struct stay *stay;

	if (call_sandbox(call, &sandbox) < 0)
		return;
	if (attach_check(call, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	stay = mem_new(struct stay);
	stay->api = call->api;
	stay->sandbox = take_ptr(sandbox);
	stay->attach = attach_new(call->api, false, &ops, stay);
	attach_accept(stay->attach, call);
}
