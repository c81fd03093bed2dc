#include "api/attach.h"

#include <string.h>

#include "api/authz.h"
#include "api/encode.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/request.h"
#include "store/store.h"

#define PROTOCOL "cloche.v1"

enum channel {
	CHANNEL_STDIN,  /* to us; no bytes: the end of input */
	CHANNEL_STDOUT, /* from us */
	CHANNEL_STDERR,
	CHANNEL_RESIZE, /* to us: rows, columns, u16 little-endian */
	CHANNEL_SIGNAL, /* to us: one byte */
	CHANNEL_EXIT,   /* from us: JSON */
	CHANNEL_GAP,    /* from us: u64 little-endian, where output goes on */
};

void attach_free(struct attach *attach)
{
	if (attach->tail.api)
		tail_done(&attach->tail);
	buf_done(&attach->input);
	ws_free(attach->ws);
	mem_freep(&attach);
}

/* --- to the client --- */

static int send_end(struct attach *attach, const struct tail_exit *end)
{
	uint8_t channel = CHANNEL_EXIT;
	json_t *json = json_pack("{s:o, s:o, s:s}", "exitCode",
	                         end->signal ? json_null() : json_integer(end->code), "signal",
	                         end->signal ? json_integer(end->signal) : json_null(), "reason",
	                         end->reason);
	auto_free char *text = json_dumps(json, JSON_COMPACT);

	json_decref(json);
	return ws_send(attach->ws, false, &channel, 1, text, strlen(text));
}

/* Said here, or by whoever wants to do something first. */
static int tell_end(struct attach *attach, const struct tail_exit *end)
{
	if (!attach->ops)
		return send_end(attach, end);
	attach->ops->on_end(attach, end, attach->ctx);
	return 0;
}

static int send_record(struct attach *attach, const struct outlog_record *record)
{
	uint8_t head[9];
	struct tail_exit end;

	if (record->stream == OUTLOG_EXIT) {
		tail_parse_exit(record, &end);
		return tell_end(attach, &end);
	}
	if (record->stream == OUTLOG_GAP) {
		head[0] = CHANNEL_GAP;
		for (int i = 0; i < 8; i++)
			head[1 + i] = (uint8_t)(record->offset >> (8 * i));
		return ws_send(attach->ws, false, head, 9, NULL, 0);
	}
	head[0] = record->stream == OUTLOG_STDERR ? CHANNEL_STDERR : CHANNEL_STDOUT;
	return ws_send(attach->ws, false, head, 1, record->bytes, record->len);
}

/* The log ended without an exit record: the row knows more, or the sandbox was lost. */
static void end_without_record(struct attach *attach)
{
	const struct exec *final = attach->tail.final;
	struct tail_exit end = {.signal = 9, .reason = "lost"};

	if (final) {
		end.signal = final->signal;
		end.code = final->exit_code;
		if (!final->reason || strlen(final->reason) >= sizeof(end.reason))
			end.reason[0] = '\0';
		else
			memcpy(end.reason, final->reason, strlen(final->reason) + 1);
	}
	if (tell_end(attach, &end) < 0)
		log_debug("a client did not hear of the end");
}

static void pump(struct attach *attach)
{
	struct err err = {0};

	while (!attach->has_ended) {
		int r = TAIL_RECORD;

		if (!attach->has_record)
			r = tail_next(&attach->tail, &attach->record, &err);
		if (r == TAIL_NOTHING_YET)
			break;
		if (r == TAIL_RECORD) {
			attach->has_record = send_record(attach, &attach->record) < 0;
			if (attach->has_record)
				return; /* on_writable goes on; nothing is acked beyond */
			attach->has_ended = attach->record.stream == OUTLOG_EXIT;
			if (ws_queued(attach->ws) < WS_QUEUE_LOW)
				tail_ack(&attach->tail);
			continue;
		}
		if (r == TAIL_END)
			end_without_record(attach);
		attach->has_ended = true;
	}
	tail_ack(&attach->tail);
	if (attach->has_ended && (!attach->ops || err.code != ERR_OK))
		ws_close(attach->ws, err.code == ERR_OK ? WS_NORMAL : WS_INTERNAL, err.msg);
}

static void on_ready(struct tail *tail, void *ctx)
{
	struct attach *attach = ctx;

	if (attach->ws && attach->is_started && !attach->has_record)
		pump(attach);
}

static void on_writable(struct ws *ws, void *ctx)
{
	struct attach *attach = ctx;

	if (attach->is_started)
		pump(attach);
}

/* --- from the client --- */

static void pour(struct attach *attach)
{
	struct engine *engine = attach->api->engine;
	ssize_t taken;

	if (!attach->is_started) {
		ws_pause(attach->ws, buf_len(&attach->input) > 0);
		return;
	}
	if (buf_len(&attach->input) == 0 && !attach->has_eof)
		return;
	taken = engine->ops->input(engine, &attach->tail.watch, buf_head(&attach->input),
	                           buf_len(&attach->input), attach->has_eof);
	if (taken < 0)
		buf_reset(&attach->input); /* it takes no input: not the client's mistake */
	else
		buf_consume(&attach->input, (size_t)taken);
	if (buf_len(&attach->input) == 0)
		attach->has_eof = false;
	ws_pause(attach->ws, buf_len(&attach->input) > 0);
}

static void on_room(struct tail *tail, void *ctx)
{
	struct attach *attach = ctx;

	if (attach->ws)
		pour(attach);
}

static void ignore_result(const struct err *err, void *ctx)
{
	/* A resize or signal that came too late is nobody's failure. */
}

static void on_input(struct attach *attach, const uint8_t *bytes, size_t len)
{
	if (attach->has_eof)
		return;
	attach->has_eof = len == 0;
	/* Reading is paused while anything waits, so one message always fits. */
	if (len > 0 && buf_put(&attach->input, bytes, len) < 0)
		ws_close(attach->ws, WS_POLICY, "too much input");
	pour(attach);
}

static void on_message(struct ws *ws, bool is_text, const uint8_t *bytes, size_t len, void *ctx)
{
	struct attach *attach = ctx;
	struct engine *engine = attach->api->engine;
	struct tail *tail = &attach->tail;

	if (is_text && attach->ops) {
		attach->ops->on_text(attach, (const char *)bytes, len, attach->ctx);
	} else if (is_text || len < 1) {
		ws_close(ws, WS_POLICY, "binary messages with a channel are spoken here");
	} else if (attach->is_readonly) {
		ws_close(ws, WS_POLICY, "this is a read-only connection");
	} else if (bytes[0] == CHANNEL_STDIN) {
		on_input(attach, bytes + 1, len - 1);
	} else if (!attach->is_started) {
		/* A resize or signal for a command that does not run yet: it was asked for anew. */
	} else if (bytes[0] == CHANNEL_RESIZE && len == 5) {
		const struct exec_size size = {bytes[1] | (uint64_t)bytes[2] << 8,
		                               bytes[3] | (uint64_t)bytes[4] << 8};

		engine->ops->resize(engine, tail->sandbox, tail->exec, size, ignore_result, NULL);
	} else if (bytes[0] == CHANNEL_SIGNAL && len == 2) {
		engine->ops->signal(engine, tail->sandbox, tail->exec, bytes[1], ignore_result,
		                    NULL);
	} else {
		ws_close(ws, WS_POLICY, "no such channel, or not of that length");
	}
}

static void gone(struct attach *attach)
{
	if (attach->ops)
		attach->ops->on_gone(attach, attach->ctx);
	attach_free(attach);
}

static void on_close(struct ws *ws, void *ctx)
{
	gone(ctx);
}

static void on_open(struct ws *ws, void *ctx)
{
	struct attach *attach = ctx;

	if (!ws) {
		gone(attach);
		return;
	}
	attach->ws = ws;
	if (attach->is_started)
		pump(attach);
}

/* --- for the handlers --- */

struct attach *attach_new(struct api *api, bool is_readonly, const struct attach_ops *ops,
                          void *ctx)
{
	struct attach *attach = mem_new(struct attach);

	attach->api = api;
	attach->is_readonly = is_readonly;
	attach->ops = ops;
	attach->ctx = ctx;
	buf_init(&attach->input, 2 * WS_MESSAGE_BYTES);
	return attach;
}

void attach_target(struct attach *attach, const char *sandbox, const char *exec)
{
	static const struct tail_ops ops = {on_ready, on_room};

	tail_init(&attach->tail, attach->api,
	          &(struct tail_target){sandbox, exec,
	                                attach->is_readonly ? 0 : TAIL_HOLD | TAIL_WRITER},
	          &ops, attach);
}

int attach_check(const struct call *call, struct err *err)
{
	return ws_check(call->request, PROTOCOL, err);
}

void attach_accept(struct attach *attach, struct call *call)
{
	static const struct ws_ops ops = {on_message, on_writable, on_close};

	ws_accept(call->request, PROTOCOL, &ops, on_open, attach);
	call_done(call);
}

void attach_start(struct attach *attach)
{
	attach->is_started = true;
	pour(attach);
	pump(attach);
}

void attach_finish(struct attach *attach, const struct tail_exit *end)
{
	if (send_end(attach, end) < 0)
		log_debug("a client did not hear of the end");
	ws_close(attach->ws, WS_NORMAL, "");
}

void attach_say(struct attach *attach, json_t *json)
{
	auto_free char *text = json_dumps(json, JSON_COMPACT);

	json_decref(json);
	if (ws_send(attach->ws, true, NULL, 0, text, strlen(text)) < 0)
		log_debug("a client did not hear a message");
}

void handle_exec_attach(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct err err = {0};
	struct attach *attach;

	if (!call_query_bool(call, "readonly") &&
	    authz_more(call, SCOPE_SANDBOXES_WRITE, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	if (call_exec(call, &sandbox, &exec) < 0)
		return;
	attach = attach_new(call->api, call_query_bool(call, "readonly"), NULL, NULL);
	attach_target(attach, sandbox->id.text, exec->id.text);
	attach->tail.watch.written = exec->output_bytes;
	if (attach_check(call, &err) < 0 ||
	    tail_join(&attach->tail, call_query_u64(call, "offset", 0), &err) < 0) {
		attach_free(attach);
		call_fail(call, &err);
		return;
	}
	attach->is_started = true;
	attach_accept(attach, call);
}
