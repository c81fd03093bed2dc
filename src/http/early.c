/*
 * The library takes an answer only before or after a body, never during one. So an answer that
 * comes in between waits a little for the rest, which is dropped: most bodies are nearly there, and
 * the connection can be used again. If the rest is long, the answer is written to the socket
 * without the library, which then only reads on for a while, because a client that is cut off while
 * it sends may throw away what it received.
 */
#include "http/early.h"

#include <sys/socket.h>

#include <gnutls/gnutls.h>

#include "base/buf.h"
#include "base/must.h"
#include "http/private.h"

enum {
	QUIET_BYTES = 4 * 1024 * 1024,
	QUIET_MS = 1000,
	LINGER_BYTES = 64 * 1024 * 1024,
	LINGER_MS = 5000,
};

static void on_late(struct loop_timer *timer, void *ctx);

/* Closes at the library's next look, which the end of the stream brings about. */
static void close_now(struct request *request)
{
	request->cut = true;
	loop_timer_stop(&request->patience);
	(void)shutdown(request->fd, SHUT_RDWR); /* a failure means it is already gone */
}

static void put_head(const struct request *request, struct buf *out)
{
	must(buf_printf(out, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %zu\r\n",
	                request->status, MHD_get_reason_phrase_for((unsigned)request->status),
	                buf_len(&request->early)) == 0);
	for (size_t i = 0; i < request->header_count; i++)
		must(buf_printf(out, "%s: %s\r\n", request->headers[i].name,
		                request->headers[i].value) == 0);
	must(buf_puts(out, "\r\n") == 0);
}

/* The session the library has with the client; NULL: nothing is encrypted. */
static gnutls_session_t session_of(const struct request *request)
{
	const union MHD_ConnectionInfo *info =
		request->server->config.tls_cert
			? MHD_get_connection_info(request->connection,
	                                          MHD_CONNECTION_INFO_GNUTLS_SESSION)
			: NULL;

	return info ? info->tls_session : NULL;
}

/* Nothing was sent on it since the last answer: a document fits, or nobody reads. Between its own
 * calls the library leaves the session alone. */
static bool send_whole(const struct request *request, const struct buf *out)
{
	gnutls_session_t session = session_of(request);
	ssize_t sent = session ? gnutls_record_send(session, buf_head(out), buf_len(out))
	                       : send(request->fd, buf_head(out), buf_len(out),
	                              MSG_NOSIGNAL | MSG_DONTWAIT);

	if (session && sent >= 0)
		(void)gnutls_bye(session, GNUTLS_SHUT_WR); /* the end of the stream says it too */
	return sent == (ssize_t)buf_len(out);
}

static void tell(struct request *request)
{
	struct buf out;
	bool is_whole;

	buf_init(&out, SIZE_MAX);
	put_head(request, &out);
	must(buf_put(&out, buf_head(&request->early), buf_len(&request->early)) == 0);
	request->is_told = true;
	server_count_answer(request->server, request->status);
	is_whole = send_whole(request, &out);
	buf_done(&out);
	if (!is_whole) {
		close_now(request);
		return;
	}
	(void)shutdown(request->fd, SHUT_WR); /* as in close_now */
	request->dropped = 0;
	loop_timer_in(request->server->loop, &request->patience, LINGER_MS, on_late, request);
}

static void on_late(struct loop_timer *timer, void *ctx)
{
	struct request *request = ctx;

	if (request->is_told)
		close_now(request);
	else
		tell(request);
}

void early_answer(struct request *request, const void *bytes, size_t len)
{
	bool has_body = request->phase == REQUEST_BODY ||
	                (request->phase == REQUEST_HEADERS && request_body_length(request) != 0);

	if (!has_body || request->status < 400)
		return;
	buf_init(&request->early, len);
	must(buf_put(&request->early, bytes, len) == 0);
	request->is_early = true;
	loop_timer_in(request->server->loop, &request->patience, QUIET_MS, on_late, request);
}

void early_drop(struct request *request, size_t len)
{
	request->dropped += len;
	if (request->is_early && !request->is_told && request->dropped > QUIET_BYTES)
		tell(request);
	else if (request->dropped > LINGER_BYTES)
		close_now(request);
}

void early_done(struct request *request)
{
	loop_timer_stop(&request->patience);
	buf_done(&request->early);
}
