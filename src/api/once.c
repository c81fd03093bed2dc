/*
 * POST /run: one command in a sandbox of its own, as one request with one answer. The answer comes
 * when the command has ended; the sandbox goes after it, as in run.c. A client that leaves does not
 * end the command: its timeout does, or the sandbox's time to live.
 */
#include "api/authz.h"
#include "api/call.h"
#include "api/capture.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/request.h"

struct once {
	struct call *call; /* NULL: answered */
	struct id sandbox;
	struct capture capture;
	bool has_capture;
	bool is_started; /* before, nothing may end it */
	bool is_due;     /* there was something to read before that */
	unsigned pending;
};

static void release(struct once *once)
{
	if (once->pending > 0 || once->call)
		return;
	if (once->has_capture)
		capture_done(&once->capture);
	mem_freep(&once);
}

static void on_removed(const struct err *err, void *ctx)
{
	struct once *once = ctx;

	once->pending--;
	if (err->code != ERR_OK && !once->capture.tail.api->is_shut)
		log_warn("the sandbox of a command that ended stays for now",
		         LOG_STR("sandbox", once->sandbox.text), LOG_ERR(err));
	release(once);
}

/* The answer first: whoever waits for it waits neither for the store nor for what a keeper does
 * when it is told to end, which would get its turn before us. */
static void end(struct once *once, json_t *result, const struct err *err)
{
	struct call *call = take_ptr(once->call);
	struct request *request = request_ref(call->request);
	struct api *api = call->api;

	once->pending++;
	if (result)
		call_answer(call, 200, result);
	else
		call_fail(call, err);
	request_flush(request);
	request_unref(request);
	api->engine->ops->remove(api->engine, once->sandbox.text,
	                         ENGINE_REMOVE_FORCE | ENGINE_REMOVE_DETACH, on_removed, once);
}

static void on_ready(struct tail *tail, void *ctx)
{
	struct once *once = ctx;
	struct err err = {0};

	if (!once->call)
		return;
	if (!once->is_started) {
		once->is_due = true;
		return;
	}
	if (capture_read(&once->capture, &err) < 0) {
		end(once, NULL, &err);
	} else if (once->capture.has_end) {
		end(once, capture_result(&once->capture, &once->capture.end), NULL);
	} else if (!tail->is_live) {
		(void)err_set(&err, ERR_GONE,
		              "the sandbox ended before the command"); /* always -1 */
		end(once, NULL, &err);
	}
}

static void on_room(struct tail *tail, void *ctx)
{
	struct once *once = ctx;

	capture_feed(&once->capture);
}

static void on_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct once *once = ctx;

	once->pending--;
	if (!exec) {
		end(once, NULL, err);
		return;
	}
	once->is_started = true;
	capture_feed(&once->capture);
	if (once->is_due)
		on_ready(&once->capture.tail, once);
}

static int start_command(struct once *once, const struct sandbox *sandbox, struct err *err)
{
	static const struct tail_ops ops = {on_ready, on_room};
	const json_t *wish = json_object_get(once->call->body, "exec");
	struct engine *engine = once->call->api->engine;
	struct decode_exec decoded;

	if (decode_exec(wish, &sandbox->id, &sandbox->spec, &decoded, err) < 0)
		return -1;
	capture_init(&once->capture, once->call->api, &decoded, TAIL_HOLD, &ops, once);
	once->has_capture = true;
	struct exec_start start = {
		.exec = decoded.exec,
		.env = &decoded.env,
		.size = {decoded.rows, decoded.cols},
		.timeout_ms = decoded.timeout_ms,
		.has_stdin = decoded.has_stdin,
		.is_attached = true,
		.watch = &once->capture.tail.watch,
	};
	once->pending++;
	engine->ops->exec(engine, &start, on_started, once);
	decode_exec_done(&decoded);
	return 0;
}

static void on_created(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct once *once = ctx;
	struct err failed = *err;

	once->pending--;
	if (sandbox) {
		once->sandbox = sandbox->id;
		if (start_command(once, sandbox, &failed) < 0)
			end(once, NULL, &failed);
		return;
	}
	call_fail(take_ptr(once->call), &failed);
	release(once);
}

/* A command nobody could feed, or whose answer would come before its end. */
static int check_wish(const json_t *exec, struct err *err)
{
	static const char *const others[] = {"stdin", "attach", "background"};

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		if (json_is_true(json_object_get(exec, others[i])))
			return err_set(err, ERR_INVALID,
			               "'exec.%s' is for a sandbox that stays; give small input as "
			               "'input'",
			               others[i]);
	}
	return 0;
}

void handle_run_once(struct call *call)
{
	struct engine *engine = call->api->engine;
	struct once *once;
	struct spec spec;
	struct err err = {0};

	if (check_wish(json_object_get(call->body, "exec"), &err) < 0 ||
	    authz_spec(call->api, call->caller, call->audit, json_object_get(call->body, "sandbox"),
	               &spec, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	once = mem_new(struct once);
	once->call = call;
	once->capture.tail.api = call->api;
	once->pending++;
	spec.is_ephemeral = true;
	spec_mark_for_one_command(&spec);
	engine->ops->create(engine, &spec, on_created, once);
	spec_done(&spec);
}
