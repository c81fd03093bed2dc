/*
 * wslay does the framing and queueing, the loop does the waiting. `dead` is set once the
 * connection is over; on_close is then called from the top of the loop callback that noticed, so
 * that nobody is freed inside one of their own calls.
 */
#include "http/ws.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <wslay/wslay.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "http/base64.h"
#include "http/request.h"
#include "http/sha1.h"

enum { WS_MAGIC = 0x77656273, PING_MS = 30000, CLOSE_MS = 10000, KEY_LEN = 24, HEAD_MAX = 16 };

struct ws {
	uint32_t magic;
	struct loop *loop;
	struct loop_source source;
	struct loop_timer timer; /* pings; after our goodbye: the patience for theirs */
	struct request *request; /* owns the socket; NULL: we do */
	int fd;
	struct buf early;
	uint8_t head[HEAD_MAX]; /* of a frame; goes with its first bytes */
	size_t head_len;
	wslay_event_context_ptr framing;
	const struct ws_ops *ops;
	void *ctx;
	bool refused; /* a send was: on_writable is due */
	bool paused;
	bool closing;     /* nothing more is taken; what is queued still goes */
	bool has_goodbye; /* the close frame is queued */
	uint16_t close_code;
	char close_reason[124];
	bool dead;
	bool told;
	bool in_callback;
};

static ssize_t on_recv(wslay_event_context_ptr framing, uint8_t *to, size_t len, int flags,
                       void *ctx)
{
	struct ws *ws = ctx;
	ssize_t n;

	if (ws->paused) {
		wslay_event_set_error(framing, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	if (buf_len(&ws->early) > 0) {
		size_t take = MIN(len, buf_len(&ws->early));

		memcpy(to, buf_head(&ws->early), take);
		buf_consume(&ws->early, take);
		return (ssize_t)take;
	}
	do
		n = recv(ws->fd, to, len, 0);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return n;
	if (n < 0 && errno == EAGAIN) {
		wslay_event_set_error(framing, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	ws->dead = true;
	wslay_event_set_error(framing, WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

/* What waits of a head, and the bytes after it. */
static ssize_t send_both(struct ws *ws, const uint8_t *bytes, size_t len)
{
	struct iovec parts[] = {{ws->head, ws->head_len}, {(void *)bytes, len}};
	const struct msghdr msg = {.msg_iov = parts, .msg_iovlen = ARRAY_LEN(parts)};
	ssize_t n;

	do
		n = sendmsg(ws->fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return n;
	size_t of_head = MIN((size_t)n, ws->head_len);

	ws->head_len -= of_head;
	memmove(ws->head, ws->head + of_head, ws->head_len);
	if ((size_t)n > of_head || len == 0)
		return n - (ssize_t)of_head;
	errno = EAGAIN;
	return -1;
}

static ssize_t on_send(wslay_event_context_ptr framing, const uint8_t *bytes, size_t len, int flags,
                       void *ctx)
{
	struct ws *ws = ctx;
	ssize_t n;

	/* A head alone would only wake the reader for nothing. */
	if ((flags & WSLAY_MSG_MORE) && len <= sizeof(ws->head) - ws->head_len) {
		memcpy(ws->head + ws->head_len, bytes, len);
		ws->head_len += len;
		return (ssize_t)len;
	}
	n = send_both(ws, bytes, len);
	if (n >= 0)
		return n;
	if (errno == EAGAIN) {
		wslay_event_set_error(framing, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	ws->dead = true;
	wslay_event_set_error(framing, WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static void on_msg(wslay_event_context_ptr framing, const struct wslay_event_on_msg_recv_arg *arg,
                   void *ctx)
{
	struct ws *ws = ctx;

	if (arg->opcode != WSLAY_TEXT_FRAME && arg->opcode != WSLAY_BINARY_FRAME)
		return;
	if (!ws->closing && !ws->dead)
		ws->ops->on_message(ws, arg->opcode == WSLAY_TEXT_FRAME, arg->msg, arg->msg_length,
		                    ws->ctx);
}

static void update_events(struct ws *ws)
{
	uint32_t events = 0;

	if (!ws->paused && wslay_event_want_read(ws->framing))
		events |= EPOLLIN;
	if (wslay_event_want_write(ws->framing))
		events |= EPOLLOUT;
	if (loop_change(&ws->source, events) < 0)
		ws->dead = true;
}

static bool is_over(const struct ws *ws)
{
	return ws->dead ||
	       (!wslay_event_want_read(ws->framing) && !wslay_event_want_write(ws->framing));
}

/* The last thing of every loop callback: nothing may touch ws after it. */
static void settle(struct ws *ws)
{
	ws->in_callback = false;
	if (!is_over(ws)) {
		if (ws->refused && ws_queued(ws) <= WS_QUEUE_LOW && !ws->closing) {
			ws->refused = false;
			ws->ops->on_writable(ws, ws->ctx);
		}
		return;
	}
	loop_remove(&ws->source);
	loop_timer_stop(&ws->timer);
	ws->dead = true;
	if (!ws->told) {
		ws->told = true;
		ws->ops->on_close(ws, ws->ctx);
	}
}

static void on_timer(struct loop_timer *timer, void *ctx);

/* wslay sends control frames before messages and nothing after a close frame, so that one is queued
 * only when every message has gone. */
static int say_goodbye(struct ws *ws)
{
	if (!ws->closing || ws->has_goodbye || ws_queued(ws) > 0)
		return 0;
	ws->has_goodbye = true;
	loop_timer_in(ws->loop, &ws->timer, CLOSE_MS, on_timer, ws);
	if (wslay_event_queue_close(ws->framing, ws->close_code, (const uint8_t *)ws->close_reason,
	                            strlen(ws->close_reason)) != 0)
		return -1;
	return wslay_event_send(ws->framing);
}

static void flush(struct ws *ws)
{
	if (!ws->dead && (wslay_event_send(ws->framing) < 0 || say_goodbye(ws) < 0))
		ws->dead = true;
}

static void on_io(struct loop_source *source, uint32_t events, void *ctx)
{
	struct ws *ws = ctx;

	must(ws->magic == WS_MAGIC);
	ws->in_callback = true;
	if ((events & EPOLLIN) && !ws->paused && wslay_event_recv(ws->framing) < 0)
		ws->dead = true;
	if ((events & (EPOLLHUP | EPOLLERR)) && !(events & EPOLLIN))
		ws->dead = true;
	flush(ws);
	if (!ws->dead)
		update_events(ws);
	settle(ws);
}

static void on_timer(struct loop_timer *timer, void *ctx)
{
	struct ws *ws = ctx;
	const struct wslay_event_msg ping = {.opcode = WSLAY_PING};

	ws->in_callback = true;
	if (ws->has_goodbye) {
		ws->dead = true;
	} else {
		/* For proxies that drop silent connections; a client that does not answer may
		 * merely be stopped, so silence is no reason to hang up. */
		if (wslay_event_queue_msg(ws->framing, &ping) == 0)
			update_events(ws);
		loop_timer_in(ws->loop, &ws->timer, PING_MS, on_timer, ws);
	}
	settle(ws);
}

static void on_kick(struct loop_timer *timer, void *ctx)
{
	struct ws *ws = ctx;

	if (ws->has_goodbye)
		loop_timer_in(ws->loop, &ws->timer, CLOSE_MS, on_timer, ws);
	else
		loop_timer_in(ws->loop, &ws->timer, PING_MS, on_timer, ws);
	on_io(&ws->source, ws->dead ? 0 : EPOLLIN, ws);
}

struct ws *ws_new(struct loop *loop, int fd, const void *early, size_t early_len,
                  const struct ws_ops *ops, void *ctx)
{
	static const struct wslay_event_callbacks callbacks = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.on_msg_recv_callback = on_msg,
	};
	struct ws *ws = mem_new(struct ws);

	ws->magic = WS_MAGIC;
	ws->loop = loop;
	ws->fd = fd;
	ws->ops = ops;
	ws->ctx = ctx;
	buf_init(&ws->early, early_len);
	if (early_len > 0 && buf_put(&ws->early, early, early_len) < 0)
		ws->dead = true;
	must(wslay_event_context_server_init(&ws->framing, &callbacks, ws) == 0);
	wslay_event_config_set_max_recv_msg_length(ws->framing, WS_MESSAGE_BYTES);
	if (loop_add(loop, &ws->source, fd, EPOLLIN, on_io, ws) < 0)
		ws->dead = true;
	/* What came early makes no socket readable, and a failure is told later, not from here. */
	if (early_len > 0 || ws->dead)
		loop_timer_in(loop, &ws->timer, 0, on_kick, ws);
	else
		loop_timer_in(loop, &ws->timer, PING_MS, on_timer, ws);
	return ws;
}

void ws_free(struct ws *ws)
{
	if (!ws)
		return;
	must(ws->magic == WS_MAGIC && !ws->in_callback);
	loop_remove(&ws->source);
	loop_timer_stop(&ws->timer);
	wslay_event_context_free(ws->framing);
	buf_done(&ws->early);
	if (ws->request) {
		request_set_on_end(ws->request, NULL, NULL);
		request_upgraded_close(ws->request);
		request_unref(ws->request);
	} else {
		fd_closep(&ws->fd);
	}
	ws->magic = 0;
	mem_freep(&ws);
}

/* Sends what the socket takes now. A failure is told from the loop, not under the caller. */
static void push(struct ws *ws)
{
	if (ws->in_callback)
		return;
	flush(ws);
	if (!ws->dead)
		update_events(ws);
	if (ws->dead)
		loop_timer_in(ws->loop, &ws->timer, 0, on_kick, ws);
}

int ws_send(struct ws *ws, bool is_text, const void *head, size_t head_len, const void *bytes,
            size_t len)
{
	auto_free uint8_t *whole = NULL;
	struct wslay_event_msg msg;

	if (ws->dead || ws->closing)
		return -EPIPE;
	if (ws_queued(ws) + head_len + len > WS_QUEUE_BYTES) {
		ws->refused = true;
		return -EAGAIN;
	}
	whole = mem_zalloc(head_len + len + 1);
	if (head_len > 0)
		memcpy(whole, head, head_len);
	if (len > 0)
		memcpy(whole + head_len, bytes, len);
	msg = (struct wslay_event_msg){
		.opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
		.msg = whole,
		.msg_length = head_len + len,
	};
	if (wslay_event_queue_msg(ws->framing, &msg) != 0)
		return -EPIPE;
	push(ws);
	return 0;
}

size_t ws_queued(const struct ws *ws)
{
	return wslay_event_get_queued_msg_length(ws->framing);
}

void ws_close(struct ws *ws, int code, const char *reason)
{
	if (ws->dead || ws->closing)
		return;
	ws->closing = true;
	ws->close_code = (uint16_t)code;
	(void)snprintf(ws->close_reason, sizeof(ws->close_reason), "%s", reason); /* cut is fine */
	ws->paused = false;
	push(ws);
}

void ws_pause(struct ws *ws, bool paused)
{
	if (ws->paused == paused || ws->dead || ws->closing)
		return;
	ws->paused = paused;
	if (!paused && buf_len(&ws->early) > 0)
		loop_timer_in(ws->loop, &ws->timer, 0, on_kick, ws);
	push(ws);
}

/* --- handshake --- */

void ws_accept_key(char *out, const char *key)
{
	char text[KEY_LEN + 64];
	uint8_t digest[SHA1_BYTES];
	int len = snprintf(text, sizeof(text), "%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", KEY_LEN,
	                   key);

	sha1_digest(digest, text, (size_t)len);
	base64_encode(out, digest, sizeof(digest));
}

/* Whether a comma-separated header value has the word. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	while (list && *list) {
		list += strspn(list, " \t,");
		if (strncasecmp(list, word, len) == 0 && strcspn(list, " \t,") == len)
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

int ws_check(const struct request *request, const char *protocol, struct err *err)
{
	const char *key = request_header(request, "Sec-WebSocket-Key");
	const char *version = request_header(request, "Sec-WebSocket-Version");
	const char *offered = request_header(request, "Sec-WebSocket-Protocol");

	if (!has_word(request_header(request, "Upgrade"), "websocket") ||
	    !has_word(request_header(request, "Connection"), "Upgrade"))
		return err_set(err, ERR_INVALID, "this is a WebSocket: ask for an upgrade");
	if (!version || strcmp(version, "13") != 0)
		return err_set(err, ERR_INVALID, "WebSocket version 13 is the one spoken here");
	if (!key || strlen(key) != KEY_LEN)
		return err_set(err, ERR_INVALID, "Sec-WebSocket-Key is missing or malformed");
	if (offered && !has_word(offered, protocol))
		return err_set(err, ERR_INVALID, "the WebSocket protocol here is %s", protocol);
	return 0;
}

struct opening {
	const struct ws_ops *ops;
	ws_on_open on_open;
	void *ctx;
	struct loop *loop;
};

/* The server ends and takes the socket with it. */
static void on_server_end(struct request *request, bool gone, void *ctx)
{
	struct ws *ws = ctx;

	ws->dead = true;
	settle(ws);
}

static void on_upgraded(struct request *request, int fd, const void *early, size_t early_len,
                        void *ctx)
{
	auto_free struct opening *opening = ctx;
	struct ws *ws = ws_new(opening->loop, fd, early, early_len, opening->ops, opening->ctx);

	request_set_on_end(request, on_server_end, ws);
	ws->request = request_ref(request);
	opening->on_open(ws, opening->ctx);
}

static void on_never_opened(struct request *request, bool gone, void *ctx)
{
	auto_free struct opening *opening = ctx;

	opening->on_open(NULL, opening->ctx);
}

void ws_accept(struct request *request, const char *protocol, const struct ws_ops *ops,
               ws_on_open on_open, void *ctx)
{
	const char *key = request_header(request, "Sec-WebSocket-Key");
	struct opening *opening;
	char accept[BASE64_SIZE(SHA1_BYTES)];

	if (!key) {
		on_open(NULL, ctx);
		return;
	}
	ws_accept_key(accept, key);
	request_add_header(request, "Sec-WebSocket-Accept", accept);
	if (request_header(request, "Sec-WebSocket-Protocol"))
		request_add_header(request, "Sec-WebSocket-Protocol", protocol);
	opening = mem_new(struct opening);
	*opening = (struct opening){ops, on_open, ctx, request_loop(request)};
	request_set_on_end(request, on_never_opened, opening);
	request_upgrade(request, "websocket", on_upgraded, opening);
}
