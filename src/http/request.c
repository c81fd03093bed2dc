/*
 * How a request moves: HEADERS -> (BODY) -> READ -> QUEUED. The library calls request_step; each
 * step ends in request_settle, which queues a prepared answer or suspends the connection. While
 * it is suspended the library does not look at the socket, so we watch it for a hang-up.
 */
#include "http/private.h"

#include <errno.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/early.h"
#include "http/virtual.h"

enum {
	REQUEST_MAGIC = 0x72657173,
	STREAM_BLOCK_BYTES = 64 * 1024,
	ENDLESS_BLOCK_BYTES = 4 * 1024, /* only used for HTTP/1.0: others get chunks */
};

struct request *request_begin(struct server *server, struct MHD_Connection *connection,
                              const char *method, const char *path)
{
	struct request *request = mem_new(struct request);

	request->magic = REQUEST_MAGIC;
	request->refs = 1;
	request->server = server;
	request->connection = connection;
	request->fd = -1;
	request->method = mem_strdup(method);
	request->path = mem_strdup(path);
	request->target = NULL;
	request->next = server->requests;
	if (request->next)
		request->next->prev = request;
	server->requests = request;
	return request;
}

struct request *request_ref(struct request *request)
{
	must(request->magic == REQUEST_MAGIC);
	request->refs++;
	return request;
}

void request_unref(struct request *request)
{
	if (!request)
		return;
	must(request->magic == REQUEST_MAGIC && request->refs > 0);
	if (--request->refs > 0)
		return;
	request->magic = 0;
	for (size_t i = 0; i < request->header_count; i++) {
		mem_freep(&request->headers[i].name);
		mem_freep(&request->headers[i].value);
	}
	mem_freep(&request->headers);
	buf_done(&request->body);
	early_done(request);
	virtual_done(request);
	if (request->response)
		MHD_destroy_response(request->response);
	mem_freep(&request->method);
	mem_freep(&request->path);
	mem_freep(&request->target);
	mem_freep(&request);
}

void request_unrefp(struct request **request)
{
	request_unref(*request);
	*request = NULL;
}

const char *request_method(const struct request *request)
{
	return request->method;
}

const char *request_target(const struct request *request)
{
	return request->target ? request->target : request->path;
}

const char *request_path(const struct request *request)
{
	return request->path;
}

static const char *lookup(const struct request *request, enum MHD_ValueKind kind, const char *name)
{
	const char *value = NULL;

	if (request->virtual)
		return virtual_lookup(request, kind == MHD_HEADER_KIND, name);
	if (!request->connection)
		return NULL;
	if (MHD_lookup_connection_value_n(request->connection, kind, name, strlen(name), &value,
	                                  NULL) != MHD_YES)
		return NULL;
	return value ? value : "";
}

const char *request_header(const struct request *request, const char *name)
{
	return lookup(request, MHD_HEADER_KIND, name);
}

const char *request_query(const struct request *request, const char *name)
{
	return lookup(request, MHD_GET_ARGUMENT_KIND, name);
}

struct query_walk {
	request_on_query each;
	void *ctx;
};

static enum MHD_Result on_query(void *cls, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
	struct query_walk *walk = cls;

	return walk->each(name, value ? value : "", walk->ctx) ? MHD_YES : MHD_NO;
}

void request_each_query(const struct request *request, request_on_query each, void *ctx)
{
	struct query_walk walk = {.each = each, .ctx = ctx};

	if (request->virtual)
		virtual_each(request, false, each, ctx);
	else if (request->connection)
		MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_query,
		                          &walk);
}

void request_each_header(const struct request *request, request_on_query each, void *ctx)
{
	struct query_walk walk = {.each = each, .ctx = ctx};

	if (request->virtual)
		virtual_each(request, true, each, ctx);
	else if (request->connection)
		MHD_get_connection_values(request->connection, MHD_HEADER_KIND, on_query, &walk);
}

struct header_count {
	const char *name;
	size_t count;
};

static bool on_counted(const char *name, const char *value, void *ctx)
{
	struct header_count *counted = ctx;

	counted->count += strcasecmp(name, counted->name) == 0;
	return true;
}

size_t request_count_header(const struct request *request, const char *name)
{
	struct header_count counted = {name, 0};

	request_each_header(request, on_counted, &counted);
	return counted.count;
}

/* --- who asks --- */

static const struct connection *conn_of(const struct request *request)
{
	return request->connection || (request->virtual && !request->is_over) ? request->conn
	                                                                      : NULL;
}

bool request_is_local(const struct request *request)
{
	const struct connection *conn = conn_of(request);

	return conn && conn->is_local;
}

uid_t request_uid(const struct request *request)
{
	const struct connection *conn = conn_of(request);

	return conn ? conn->uid : (uid_t)-1;
}

pid_t request_pid(const struct request *request)
{
	const struct connection *conn = conn_of(request);

	return conn ? conn->pid : -1;
}

const char *request_guest(const struct request *request)
{
	const struct connection *conn = conn_of(request);

	return conn ? conn->guest : "";
}

const char *request_source(const struct request *request)
{
	const struct connection *conn = conn_of(request);

	return conn ? conn->source : "";
}

int request_memo(const struct request *request)
{
	const struct connection *conn = conn_of(request);

	return conn ? conn->memo : 0;
}

void request_set_memo(struct request *request, int memo)
{
	if (conn_of(request))
		request->conn->memo = memo;
}

void request_set_tag(struct request *request, const char *tag)
{
	must(str_copy(request->tag, sizeof(request->tag), tag));
}

const char *request_tag(const struct request *request)
{
	return request->tag;
}

void request_disconnect(struct request *request)
{
	if (request->virtual) {
		virtual_abandon(request); /* whoever asked may have had the last reference */
		return;
	}
	/* Whoever reads or waits sees the end of the stream; the fd stays the library's. */
	if (request->connection && request->fd >= 0)
		(void)shutdown(request->fd, SHUT_RDWR); /* a failure: it is gone already */
}

static void on_until(struct loop_timer *timer, void *ctx)
{
	request_disconnect(ctx);
}

void request_disconnect_at(struct request *request, uint64_t boot_ms)
{
	if (conn_of(request))
		loop_timer_at(request->server->loop, &request->until, boot_ms, on_until, request);
}

bool request_is_gone(const struct request *request)
{
	return !conn_of(request) || request->ended;
}

struct loop *request_loop(const struct request *request)
{
	return request->server->loop;
}

uint64_t request_body_length(const struct request *request)
{
	const char *text = request_header(request, "Content-Length");
	uint64_t length;

	if (request->virtual)
		return virtual_body_length(request);
	if (text && str_to_u64(text, &length) == 0)
		return length;
	return request_header(request, "Transfer-Encoding") ? UINT64_MAX : 0;
}

/* --- waiting --- */

static void on_hangup(struct loop_source *source, uint32_t events, void *ctx)
{
	struct request *request = ctx;

	must(request->magic == REQUEST_MAGIC);
	request_cut(request);
}

static void suspend(struct request *request)
{
	if (request->suspended)
		return;
	request->suspended = true;
	MHD_suspend_connection(request->connection);
	/* No event asked for: a hang-up and an error are always told. A half-closed client still
	 * reads, so the end of its sending is no hang-up. */
	if (request->fd >= 0 && loop_add(request->server->loop, &request->watch, request->fd, 0,
	                                 on_hangup, request) < 0)
		log_warn("cannot watch a waiting client; it is noticed when it is answered");
}

static void resume(struct request *request)
{
	if (request->virtual)
		virtual_wake(request);
	if (!request->suspended)
		return;
	request->suspended = false;
	loop_remove(&request->watch);
	MHD_resume_connection(request->connection);
	server_wake(request->server);
}

void request_cut(struct request *request)
{
	if (!request->connection)
		return;
	request_ref(request);
	request->cut = true;
	if (!request->ended) {
		request->ended = true;
		if (request->on_end)
			request->on_end(request, true, request->end_ctx);
	}
	resume(request);
	request_unref(request);
}

void request_over(struct request *request, bool gone)
{
	request_ref(request);
	loop_remove(&request->watch);
	loop_timer_stop(&request->until);
	early_done(request);
	request->suspended = false;
	if (!request->ended) {
		request->ended = true;
		if (request->on_end)
			request->on_end(request, gone, request->end_ctx);
	}
	request->connection = NULL;
	request->is_over = true;
	if (request->prev)
		request->prev->next = request->next;
	else
		request->server->requests = request->next;
	if (request->next)
		request->next->prev = request->prev;
	request_unref(request);
	request_unref(request);
}

void request_set_on_end(struct request *request, request_on_end on_end, void *ctx)
{
	request->on_end = on_end;
	request->end_ctx = ctx;
}

/* --- body --- */

static void refuse_too_large(struct request *request)
{
	request->server->config.on_refuse(request, ERR_TOO_LARGE, "the request body is too large",
	                                  request->server->config.ctx);
}

void request_read_body(struct request *request, size_t max, request_on_body on_body, void *ctx)
{
	uint64_t length = request_body_length(request);

	if (request_is_gone(request) || request->mode != REQUEST_UNDECIDED)
		return;
	if (length != UINT64_MAX && length > max) {
		refuse_too_large(request);
		return;
	}
	request->mode = REQUEST_WHOLE;
	request->on_body = on_body;
	request->body_ctx = ctx;
	server_await_body(request);
	buf_init(&request->body, max + 1);
	resume(request);
}

char *request_take_body(struct request *request)
{
	char *bytes = (char *)request->body.bytes; /* nothing was read from its front */

	if (request->virtual)
		return virtual_take_body(request);
	request->body = (struct buf){0};
	return bytes;
}

void request_stream_body(struct request *request, request_on_chunk on_chunk, void *ctx)
{
	if (request_is_gone(request) || request->mode != REQUEST_UNDECIDED)
		return;
	request->mode = REQUEST_CHUNKS;
	request->on_chunk = on_chunk;
	request->body_ctx = ctx;
	/* Whoever sends a stream may be as slow as its source. */
	if (request->connection)
		MHD_set_connection_option(request->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
	resume(request);
}

void request_body_more(struct request *request)
{
	if (!request_is_gone(request) && (request->phase == REQUEST_BODY || request->virtual))
		resume(request);
}

static size_t take_bytes(struct request *request, const char *bytes, size_t len)
{
	if (request->response) {
		/* Answered already: the rest is read and dropped, so that the answer is seen. */
		early_drop(request, len);
		return len;
	}
	if (request->mode == REQUEST_CHUNKS)
		return request->on_chunk(request, (const uint8_t *)bytes, len, request->body_ctx);
	if (buf_put(&request->body, bytes, len) < 0)
		refuse_too_large(request);
	return len;
}

static void body_complete(struct request *request)
{
	request->phase = REQUEST_READ;
	server_body_came(request);
	request->cut |= request->is_told; /* it has its answer */
	if (request->response)
		return;
	if (request->mode == REQUEST_CHUNKS) {
		(void)request->on_chunk(request, NULL, 0, request->body_ctx); /* nothing to take */
	} else if (request->mode == REQUEST_WHOLE) {
		size_t len = buf_len(&request->body);

		if (buf_put(&request->body, "", 1) < 0) {
			refuse_too_large(request);
			return;
		}
		request->on_body(request, (const char *)buf_head(&request->body), len,
		                 request->body_ctx);
		buf_done(&request->body);
	}
}

enum MHD_Result request_step(struct request *request, const char *bytes, size_t *len)
{
	enum MHD_Result result;

	if (request->cut)
		return MHD_NO;
	request_ref(request);
	if (*len > 0) {
		size_t taken = take_bytes(request, bytes, *len);

		*len -= MIN(taken, *len);
		if (*len > 0 && !request->response && !request->cut)
			suspend(request);
		result = request->cut ? MHD_NO : MHD_YES;
	} else {
		if (request->phase == REQUEST_BODY)
			body_complete(request);
		result = request_settle(request);
	}
	request_unref(request);
	return result;
}

/* --- answer --- */

/* The library refuses what cannot stand in a header, which others may have sent us: that is left
 * out. An answer that lacks one only because there was no memory would be taken for another:
 * without its type, or without what keeps a browser from guessing one. False: it must not be sent.
 */
static bool put_headers(const struct request *request, struct MHD_Response *response)
{
	for (size_t i = 0; i < request->header_count; i++) {
		errno = 0;
		if (MHD_add_response_header(response, request->headers[i].name,
		                            request->headers[i].value) == MHD_YES)
			continue;
		if (errno == ENOMEM)
			return false;
		log_debug("a response header was refused",
		          LOG_STR("name", request->headers[i].name));
	}
	return true;
}

static enum MHD_Result queue(struct request *request)
{
	struct MHD_Response *response = take_ptr(request->response);
	enum MHD_Result result = MHD_NO; /* closes the connection */

	early_done(request);
	request->phase = REQUEST_QUEUED;
	if (put_headers(request, response)) {
		result = MHD_queue_response(request->connection, (unsigned)request->status,
		                            response);
		server_count_answer(request->server, request->status);
	}
	MHD_destroy_response(response);
	return result;
}

enum MHD_Result request_settle(struct request *request)
{
	bool wants_body = request->mode != REQUEST_UNDECIDED;

	if (request->cut)
		return MHD_NO;
	/* An answer queued before the end of the request makes the library close the connection.
	 * A client that still sends would then lose the answer: its body is read and dropped
	 * first, unless it asked before sending. */
	if (request->phase == REQUEST_HEADERS &&
	    (request->response ? !request_header(request, "Expect") : wants_body)) {
		request->phase = REQUEST_BODY;
		return MHD_YES;
	}
	if (request->response)
		return queue(request);
	suspend(request);
	return MHD_YES;
}

void request_add_header(struct request *request, const char *name, const char *value)
{
	size_t count = request->header_count + 1;

	request->headers = mem_resize(request->headers, count, sizeof(*request->headers));
	request->headers[count - 1].name = mem_strdup(name);
	request->headers[count - 1].value = mem_strdup(value);
	request->header_count = count;
}

static bool can_answer(const struct request *request)
{
	return !request_is_gone(request) && !request->response && request->phase != REQUEST_QUEUED;
}

static void answer(struct request *request, int status, const char *type,
                   struct MHD_Response *response)
{
	must(response);
	request->response = response;
	request->status = status;
	if (type)
		request_add_header(request, "Content-Type", type);
	resume(request);
}

void request_answer(struct request *request, int status, const char *type, const void *bytes,
                    size_t len)
{
	struct MHD_Response *response;
	uint8_t *copy;

	if (!can_answer(request))
		return;
	if (request->virtual) {
		virtual_take_bytes(request, bytes, len);
		virtual_take_answer(request, status, type);
		return;
	}
	copy = mem_zalloc(len + 1);
	if (len > 0)
		memcpy(copy, bytes, len);
	response = MHD_create_response_from_buffer_with_free_callback(len, copy, free);
	answer(request, status, type, response);
	early_answer(request, bytes, len);
}

void request_flush(struct request *request)
{
	if (request->connection)
		server_flush(request->server);
}

static ssize_t on_reader(void *cls, uint64_t position, char *to, size_t max)
{
	struct request *request = cls;
	ssize_t n;

	if (request->cut)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	n = request->on_pull(request, (uint8_t *)to, max, request->pull_ctx);
	if (n > 0)
		return n;
	if (n == REQUEST_STREAM_END)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n == REQUEST_STREAM_ABORT || request->cut)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	suspend(request);
	return 0;
}

static void on_reader_free(void *cls)
{
	request_unref(cls);
}

void request_answer_stream(struct request *request, int status, const char *type, uint64_t length,
                           request_on_pull on_pull, void *ctx)
{
	struct MHD_Response *response;

	if (!can_answer(request))
		return;
	request->on_pull = on_pull;
	request->pull_ctx = ctx;
	if (request->virtual) {
		virtual_take_answer(request, status, type);
		return;
	}
	/* A reader may stop for as long as it likes (a pager): back-pressure, no time limit. */
	MHD_set_connection_option(request->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
	response = MHD_create_response_from_callback(
		length == UINT64_MAX ? MHD_SIZE_UNKNOWN : length,
		length == UINT64_MAX ? ENDLESS_BLOCK_BYTES : STREAM_BLOCK_BYTES, on_reader,
		request_ref(request), on_reader_free);
	answer(request, status, type, response);
}

void request_more(struct request *request)
{
	if (!request_is_gone(request) && request->phase == REQUEST_QUEUED)
		resume(request);
}

/* NOLINTNEXTLINE(readability-function-size): the library's signature */
static void on_upgrade(void *cls, struct MHD_Connection *connection, void *req_cls,
                       const char *extra, size_t extra_len, MHD_socket sock,
                       struct MHD_UpgradeResponseHandle *handle)
{
	struct request *request = cls;

	request->upgraded = handle;
	request->on_open(request, sock, extra, extra_len, request->open_ctx);
}

void request_upgrade(struct request *request, const char *protocol, request_on_open on_open,
                     void *ctx)
{
	struct MHD_Response *response;

	if (!can_answer(request))
		return;
	if (request->virtual) {
		/* There is no socket to give away. */
		request->server->config.on_refuse(request, ERR_UNSUPPORTED,
		                                  "this needs a connection of its own",
		                                  request->server->config.ctx);
		return;
	}
	request->on_open = on_open;
	request->open_ctx = ctx;
	response = MHD_create_response_for_upgrade(on_upgrade, request);
	request_add_header(request, "Upgrade", protocol);
	answer(request, MHD_HTTP_SWITCHING_PROTOCOLS, NULL, response);
}

void request_upgraded_close(struct request *request)
{
	struct MHD_UpgradeResponseHandle *handle = take_ptr(request->upgraded);

	if (!handle)
		return;
	MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
	/* The socket is closed by the library's next round, which nothing else would bring about.
	 */
	server_wake(request->server);
}
