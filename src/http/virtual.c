/*
 * What request.c does with a connection is done here with memory: the body is at hand, the answer
 * is collected. Each step happens in a round of the loop of its own, so that no handler is called
 * from inside its own call.
 */
#include "http/virtual.h"

#include <strings.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/private.h"

enum { PULL_BYTES = 16 * 1024 };

struct virtual
{
	struct connection conn; /* a copy: who asks */
	struct loop_timer step;
	struct request_pair *pairs; /* query, then headers */
	size_t query_count, pair_count;
	uint8_t *body;
	size_t body_len, body_at;
	bool is_body_over;
	struct buf answer;
	char *type;
	bool is_streamed, is_answered, is_cut;
	virtual_on_answer on_answer;
	void *ctx;
};

/* --- what request.c asks --- */

const char *virtual_lookup(const struct request *request, bool is_header, const char *name)
{
	const struct virtual *virtual = request->virtual;
	size_t from = is_header ? virtual->query_count : 0;
	size_t to = is_header ? virtual->pair_count : virtual->query_count;

	for (size_t i = from; i < to; i++) {
		if (is_header ? strcasecmp(virtual->pairs[i].name, name) == 0
		              : str_eq(virtual->pairs[i].name, name))
			return virtual->pairs[i].value;
	}
	return NULL;
}

void virtual_each(const struct request *request, bool is_header, request_on_query each, void *ctx)
{
	const struct virtual *virtual = request->virtual;
	size_t to = is_header ? virtual->pair_count : virtual->query_count;

	for (size_t i = is_header ? virtual->query_count : 0; i < to; i++) {
		if (!each(virtual->pairs[i].name, virtual->pairs[i].value, ctx))
			return;
	}
}

uint64_t virtual_body_length(const struct request *request)
{
	return request->virtual->body_len;
}

char *virtual_take_body(struct request *request)
{
	char *bytes = (char *)take_ptr(request->virtual->body);

	request->virtual->body_len = 0;
	return bytes;
}

/* --- steps --- */

static void finish(struct request *request, bool gone)
{
	struct virtual *virtual = request->virtual;
	struct virtual_answer answer = {
		.status = gone ? 0 : request->status,
		.type = virtual->type ? virtual->type : "",
		.is_cut = virtual->is_cut,
	};
	virtual_on_answer on_answer = virtual->on_answer;

	if (!on_answer)
		return; /* over already */
	virtual->on_answer = NULL;
	loop_timer_stop(&virtual->step);
	/* With a NUL behind it, for whoever takes it as a text. */
	virtual->answer.max++;
	must(buf_put(&virtual->answer, "", 1) == 0);
	answer.bytes = (const char *)buf_head(&virtual->answer);
	answer.len = gone ? 0 : buf_len(&virtual->answer) - 1;
	request_ref(request);
	/* The request ends first: what its handler held is free when the answer is used. */
	request_over(request, gone);
	on_answer(&answer, virtual->ctx);
	request_unref(request);
}

static void put_answer(struct virtual *virtual, const void *bytes, size_t len)
{
	size_t fits = MIN(len, buf_room(&virtual->answer));

	virtual->is_cut |= fits < len;
	must(buf_put(&virtual->answer, bytes, fits) == 0);
}

/* Everything that is there to pull. True: the stream is over, one way or the other. */
static bool pull(struct request *request, bool *ret_gone)
{
	struct virtual *virtual = request->virtual;
	uint8_t bytes[PULL_BYTES];
	ssize_t n;

	*ret_gone = false;
	while ((n = request->on_pull(request, bytes, sizeof(bytes), request->pull_ctx)) > 0) {
		put_answer(virtual, bytes, (size_t)n);
		if (virtual->is_cut)
			return true;
	}
	*ret_gone = n == REQUEST_STREAM_ABORT;
	return n != 0;
}

static void give_body(struct request *request)
{
	struct virtual *virtual = request->virtual;

	if (virtual->is_body_over || request->mode == REQUEST_UNDECIDED)
		return;
	if (request->mode == REQUEST_WHOLE) {
		virtual->is_body_over = true;
		request->on_body(request, (const char *)virtual->body, virtual->body_len,
		                 request->body_ctx);
		return;
	}
	while (virtual->body_at < virtual->body_len && !virtual->is_answered) {
		size_t taken =
			request->on_chunk(request, virtual->body + virtual->body_at,
		                          virtual->body_len - virtual->body_at, request->body_ctx);

		virtual->body_at += taken;
		if (taken == 0)
			return; /* until request_body_more */
	}
	if (virtual->is_answered)
		return;
	virtual->is_body_over = true;
	(void)request->on_chunk(request, NULL, 0, request->body_ctx); /* nothing to take */
}

static void on_step(struct loop_timer *timer, void *ctx)
{
	struct request *request = request_ref(ctx);
	struct virtual *virtual = request->virtual;
	bool gone = false;

	if (!virtual->is_answered)
		give_body(request);
	if (virtual->on_answer && virtual->is_answered &&
	    (!virtual->is_streamed || pull(request, &gone)))
		finish(request, gone);
	request_unref(request);
}

void virtual_wake(struct request *request)
{
	if (request->virtual->on_answer)
		loop_timer_in(request->server->loop, &request->virtual->step, 0, on_step, request);
}

void virtual_take_answer(struct request *request, int status, const char *type)
{
	struct virtual *virtual = request->virtual;

	request->status = status;
	request->phase = REQUEST_QUEUED;
	virtual->is_answered = true;
	virtual->is_streamed = request->on_pull != NULL;
	virtual->type = type ? mem_strdup(type) : NULL;
	virtual_wake(request);
}

void virtual_take_bytes(struct request *request, const void *bytes, size_t len)
{
	put_answer(request->virtual, bytes, len);
}

/* --- beginning and end --- */

static void add_pairs(struct virtual *virtual, const struct virtual_pair *from, size_t count)
{
	virtual->pairs = mem_resize(virtual->pairs, virtual->pair_count + count + 1,
	                            sizeof(*virtual->pairs));
	for (size_t i = 0; i < count; i++)
		virtual->pairs[virtual->pair_count++] = (struct request_pair){
			mem_strdup(from[i].name), mem_strdup(from[i].value)};
}

struct request *virtual_ask(struct request *from, const struct virtual_wish *wish,
                            virtual_on_answer on_answer, void *ctx, virtual_on_request serve,
                            void *serve_ctx)
{
	struct request *request = request_begin(from->server, NULL, wish->method, wish->path);
	struct virtual *virtual = mem_new(struct virtual);

	/* A virtual one keeps its copy of the peer as long as it lives. */
	must(from->virtual || !request_is_gone(from));
	virtual->conn = *from->conn;
	virtual->conn.next = virtual->conn.prev = NULL;
	virtual->conn.timer = (struct loop_timer){0};
	virtual->conn.target = NULL;
	virtual->conn.fd = -1;
	virtual->on_answer = on_answer;
	virtual->ctx = ctx;
	add_pairs(virtual, wish->query, wish->query_count);
	virtual->query_count = wish->query_count;
	add_pairs(virtual, wish->headers, wish->header_count);
	virtual->body = mem_zalloc(wish->body_len + 1);
	virtual->body_len = wish->body_len;
	if (wish->body_len > 0)
		memcpy(virtual->body, wish->body, wish->body_len);
	buf_init(&virtual->answer, wish->answer_max);
	request->virtual = virtual;
	request->conn = &virtual->conn;
	serve(request, serve_ctx);
	return request;
}

void virtual_abandon(struct request *request)
{
	finish(request, true);
}

void virtual_done(struct request *request)
{
	struct virtual *virtual = request->virtual;

	if (!virtual)
		return;
	loop_timer_stop(&virtual->step);
	for (size_t i = 0; i < virtual->pair_count; i++) {
		mem_freep(&virtual->pairs[i].name);
		mem_freep(&virtual->pairs[i].value);
	}
	mem_freep(&virtual->pairs);
	/* Both may hold what is nobody else's business. */
	mem_wipe_free(virtual->body, virtual->body_len);
	buf_done(&virtual->answer);
	mem_freep(&virtual->type);
	mem_freep(&request->virtual);
}
