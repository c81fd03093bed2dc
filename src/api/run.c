/*
 * One command in a sandbox of its own, over one WebSocket: the client says what it wants in a text
 * message, hears what was made, and from then on the streams flow as in attach.c. The sandbox goes
 * when the command ends or the client leaves, whichever comes first. The end is said at once: it is
 * no promise about what is stored, and a daemon that dies before the removal is leaves a sandbox
 * that orphan.c finds. When the daemon itself ends, sandbox and command stay: the client goes on
 * with the next daemon through /execs/{id}/attach.
 */
#include "api/attach.h"
#include "api/authz.h"
#include "api/decode.h"
#include "api/encode.h"
#include "api/schema.h"
#include "base/log.h"
#include "base/mem.h"

struct run {
	struct api *api;
	struct caller *caller;
	uint64_t audit;        /* ticket of its sandbox */
	struct attach *attach; /* NULL: the client left */
	json_t *wish;          /* RunRequest; NULL: not yet said */
	struct id sandbox;
	json_t *limits; /* of it, for the client's messages */
	bool has_sandbox;
	bool is_removing;
	bool is_told;     /* how it ended, or why it did not begin */
	unsigned pending; /* answers of the engine that will come */
	struct err why;   /* the error to be said after the removal */
};

static void run_release(struct run *run)
{
	if (run->attach || run->pending > 0)
		return;
	caller_unref(run->caller);
	json_decref(run->wish);
	json_decref(run->limits);
	mem_freep(&run);
}

/* --- the end --- */

static void say_why(struct run *run)
{
	if (!run->attach || run->is_told)
		return;
	run->is_told = true;
	attach_say(run->attach, json_pack("{s:o}", "error", call_problem(&run->why)));
	ws_close(run->attach->ws, WS_NORMAL, "");
}

static void on_removed(const struct err *err, void *ctx)
{
	struct run *run = ctx;

	run->pending--;
	if (err->code != ERR_OK && !run->api->is_shut)
		log_warn("the sandbox of a command that ended stays for now",
		         LOG_STR("sandbox", run->sandbox.text), LOG_ERR(err));
	say_why(run);
	run_release(run);
}

static void remove_sandbox(struct run *run)
{
	struct engine *engine = run->api->engine;

	if (run->is_removing)
		return;
	run->is_removing = true;
	run->pending++;
	engine->ops->remove(engine, run->sandbox.text, ENGINE_REMOVE_FORCE | ENGINE_REMOVE_DETACH,
	                    on_removed, run);
}

/* What was made goes first, then the client hears why. */
static void give_up(struct run *run, const struct err *err)
{
	run->why = *err;
	if (run->has_sandbox)
		remove_sandbox(run);
	else
		say_why(run);
}

static void on_end(struct attach *attach, const struct tail_exit *end, void *ctx)
{
	struct run *run = ctx;

	run->is_told = true;
	attach_finish(attach, end);
	remove_sandbox(run);
}

static void on_gone(struct attach *attach, void *ctx)
{
	struct run *run = ctx;

	run->attach = NULL;
	if (run->has_sandbox && !run->api->is_shut)
		remove_sandbox(run);
	run_release(run);
}

/* --- the beginning --- */

static void on_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct run *run = ctx;

	run->pending--;
	if (!run->attach) {
		run_release(run);
	} else if (!exec) {
		give_up(run, err);
	} else {
		attach_say(run->attach,
		           json_pack("{s:{s:s, s:O}, s:{s:s}}", "sandbox", "id", run->sandbox.text,
		                     "limits", run->limits, "exec", "id", exec->id.text));
		attach_start(run->attach);
	}
}

static int start_command(struct run *run, const struct sandbox *sandbox, struct err *err)
{
	struct engine *engine = run->api->engine;
	struct decode_exec decoded;

	if (decode_exec(json_object_get(run->wish, "exec"), &sandbox->id, &sandbox->spec, &decoded,
	                err) < 0)
		return -1;
	attach_target(run->attach, sandbox->id.text, decoded.exec->id.text);
	struct exec_start start = {
		.exec = decoded.exec,
		.env = &decoded.env,
		.size = {decoded.rows, decoded.cols},
		.timeout_ms = decoded.timeout_ms,
		.has_stdin = decoded.has_stdin,
		.is_attached = true,
		.watch = &run->attach->tail.watch,
	};
	run->pending++;
	engine->ops->exec(engine, &start, on_started, run);
	decode_exec_done(&decoded);
	return 0;
}

static void on_created(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct run *run = ctx;
	struct err failed = *err;

	run->pending--;
	if (sandbox) {
		run->sandbox = sandbox->id;
		run->has_sandbox = true;
		run->limits = encode_limits(&sandbox->spec.limits);
	}
	if (!run->attach) {
		if (sandbox && !run->api->is_shut)
			remove_sandbox(run);
		run_release(run);
	} else if (!sandbox || start_command(run, sandbox, &failed) < 0) {
		give_up(run, &failed);
	}
}

static int begin(struct run *run, const char *text, size_t len, struct err *err)
{
	struct engine *engine = run->api->engine;
	struct spec spec;
	json_t *wish = NULL;

	if (schema_read(schema_find("RunRequest"), text, len, &wish, err) < 0)
		return -1;
	run->wish = wish;
	if (authz_spec(run->api, run->caller, run->audit, json_object_get(wish, "sandbox"), &spec,
	               err) < 0)
		return -1;
	spec.is_ephemeral = true;
	spec_mark_for_one_command(&spec);
	run->pending++;
	engine->ops->create(engine, &spec, on_created, run);
	spec_done(&spec);
	return 0;
}

static void on_text(struct attach *attach, const char *text, size_t len, void *ctx)
{
	struct run *run = ctx;
	struct err err = {0};

	if (run->wish || run->why.code != ERR_OK)
		ws_close(attach->ws, WS_POLICY, "one command a connection");
	else if (begin(run, text, len, &err) < 0)
		give_up(run, &err);
}

void handle_run(struct call *call)
{
	static const struct attach_ops ops = {on_text, on_end, on_gone};
	struct err err = {0};
	struct run *run;

	if (attach_check(call, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	run = mem_new(struct run);
	run->api = call->api;
	run->caller = caller_ref(call->caller);
	run->audit = call->audit;
	run->attach = attach_new(call->api, false, &ops, run);
	attach_accept(run->attach, call);
}
