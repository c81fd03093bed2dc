#include "api/call.h"
#include "api/capture.h"
#include "api/decode.h"
#include "api/encode.h"
#include "api/tail.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "store/store.h"

static void on_done(const struct err *err, void *ctx)
{
	struct call *call = ctx;

	if (err->code == ERR_OK)
		call_answer_empty(call);
	else
		call_fail(call, err);
}

/* --- run: feeds the given input, collects the output, answers when it ended --- */

struct run {
	struct call *call;
	struct capture capture;
	bool waits;      /* answer at the end, not at the start */
	bool is_started; /* its start is answered; before, nothing may end the run */
	bool is_due;     /* there was something to read before that */
};

static void run_free(struct run *run)
{
	capture_done(&run->capture);
	mem_freep(&run);
}

static void run_answer(struct run *run)
{
	const struct exec *final = run->capture.tail.final;
	struct call *call = run->call;
	struct tail_exit end = {0};
	struct err err = {0};
	json_t *object = NULL;

	if (final) {
		end.code = final->exit_code;
		end.signal = final->signal;
		(void)!str_copy(end.reason, sizeof(end.reason), final->reason ? final->reason : "");
		object = capture_result(&run->capture, &end);
	}
	run_free(run);
	if (object) {
		call_answer(call, 200, object);
		return;
	}
	(void)err_set(&err, ERR_GONE, "the sandbox ended before the command"); /* always -1 */
	call_fail(call, &err);
}

/* Reads all there is; the answer waits for the commit of the end (the tail is then not live). */
static void on_ready(struct tail *tail, void *ctx)
{
	struct run *run = ctx;
	struct err err = {0};

	if (!run->is_started) {
		run->is_due = true;
	} else if (!run->waits) {
		if (!tail->is_live)
			run_free(run);
	} else if (capture_read(&run->capture, &err) < 0) {
		struct call *call = run->call;

		run_free(run);
		call_fail(call, &err);
	} else if (!tail->is_live) {
		run_answer(run);
	}
}

static void on_room(struct tail *tail, void *ctx)
{
	struct run *run = ctx;

	capture_feed(&run->capture);
}

static void on_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct run *run = ctx;
	struct call *call = run->call;

	if (!exec) {
		run_free(run);
		call_fail(call, err);
		return;
	}
	run->is_started = true;
	capture_feed(&run->capture);
	if (run->waits) {
		if (run->is_due)
			on_ready(&run->capture.tail, run);
		return;
	}
	run->call = NULL;
	if (run->capture.is_input_done || (run->is_due && !run->capture.tail.is_live))
		run_free(run); /* else it stays until the input is fed */
	call_answer(call, 201, encode_exec(exec));
}

static void run_start(struct call *call, const struct decode_exec *decoded)
{
	static const struct tail_ops ops = {on_ready, on_room};
	struct engine *engine = call->api->engine;
	struct run *run = mem_new(struct run);
	struct exec_start start = {
		.exec = decoded->exec,
		.env = &decoded->env,
		.size = {decoded->rows, decoded->cols},
		.timeout_ms = decoded->timeout_ms,
		.has_stdin = decoded->has_stdin,
		.is_attached = !decoded->exec->background,
	};

	run->call = call;
	run->waits = !decoded->exec->background && !decoded->attach;
	capture_init(&run->capture, call->api, decoded, run->waits ? TAIL_HOLD : 0, &ops, run);
	if (run->waits || decoded->input)
		start.watch = &run->capture.tail.watch;
	engine->ops->exec(engine, &start, on_started, run);
}

void handle_exec_create(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct decode_exec decoded;
	struct err err = {0};

	if (call_sandbox(call, &sandbox) < 0)
		return;
	if (decode_exec(call->body, &sandbox->id, &sandbox->spec, &decoded, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	if (decoded.has_stdin && !decoded.input && !decoded.exec->background && !decoded.attach) {
		(void)err_set(
			&err, ERR_INVALID,
			"'stdin' needs 'attach' or 'background'; give small input as 'input'");
		call_fail(call, &err);
	} else {
		run_start(call, &decoded);
	}
	decode_exec_done(&decoded);
}

/* --- looking --- */

/* The store learns how much it wrote when it ends. */
static json_t *encode_now(const struct call *call, struct exec *exec)
{
	struct engine *engine = call->api->engine;

	if (!exec->ended_ms)
		exec->output_bytes =
			MAX(exec->output_bytes,
		            engine->ops->written(engine, exec->sandbox.text, exec->id.text));
	return encode_exec(exec);
}

void handle_exec_list(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct exec_filter filter = {0};
	struct exec_page page = {0};
	struct err err = {0};
	json_t *items;

	if (call_sandbox(call, &sandbox) < 0)
		return;
	filter.sandbox = sandbox->id.text;
	filter.running_only = call_query_bool(call, "running");
	filter.cursor = call_query(call, "cursor", NULL);
	filter.limit = MIN(call_query_u64(call, "limit", 0), (uint64_t)LIMIT_PAGE);
	if (store_exec_list(call->api->store, &filter, &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, encode_now(call, page.items[i]));
	call_answer(call, 200, encode_page(items, page.next_cursor));
	exec_page_done(&page);
}

void handle_exec_info(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;

	if (call_exec(call, &sandbox, &exec) == 0)
		call_answer(call, 200, encode_now(call, exec));
}

/* --- acting --- */

void handle_exec_forget(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct engine *engine = call->api->engine;

	if (call_exec(call, &sandbox, &exec) == 0)
		engine->ops->forget(engine, sandbox->id.text, exec->id.text, on_done, call);
}

void handle_exec_kill(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct engine *engine = call->api->engine;

	if (call_exec(call, &sandbox, &exec) == 0)
		engine->ops->kill(engine, sandbox->id.text, exec->id.text, on_done, call);
}

void handle_exec_signal(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct engine *engine = call->api->engine;
	struct err err = {0};
	int signal;

	if (call_exec(call, &sandbox, &exec) < 0)
		return;
	if (decode_signal(json_string_value(json_object_get(call->body, "signal")), &signal, &err) <
	    0)
		call_fail(call, &err);
	else
		engine->ops->signal(engine, sandbox->id.text, exec->id.text, signal, on_done, call);
}

void handle_exec_resize(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct engine *engine = call->api->engine;
	json_int_t rows = json_integer_value(json_object_get(call->body, "rows"));
	json_int_t cols = json_integer_value(json_object_get(call->body, "cols"));
	struct err err = {0};

	if (call_exec(call, &sandbox, &exec) < 0)
		return;
	if (rows < 1 || rows > UINT16_MAX || cols < 1 || cols > UINT16_MAX) {
		(void)err_set(&err, ERR_INVALID, "'rows' and 'cols' must be 1 to %d",
		              UINT16_MAX); /* always -1 */
		call_fail(call, &err);
		return;
	}
	engine->ops->resize(engine, sandbox->id.text, exec->id.text,
	                    (struct exec_size){(uint64_t)rows, (uint64_t)cols}, on_done, call);
}

/* --- stdin: the body goes in at the pace the command reads --- */

struct pour {
	struct call *call;
	struct tail tail;
	bool eof;
};

static void pour_free(struct pour *pour)
{
	request_set_on_end(pour->call->request, NULL, NULL);
	tail_done(&pour->tail);
	mem_freep(&pour);
}

static void pour_end(struct pour *pour, const struct err *err)
{
	struct call *call = pour->call;

	pour_free(pour);
	on_done(err, call);
}

static size_t on_pour_chunk(struct request *request, const uint8_t *bytes, size_t len, void *ctx)
{
	struct pour *pour = ctx;
	struct engine *engine = pour->call->api->engine;
	struct err err = {0};
	ssize_t taken =
		engine->ops->input(engine, &pour->tail.watch, bytes, len, len == 0 && pour->eof);

	if (taken < 0)
		(void)err_set(&err, ERR_CONFLICT,
		              "the command has ended or takes no input"); /* always -1 */
	if (taken < 0 || len == 0) {
		pour_end(pour, &err);
		return len;
	}
	return (size_t)taken;
}

static void on_pour_ready(struct tail *tail, void *ctx)
{
	struct pour *pour = ctx;
	struct err err = {0};

	if (tail->is_live)
		return;
	(void)err_set(&err, ERR_CONFLICT, "the command has ended"); /* always -1 */
	pour_end(pour, &err);
}

static void on_pour_room(struct tail *tail, void *ctx)
{
	struct pour *pour = ctx;

	request_body_more(pour->call->request);
}

static void on_pour_gone(struct request *request, bool gone, void *ctx)
{
	struct pour *pour = ctx;
	struct call *call = pour->call;

	pour_free(pour);
	call_done(call);
}

void handle_exec_stdin(struct call *call)
{
	static const struct tail_ops ops = {on_pour_ready, on_pour_room};
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct err err = {0};
	struct pour *pour;

	if (call_exec(call, &sandbox, &exec) < 0)
		return;
	pour = mem_new(struct pour);
	pour->call = call;
	pour->eof = call_query_bool(call, "eof");
	tail_init(&pour->tail, call->api,
	          &(struct tail_target){sandbox->id.text, exec->id.text, TAIL_WRITER}, &ops, pour);
	if (tail_join(&pour->tail, 0, &err) == 0 && !pour->tail.is_live)
		(void)err_set(&err, ERR_CONFLICT, "the command has ended"); /* always -1 */
	if (err.code != ERR_OK) {
		pour_end(pour, &err);
		return;
	}
	request_set_on_end(call->request, on_pour_gone, pour);
	request_stream_body(call->request, on_pour_chunk, pour);
}
