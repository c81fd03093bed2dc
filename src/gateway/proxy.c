#include "gateway/proxy.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/addr.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "gateway/headers.h"
#include "gateway/mask.h"
#include "gateway/upstream.h"
#include "http/request.h"

enum { PIECE = 64 * 1024, GRANTS = 128, TEST_MS = 20 * 1000 };

struct proxy {
	struct proxy_config config;
	struct upstreams *upstreams;
	struct addr_cidr granted[GRANTS];
	size_t granted_count;
};

/* One call. Lives until its request is over. */
struct relay {
	struct proxy *proxy;
	struct request *request;
	char *sandbox, *name, *path;
	struct service *service;
	char *secret;
	struct upstream *upstream; /* NULL: it is over, or never was */
	struct buf body, answer;
	size_t clean;  /* bytes of the answer that may go on */
	bool has_body; /* and all of it came */
	bool is_body_whole;
	int status; /* of the upstream; 0: none yet */
	uint64_t length;
	bool is_answered;
	bool is_held; /* the upstream waits for room */
	bool is_broken;
	const char *denied;
	int told_status;
	uint64_t sent, received, started_ms;
};

static void take_grants(struct proxy *proxy, const struct strings *cidrs)
{
	for (size_t i = 0; i < cidrs->count && proxy->granted_count < GRANTS; i++) {
		/* Checked when the file was read. */
		if (addr_parse_cidr(cidrs->items[i], &proxy->granted[proxy->granted_count]))
			proxy->granted_count++;
	}
}

struct proxy *proxy_new(const struct proxy_config *config)
{
	struct proxy *proxy = mem_new(struct proxy);

	proxy->config = *config;
	proxy->upstreams = upstreams_new(config->loop, config->config->service_ca);
	take_grants(proxy, &config->config->service_cidrs);
	return proxy;
}

void proxy_free(struct proxy *proxy)
{
	if (!proxy)
		return;
	upstreams_free(proxy->upstreams);
	mem_freep(&proxy);
}

/* --- the end --- */

static void tell(const struct relay *relay)
{
	struct proxy_report report = {.sandbox = relay->sandbox,
	                              .service = relay->name,
	                              .method = request_method(relay->request),
	                              .path = relay->path,
	                              .status = relay->told_status,
	                              .denied = relay->denied,
	                              .sent = relay->sent,
	                              .received = relay->received,
	                              .took_ms = io_boot_ms() - relay->started_ms};

	relay->proxy->config.told(&report, relay->proxy->config.ctx);
}

static void relay_free(struct relay *relay)
{
	upstream_drop(relay->upstream);
	gateway_secret_wipe(&relay->secret);
	service_free(relay->service);
	buf_done(&relay->body);
	buf_done(&relay->answer);
	mem_freep(&relay->sandbox);
	mem_freep(&relay->name);
	mem_freep(&relay->path);
	request_unref(relay->request);
	mem_freep(&relay);
}

static void on_request_over(struct request *request, bool gone, void *ctx)
{
	tell(ctx);
	relay_free(ctx);
}

static void fail(struct relay *relay, const struct err *err)
{
	auto_free char *text = NULL;
	json_t *problem =
		json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", "about:blank", "title",
	                  "the service could not be called", "status", err_http(err->code),
	                  "detail", err->msg, "code", err_name(err->code));

	text = problem ? json_dumps(problem, JSON_COMPACT) : NULL;
	json_decref(problem);
	relay->is_answered = true;
	relay->told_status = err_http(err->code);
	request_answer(relay->request, relay->told_status, "application/problem+json",
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
		relay->received += len;
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
	relay->told_status = relay->status;
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

	if (!headers_may_return(name) || !service_is_value(value) || !service_is_value(name))
		return;
	/* An upstream that repeats what it was sent. */
	if (relay->secret && strstr(value, relay->secret))
		return;
	shown = headers_translate(relay->service, name, value);
	request_add_header(relay->request, name, shown ? shown : value);
}

static void on_head(int status, uint64_t length, void *ctx)
{
	struct relay *relay = ctx;

	relay->status = status;
	relay->length = length;
	if (length != UINT64_MAX && length > relay->service->response_bytes &&
	    !str_eq(request_method(relay->request), "HEAD"))
		relay->status = 0; /* on_bytes ends it */
	if (relay->status == 0)
		relay->denied = "the answer is too long";
	else
		try_answer(relay);
}

static int on_bytes(const void *bytes, size_t len, void *ctx)
{
	struct relay *relay = ctx;

	if (relay->status == 0 ||
	    relay->received + buf_len(&relay->answer) + len > relay->service->response_bytes) {
		relay->denied = "the answer is too long";
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
	if (relay->denied)
		err_set(&failure, ERR_PROTOCOL, "%s", relay->denied);
	else if (relay->status == 0 && err->code == ERR_OK)
		err_set(&failure, ERR_PROTOCOL, "the service's upstream gave no answer");
	if (failure.code != ERR_OK && !relay->is_answered)
		fail(relay, &failure);
	try_answer(relay);
	request_more(relay->request);
}

/* --- the body --- */

static size_t on_chunk(struct request *request, const uint8_t *bytes, size_t len, void *ctx)
{
	struct relay *relay = ctx;
	size_t take = MIN(len, buf_room(&relay->body));

	if (len == 0) {
		relay->is_body_whole = true;
		if (relay->upstream)
			upstream_more(relay->upstream);
		try_answer(relay);
		return 0;
	}
	if (!relay->upstream)
		return len; /* nobody wants it any more */
	if (take > 0 && buf_put(&relay->body, bytes, take) == 0)
		upstream_more(relay->upstream);
	return take;
}

static ssize_t on_body(void *to, size_t max, void *ctx)
{
	struct relay *relay = ctx;
	size_t len = MIN(buf_len(&relay->body), max);

	if (len == 0)
		return relay->is_body_whole ? -1 : 0;
	memcpy(to, buf_head(&relay->body), len);
	buf_consume(&relay->body, len);
	relay->sent += len;
	request_body_more(relay->request);
	return (ssize_t)len;
}

static const struct upstream_ops relay_ops = {
	.on_header = on_header,
	.on_head = on_head,
	.on_bytes = on_bytes,
	.on_body = on_body,
	.on_end = on_end,
};

/* --- the beginning --- */

static void wipe_list(struct strings *list)
{
	for (size_t i = 0; i < list->count; i++)
		explicit_bzero(list->items[i], strlen(list->items[i]));
	strings_done(list);
}

static void fill_call(const struct proxy *proxy, const struct service *service,
                      struct upstream_call *call)
{
	call->timeout_ms = service->timeout_ms;
	/* Who writes config.toml may name every place; who asks the API may not. */
	call->is_anywhere = str_eq(service->origin, "config");
	call->granted = proxy->granted;
	call->granted_count = proxy->granted_count;
}

static int prepare(struct relay *relay, struct strings *headers, struct err *err)
{
	struct proxy *proxy = relay->proxy;
	struct request *request = relay->request;
	const struct proxy_config *config = &proxy->config;

	if (config->find(relay->sandbox, relay->name, &relay->service, err, config->ctx) < 0) {
		relay->denied = "no such service";
		return -1;
	}
	if (service_allows(relay->service, request_method(request), request_target(request), err) <
	    0) {
		relay->denied = "method or path";
		return -1;
	}
	if (headers_check_placeholders(request, relay->name, err) < 0) {
		relay->denied = "placeholder of another service";
		return -1;
	}
	if (gateway_secret_read(relay->service, config->unseal, config->ctx, &relay->secret, err) <
	    0) {
		log_warn("the secret of a service is not there", LOG_STR("service", relay->name),
		         LOG_ERR(err));
		return err_set(err, ERR_UNAVAILABLE, "the secret of service %s cannot be read",
		               relay->name);
	}
	headers_build(relay->service, relay->secret, request, headers);
	return 0;
}

static void start(struct relay *relay, const struct strings *headers)
{
	struct request *request = relay->request;
	auto_free char *url = mem_printf("%s%s", relay->service->upstream, request_target(request));
	struct upstream_call call = {.method = request_method(request),
	                             .url = url,
	                             .headers = headers,
	                             .body_length = request_body_length(request)};

	relay->has_body = call.has_body = call.body_length > 0;
	fill_call(relay->proxy, relay->service, &call);
	relay->upstream = upstream_start(relay->proxy->upstreams, &call, &relay_ops, relay);
	if (relay->has_body)
		request_stream_body(request, on_chunk, relay);
}

void proxy_serve(struct proxy *proxy, struct request *request, const char *name)
{
	struct relay *relay = mem_new(struct relay);
	struct strings headers = {0};
	struct err err = {0};

	relay->proxy = proxy;
	relay->request = request_ref(request);
	relay->sandbox = mem_strdup(request_guest(request));
	relay->name = mem_strdup(name);
	relay->path = service_path(request_target(request));
	relay->started_ms = io_boot_ms();
	buf_init(&relay->body, PIECE);
	buf_init(&relay->answer, PIECE);
	request_set_on_end(request, on_request_over, relay);
	if (prepare(relay, &headers, &err) < 0)
		fail(relay, &err);
	else
		start(relay, &headers);
	wipe_list(&headers);
}

/* --- trying --- */

struct trial {
	struct upstream *upstream;
	int status;
	struct loop *loop;
	struct loop_timer timer;
	struct err err;
	proxy_on_tested on_tested;
	void *ctx;
};

static void trial_end(struct trial *trial)
{
	static const struct err none = {0};

	/* What comes after the head is of no interest: an end without it is none that failed. */
	trial->on_tested(trial->status, trial->status ? &none : &trial->err, trial->ctx);
	loop_timer_stop(&trial->timer);
	mem_freep(&trial);
}

static void on_trial_header(const char *name, const char *value, void *ctx)
{
}

static void on_trial_head(int status, uint64_t length, void *ctx)
{
	struct trial *trial = ctx;

	trial->status = status;
}

static int on_trial_bytes(const void *bytes, size_t len, void *ctx)
{
	return -1;
}

static ssize_t on_trial_body(void *to, size_t max, void *ctx)
{
	return -1;
}

static void on_trial_end(const struct err *err, void *ctx)
{
	struct trial *trial = ctx;

	trial->err = *err;
	trial_end(trial);
}

static void on_trial_failed(struct loop_timer *timer, void *ctx)
{
	trial_end(ctx);
}

static const struct upstream_ops trial_ops = {
	.on_header = on_trial_header,
	.on_head = on_trial_head,
	.on_bytes = on_trial_bytes,
	.on_body = on_trial_body,
	.on_end = on_trial_end,
};

void proxy_test(struct proxy *proxy, const struct service *service, const char *path,
                proxy_on_tested on_tested, void *ctx)
{
	struct trial *trial = mem_new(struct trial);
	auto_free char *url = mem_printf("%s%s", service->upstream, path);
	struct strings headers = {0};
	struct upstream_call call = {.method = "GET", .url = url, .headers = &headers};
	char *secret = NULL;

	trial->on_tested = on_tested;
	trial->ctx = ctx;
	fill_call(proxy, service, &call);
	call.timeout_ms = MIN(call.timeout_ms, (uint64_t)TEST_MS);
	if (service_allows(service, "GET", path, &trial->err) < 0 ||
	    gateway_secret_read(service, proxy->config.unseal, proxy->config.ctx, &secret,
	                        &trial->err) < 0) {
		loop_timer_in(proxy->config.loop, &trial->timer, 0, on_trial_failed, trial);
	} else {
		headers_build(service, secret, NULL, &headers);
		trial->upstream = upstream_start(proxy->upstreams, &call, &trial_ops, trial);
	}
	gateway_secret_wipe(&secret);
	wipe_list(&headers);
}
