#include "gateway/fetch.h"

#include <strings.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "gateway/mask.h"
#include "gateway/secret.h"
#include "gateway/upstream.h"

struct fetch {
	struct loop_timer timer;
	struct buf answer;
	char *body, *secret, *type;
	size_t body_len, sent;
	int status;
	bool is_cut;
	struct err err;
	fetch_on_end on_end;
	void *ctx;
};

static void end(struct fetch *fetch)
{
	static const struct err none = {0};
	struct fetch_answer answer = {.type = fetch->type ? fetch->type : "",
	                              .is_cut = fetch->is_cut};
	/* What was cut off by us is an answer all the same. */
	bool has_failed = fetch->err.code != ERR_OK && !fetch->is_cut;

	answer.len = mask_stream(&fetch->answer, 0, fetch->secret, !fetch->is_cut);
	if (fetch->secret && strstr(answer.type, fetch->secret))
		answer.type = "";
	answer.status = has_failed ? 0 : fetch->status;
	answer.bytes = buf_len(&fetch->answer) ? (const char *)buf_head(&fetch->answer) : "";
	fetch->on_end(&answer, answer.status ? &none : &fetch->err, fetch->ctx);
	loop_timer_stop(&fetch->timer);
	buf_done(&fetch->answer);
	gateway_secret_wipe(&fetch->secret);
	mem_freep(&fetch->body);
	mem_freep(&fetch->type);
	mem_freep(&fetch);
}

static void on_header(const char *name, const char *value, void *ctx)
{
	struct fetch *fetch = ctx;
	char shown[100];

	if (strcasecmp(name, "Content-Type") != 0 || fetch->type)
		return;
	str_escape(shown, sizeof(shown), value, strlen(value));
	fetch->type = mem_strdup(shown);
}

static void on_head(int status, uint64_t length, void *ctx)
{
	struct fetch *fetch = ctx;

	fetch->status = status;
}

static int on_bytes(const void *bytes, size_t len, void *ctx)
{
	struct fetch *fetch = ctx;
	size_t fits = MIN(len, buf_room(&fetch->answer));

	if (buf_put(&fetch->answer, bytes, fits) == 0 && fits == len)
		return 1;
	fetch->is_cut = true;
	return -1;
}

static ssize_t on_body(void *to, size_t max, void *ctx)
{
	struct fetch *fetch = ctx;
	size_t len = MIN(max, fetch->body_len - fetch->sent);

	if (len == 0)
		return -1;
	memcpy(to, fetch->body + fetch->sent, len);
	fetch->sent += len;
	return (ssize_t)len;
}

static void on_over(const struct err *err, void *ctx)
{
	struct fetch *fetch = ctx;

	fetch->err = *err;
	end(fetch);
}

static void on_failed(struct loop_timer *timer, void *ctx)
{
	end(ctx);
}

static struct fetch *fetch_new(size_t most, fetch_on_end on_end, void *ctx)
{
	struct fetch *fetch = mem_new(struct fetch);

	buf_init(&fetch->answer, most);
	fetch->on_end = on_end;
	fetch->ctx = ctx;
	return fetch;
}

void fetch_start(struct upstreams *upstreams, const struct fetch_wish *wish, fetch_on_end on_end,
                 void *ctx)
{
	static const struct upstream_ops ops = {
		.on_header = on_header,
		.on_head = on_head,
		.on_bytes = on_bytes,
		.on_body = on_body,
		.on_end = on_over,
	};
	struct fetch *fetch = fetch_new(wish->most, on_end, ctx);
	struct upstream_call call = *wish->call;

	if (wish->body) {
		fetch->body = mem_strndup(wish->body, wish->body_len);
		fetch->body_len = wish->body_len;
		call.has_body = true;
		call.body_length = wish->body_len;
	}
	fetch->secret = wish->secret ? mem_strdup(wish->secret) : NULL;
	(void)upstream_start(upstreams, &call, &ops, fetch); /* ends by itself */
}

void fetch_fail(struct loop *loop, const struct err *err, fetch_on_end on_end, void *ctx)
{
	struct fetch *fetch = fetch_new(0, on_end, ctx);

	fetch->err = *err;
	loop_timer_in(loop, &fetch->timer, 0, on_failed, fetch);
}
