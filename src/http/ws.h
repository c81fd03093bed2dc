/*
 * WebSocket (RFC 6455), server side: the handshake on a request, then messages over its socket in
 * the loop. Both directions are bounded: ws_send refuses when the queue is full and on_writable
 * says when to go on; ws_pause stops reading. Pings are answered here.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct loop;
struct request;
struct ws;

enum {
	WS_MESSAGE_BYTES = 128 * 1024, /* the largest message taken from a client */
	WS_QUEUE_BYTES = 512 * 1024,   /* ws_send refuses above this */
	WS_QUEUE_LOW = 128 * 1024,     /* on_writable is called below this */
};

/* Close codes of RFC 6455, 7.4.1 that we use. */
enum { WS_NORMAL = 1000, WS_GOING_AWAY = 1001, WS_POLICY = 1008, WS_INTERNAL = 1011 };

struct ws_ops {
	void (*on_message)(struct ws *ws, bool is_text, const uint8_t *bytes, size_t len,
	                   void *ctx);
	/* After a refused ws_send: the queue is low again. */
	void (*on_writable)(struct ws *ws, void *ctx);
	/* Exactly once: the connection is over. The owner calls ws_free, here or later. */
	void (*on_close)(struct ws *ws, void *ctx);
};

/* The handshake's checks: ERR_INVALID names what is wrong. protocol is the one we speak; a client
 * that offers others but not this one is refused. Call before ws_accept. */
int ws_check(const struct request *request, const char *protocol, struct err *err) NODISCARD;
/* Answers 101; takes the request's on_end. on_open is called exactly once: with the open
 * connection, or with NULL when the client went before. */
typedef void (*ws_on_open)(struct ws *ws, void *ctx);
void ws_accept(struct request *request, const char *protocol, const struct ws_ops *ops,
               ws_on_open on_open, void *ctx);

/* The part below the handshake, on any stream socket; takes fd. */
struct ws *ws_new(struct loop *loop, int fd, const void *early, size_t early_len,
                  const struct ws_ops *ops, void *ctx);
/* Cuts without a word if it is still open. */
void ws_free(struct ws *ws);

/* Queues a message made of two parts (head may be empty). -EAGAIN: the queue is full, nothing was
 * queued; -EPIPE: closed. */
int ws_send(struct ws *ws, bool is_text, const void *head, size_t head_len, const void *bytes,
            size_t len) NODISCARD;
size_t ws_queued(const struct ws *ws);
/* Says goodbye; what is queued is still sent. */
void ws_close(struct ws *ws, int code, const char *reason);
void ws_pause(struct ws *ws, bool paused);

/* RFC 6455, 4.2.2: the answer to a Sec-WebSocket-Key; out has room for 29 bytes. */
void ws_accept_key(char *out, const char *key);
