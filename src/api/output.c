/*
 * Output as a document (the bytes of one stream or of all) or as events (each record with its
 * place and time). Both read at the client's pace and hold nothing back: a reader that lags more
 * than what is kept gets a gap.
 */
#include <stdio.h>

#include "api/call.h"
#include "api/encode.h"
#include "api/tail.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "http/sse.h"
#include "store/store.h"

enum { WANT_STDOUT = 1 << OUTLOG_STDOUT, WANT_STDERR = 1 << OUTLOG_STDERR };

struct view {
	struct tail tail;
	struct request *request; /* NULL for events */
	struct sse *sse;
	unsigned wanted; /* mask of streams */
	bool follows;
	struct outlog_record record; /* being sent */
	uint32_t sent;               /* bytes of it */
	bool has_record;
};

static void view_free(struct view *view)
{
	tail_done(&view->tail);
	request_unref(view->request);
	mem_freep(&view);
}

/* --- as bytes --- */

/* The next record of a wanted stream: 1, 0 nothing yet, or how the answer ends. */
static ssize_t next_wanted(struct view *view)
{
	struct err err = {0};
	int r;

	do
		r = tail_next(&view->tail, &view->record, &err);
	while (r == TAIL_RECORD && !(view->wanted & (1u << view->record.stream)));
	if (r < 0) {
		log_error("an output cannot be read", LOG_ERR(&err));
		return REQUEST_STREAM_ABORT;
	}
	if (r == TAIL_END || (r == TAIL_NOTHING_YET && !view->follows))
		return REQUEST_STREAM_END;
	view->has_record = r == TAIL_RECORD;
	view->sent = 0;
	return r == TAIL_RECORD;
}

static ssize_t on_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	struct view *view = ctx;
	size_t take;

	if (!view->has_record) {
		ssize_t r = next_wanted(view);

		if (r != 1)
			return r;
	}
	take = MIN(max, (size_t)(view->record.len - view->sent));
	memcpy(to, view->record.bytes + view->sent, take);
	view->sent += (uint32_t)take;
	view->has_record = view->sent < view->record.len;
	return (ssize_t)take;
}

static void on_request_end(struct request *request, bool gone, void *ctx)
{
	view_free(ctx);
}

/* --- as events --- */

static int send_record(struct view *view, const struct outlog_record *record)
{
	static const char *const names[] = {"stdin", "stdout", "stderr", "gap", "exit"};
	char id[24];
	json_t *json = json_pack("{s:s, s:I, s:o}", "stream", names[record->stream], "offset",
	                         (json_int_t)record->offset, "time", encode_time(record->time_ms));
	auto_free char *text = NULL;
	uint64_t next = record->offset;

	if (record->stream == OUTLOG_EXIT) {
		struct tail_exit end;

		tail_parse_exit(record, &end);
		json_object_set_new(json, "exitCode",
		                    end.signal ? json_null() : json_integer(end.code));
		json_object_set_new(json, "signal",
		                    end.signal ? json_integer(end.signal) : json_null());
		json_object_set_new(json, "reason", json_string(end.reason));
	} else if (record->stream != OUTLOG_GAP) {
		json_object_set_new(json, "data", encode_base64(record->bytes, record->len));
		next += record->len;
	}
	text = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	/* The id is where to go on: what a client sends back as Last-Event-ID. */
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)next); /* 20 digits at most */
	return sse_send(view->sse, id, "output", text);
}

static bool is_wanted(const struct view *view)
{
	return view->record.stream == OUTLOG_GAP || view->record.stream == OUTLOG_EXIT ||
	       (view->wanted & (1u << view->record.stream));
}

static void pump_events(struct view *view)
{
	struct err err = {0};

	for (;;) {
		int r = TAIL_RECORD;

		if (!view->has_record)
			r = tail_next(&view->tail, &view->record, &err);
		if (r == TAIL_NOTHING_YET && view->follows)
			return;
		if (r != TAIL_RECORD) {
			sse_finish(view->sse);
			return;
		}
		view->has_record = is_wanted(view) && send_record(view, &view->record) < 0;
		if (view->has_record)
			return; /* on_writable goes on with it */
	}
}

static void on_writable(struct sse *sse, void *ctx)
{
	pump_events(ctx);
}

static void on_sse_end(struct sse *sse, bool gone, void *ctx)
{
	view_free(ctx);
}

/* --- both --- */

static void on_ready(struct tail *tail, void *ctx)
{
	struct view *view = ctx;

	if (view->request)
		request_more(view->request);
	else if (!view->has_record)
		pump_events(view);
}

static int wanted_streams(const char *name, unsigned *ret, struct err *err)
{
	if (str_eq(name, "all"))
		*ret = WANT_STDOUT | WANT_STDERR;
	else if (str_eq(name, "stdout"))
		*ret = WANT_STDOUT;
	else if (str_eq(name, "stderr"))
		*ret = WANT_STDERR;
	else
		return err_set(err, ERR_INVALID, "'stream' is stdout, stderr or all");
	return 0;
}

static void show(struct call *call, const struct exec *exec)
{
	static const struct tail_ops tail_ops = {on_ready, NULL};
	static const struct sse_ops sse_ops = {on_writable, on_sse_end};
	const char *last = request_header(call->request, "Last-Event-ID");
	uint64_t offset = call_query_u64(call, "offset", 0);
	struct view *view = mem_new(struct view);
	struct err err = {0};

	view->follows = call_query_bool(call, "follow");
	tail_init(&view->tail, call->api,
	          &(struct tail_target){exec->sandbox.text, exec->id.text, 0, exec->output_bytes},
	          &tail_ops, view);
	if (last && str_to_u64(last, &offset) < 0)
		(void)err_set(&err, ERR_INVALID, "Last-Event-ID is a number"); /* always -1 */
	if (err.code != ERR_OK ||
	    wanted_streams(call_query(call, "stream", "all"), &view->wanted, &err) < 0 ||
	    tail_join(&view->tail, offset, &err) < 0) {
		view_free(view);
		call_fail(call, &err);
		return;
	}
	if (sse_is_wanted(call->request)) {
		view->sse = sse_open(call->request, &sse_ops, view);
		pump_events(view);
	} else {
		view->request = request_ref(call->request);
		request_set_on_end(call->request, on_request_end, view);
		request_answer_stream(call->request, 200, "application/octet-stream", UINT64_MAX,
		                      on_pull, view);
	}
	call_done(call);
}

void handle_exec_output(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;

	if (call_exec(call, &sandbox, &exec) == 0)
		show(call, exec);
}

void handle_sandbox_logs(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	const char *wanted = call_query(call, "exec", NULL);
	struct err err = {0};

	if (wanted) {
		call->params[1] = mem_strdup(wanted);
		handle_exec_output(call);
		return;
	}
	if (call_sandbox(call, &sandbox) < 0)
		return;
	if (store_exec_latest(call->api->store, sandbox->id.text, &exec, &err) < 0) {
		if (err.code == ERR_NOT_FOUND)
			(void)err_set(&err, ERR_NOT_FOUND,
			              "no command was run in this sandbox"); /* always -1 */
		call_fail(call, &err);
		return;
	}
	show(call, exec);
}
