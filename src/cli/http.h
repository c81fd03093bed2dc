/*
 * A small HTTP/1.1 client over a stream socket, usually the Unix socket of a state directory: one
 * connection, one request at a time, bodies streamed in constant memory. Blocking; usually without
 * time limit, because an answer may take as long as a command runs, and a dead daemon closes the
 * socket.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/http_parse.h"

struct http {
	int fd;           /* -1: not connected */
	int interrupt_fd; /* not owned; waiting ends when it is readable; -1: none */
	int wait_ms;      /* most time for the next bytes of an answer; -1: any */
	char host[272];   /* of the Host header; "": none that anybody looks at */
	const char *key;  /* the bearer's; NULL: none. Not owned */
	struct buf in;
	struct http_head head; /* of the last answer */
	struct http_body body;
	/* of the request under way */
	bool is_chunked;
	bool is_cut;     /* the server answered before it took everything */
	bool is_head;    /* HEAD: no body will come */
	uint64_t unsent; /* of an announced length */
};

struct http_request {
	const char *method;
	const char *target;       /* path and query, already escaped */
	const char *accept;       /* NULL: application/json */
	const char *content_type; /* of the body */
	const char *headers;      /* more lines, each with its end; NULL: none */
	const struct buf *early;  /* bytes of the protocol an upgrade leads to; NULL: none */
	const void *body;         /* bytes at hand … */
	size_t body_len;
	bool has_stream;     /* … or pieces that follow by http_send */
	uint64_t stream_len; /* their announced length; UINT64_MAX: unknown, sent chunked */
};

/* Zeroes; nothing is opened. */
void http_init(struct http *http);
void http_close(struct http *http);
/* Connects to dir/name. ERR_UNAVAILABLE when nobody listens there. */
int http_open(struct http *http, const char *dir, const char *name, struct err *err) NODISCARD;
/* Takes a connected socket. */
void http_adopt(struct http *http, int fd);
/*
 * A request: http_begin, then for a stream any number of http_send, then http_finish, which reads
 * the head of the answer; informational ones (but 101) are skipped. What is unread of the answer
 * before is lost with the connection, so read it to its end.
 *
 * http_send: 1, or 0 when the server answers before it took everything: then finish. A stream
 * that cannot be completed ends with http_close, so that nobody takes half for the whole.
 * ERR_UNAVAILABLE: the connection broke before any byte of an answer came. err->sys is ECANCELED
 * when interrupt_fd ended the wait.
 */
int http_begin(struct http *http, const struct http_request *request, struct err *err) NODISCARD;
int http_send(struct http *http, const void *bytes, size_t len, struct err *err) NODISCARD;
int http_finish(struct http *http, struct err *err) NODISCARD;
/* Some bytes of the body; 0 at its end. */
ssize_t http_read(struct http *http, void *bytes, size_t size, struct err *err) NODISCARD;
/* The rest of the body to a blocking descriptor. on_progress may be NULL. */
int http_read_to_fd(struct http *http, int fd, void (*on_progress)(void *ctx, uint64_t got),
                    void *ctx, struct err *err) NODISCARD;
/* True if another request may use the connection. */
bool http_can_reuse(const struct http *http);
