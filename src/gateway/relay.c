#include "gateway/relay.h"

#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "gateway/mask.h"
#include "http/request.h"
#include "model/service.h"

enum { PIECE = 64 * 1024 };

static const char LOOKED[] = "the body asks for what it may not";

struct relay {
	struct request *request;
	const struct relay_ops *ops;
	void *ctx;
	char *secret;
	uint64_t response_bytes;
	struct upstream *upstream; /* NULL: it is over, or never was */
	struct buf body, answer;
	size_t clean;       /* bytes of the answer that may go on */
	bool has_body;      /* the request has one */
	bool is_body_whole; /* and all of it came */
	bool is_looked_at;  /* its beginning is good */
	int status;         /* of the upstream; 0: none yet */
	uint64_t length;
	bool is_answered;
	bool is_held; /* the upstream waits for room */
	bool is_broken;
	uint64_t started_ms;
	struct relay_sum sum;
};

/* --- the end --- */

static void on_request_over(struct request *request, bool gone, void *ctx)
{
	struct relay *relay = ctx;

	upstream_drop(relay->upstream);
	relay->sum.took_ms = io_boot_ms() - relay->started_ms;
	relay->ops->over(&relay->sum, relay->ctx);
	if (relay->secret)
		mem_wipe_free(relay->secret, strlen(relay->secret));
	buf_done(&relay->body);
	buf_done(&relay->answer);
	request_unref(relay->request);
	mem_freep(&relay);
}

struct relay *relay_new(struct request *request, const struct relay_ops *ops, void *ctx)
{
	struct relay *relay = mem_new(struct relay);

	relay->request = request_ref(request);
	relay->ops = ops;
	relay->ctx = ctx;
	relay->started_ms = io_boot_ms();
	buf_init(&relay->body, PIECE);
	buf_init(&relay->answer, PIECE);
	request_set_on_end(request, on_request_over, relay);
	return relay;
}

struct request *relay_request(const struct relay *relay)
{
	return relay->request;
}

static void answer_plain(struct relay *relay, const struct err *err)
{
	auto_free char *text = mem_printf("%s\n", err->msg);

	request_answer(relay->request, relay->sum.status, "text/plain", text, strlen(text));
}

void relay_fail(struct relay *relay, const struct err *err, const char *denied)
{
	auto_free char *text = NULL;
	json_t *problem =
		json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", "about:blank", "title",
	                  "the call could not be passed on", "status", err_http(err->code),
	                  "detail", err->msg, "code", err_name(err->code));

	text = problem ? json_dumps(problem, JSON_COMPACT) : NULL;
	json_decref(problem);
	relay->is_answered = true;
	relay->sum.status = err_http(err->code);
	if (denied)
		relay->sum.denied = denied;
	if (relay->ops->is_plain)
		answer_plain(relay, err);
	else
		request_answer(relay->request, relay->sum.status, "application/problem+json",
		               text ? text : "", text ? strlen(text) : 0);
}

/* --- the answer --- */

static ssize_t on_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	struct relay *relay = ctx;
	size_t len = MIN(relay->clean, max);

	if (len > 0) {
		memcpy(to, buf_head(&relay->answer), len);
		buf_consume(&relay->answer, len);
		relay->clean -= len;
		relay->sum.received += len;
	}
	if (relay->is_held && relay->upstream) {
		relay->is_held = false;
		upstream_more(relay->upstream);
	}
	if (len > 0 || relay->upstream)
		return (ssize_t)len;
	return relay->is_broken ? REQUEST_STREAM_ABORT : REQUEST_STREAM_END;
}

/* The library below sends no answer before the whole body came, and drops the rest of a body once
 * there is an answer: so an answer waits, unless it is a refusal or nobody takes the body. */
static void try_answer(struct relay *relay)
{
	bool is_empty = relay->status == 204 || relay->status == 304;

	if (relay->is_answered || relay->status == 0)
		return;
	if (relay->has_body && !relay->is_body_whole && relay->upstream && relay->status < 400)
		return;
	relay->is_answered = true;
	relay->sum.status = relay->status;
	if (is_empty)
		request_answer(relay->request, relay->status, NULL, "", 0);
	else
		request_answer_stream(relay->request, relay->status, NULL, relay->length, on_pull,
		                      relay);
}

static void on_header(const char *name, const char *value, void *ctx)
{
	struct relay *relay = ctx;
	auto_free char *shown = NULL;

	if (!service_is_value(value) || !service_is_value(name))
		return;
	/* An upstream that repeats what it was sent. */
	if (relay->secret && strstr(value, relay->secret))
		return;
	shown = relay->ops->header(name, value, relay->ctx);
	if (shown)
		request_add_header(relay->request, name, shown);
}

static void on_head(int status, uint64_t length, void *ctx)
{
	struct relay *relay = ctx;

	relay->length = length;
	if (relay->ops->refuse)
		relay->sum.denied = relay->ops->refuse(status, relay->ctx);
	if (relay->sum.denied)
		return; /* on_bytes or on_end ends it */
	if (length != UINT64_MAX && length > relay->response_bytes &&
	    !str_eq(request_method(relay->request), "HEAD")) {
		relay->sum.denied = "the answer is too long"; /* on_bytes ends it */
		return;
	}
	relay->status = status;
	try_answer(relay);
}

static int on_bytes(const void *bytes, size_t len, void *ctx)
{
	struct relay *relay = ctx;

	if (relay->status == 0 ||
	    relay->sum.received + buf_len(&relay->answer) + len > relay->response_bytes) {
		if (!relay->sum.denied)
			relay->sum.denied = "the answer is too long";
		return -1;
	}
	if (buf_put(&relay->answer, bytes, len) < 0) {
		relay->is_held = true;
		return 0;
	}
	relay->clean = mask_stream(&relay->answer, relay->clean, relay->secret, false);
	request_more(relay->request);
	return 1;
}

static void on_end(const struct err *err, void *ctx)
{
	struct relay *relay = ctx;
	struct err failure = *err;

	relay->upstream = NULL;
	relay->is_broken = err->code != ERR_OK;
	relay->clean = mask_stream(&relay->answer, relay->clean, relay->secret, true);
	if (relay->sum.denied)
		err_set(&failure, ERR_PROTOCOL, "%s", relay->sum.denied);
	else if (relay->status == 0 && err->code == ERR_OK)
		err_set(&failure, ERR_PROTOCOL, "the upstream gave no answer");
	if (failure.code != ERR_OK && !relay->is_answered)
		relay_fail(relay, &failure, NULL);
	try_answer(relay);
	request_more(relay->request);
}

/* --- the body --- */

/* Nothing of it goes on before it is known what it asks for. */
static void look(struct relay *relay)
{
	struct err err = {0};
	int r = relay->ops->look ? relay->ops->look(buf_head(&relay->body), buf_len(&relay->body),
	                                            &err, relay->ctx)
	                         : 1;

	if (r == 0 && (relay->is_body_whole || buf_room(&relay->body) == 0))
		r = err_set(&err, ERR_INVALID, "the beginning of the body is cut, or too long");
	relay->is_looked_at = r > 0;
	if (r >= 0)
		return;
	upstream_drop(relay->upstream);
	relay->upstream = NULL;
	relay->is_broken = true;
	if (relay->ops->tell && relay->ops->tell(relay->request, &err, relay->ctx)) {
		relay->is_answered = true;
		relay->sum.status = err_http(err.code);
		relay->sum.denied = LOOKED;
	} else {
		relay_fail(relay, &err, LOOKED);
	}
}

static size_t on_chunk(struct request *request, const uint8_t *bytes, size_t len, void *ctx)
{
	struct relay *relay = ctx;
	size_t take = MIN(len, buf_room(&relay->body));

	if (len == 0) {
		relay->is_body_whole = true;
		if (relay->upstream && !relay->is_looked_at)
			look(relay);
		if (relay->upstream)
			upstream_more(relay->upstream);
		try_answer(relay);
		return 0;
	}
	if (!relay->upstream)
		return len; /* nobody wants it any more */
	if (take > 0 && buf_put(&relay->body, bytes, take) == 0) {
		if (!relay->is_looked_at)
			look(relay);
		if (relay->upstream)
			upstream_more(relay->upstream);
	}
	return take;
}

static ssize_t on_body(void *to, size_t max, void *ctx)
{
	struct relay *relay = ctx;
	size_t len = relay->is_looked_at ? MIN(buf_len(&relay->body), max) : 0;

	if (len == 0 && !relay->is_looked_at)
		return 0;
	if (len == 0)
		return relay->is_body_whole ? -1 : 0;
	memcpy(to, buf_head(&relay->body), len);
	buf_consume(&relay->body, len);
	relay->sum.sent += len;
	request_body_more(relay->request);
	return (ssize_t)len;
}

void relay_go(struct relay *relay, struct upstreams *upstreams, struct upstream_call *call,
              const char *secret, uint64_t response_bytes)
{
	static const struct upstream_ops ops = {
		.on_header = on_header,
		.on_head = on_head,
		.on_bytes = on_bytes,
		.on_body = on_body,
		.on_end = on_end,
	};

	relay->secret = secret ? mem_strdup(secret) : NULL;
	relay->response_bytes = response_bytes;
	call->method = request_method(relay->request);
	call->body_length = request_body_length(relay->request);
	relay->has_body = call->has_body = call->body_length > 0;
	relay->upstream = upstream_start(upstreams, call, &ops, relay);
	if (relay->has_body)
		request_stream_body(relay->request, on_chunk, relay);
}
