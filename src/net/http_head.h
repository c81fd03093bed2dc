/*
 * Requests of HTTP/1 as a client sends them (RFC 9112): whom each one is for and where it ends, so
 * that nothing can follow unseen. Stricter than servers are: what two readers might understand
 * differently is refused. Every byte comes from a sandbox. Pure, no allocation.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

enum { HTTP_HEAD_MOST = 32 * 1024, HTTP_HEAD_NAME = 254, HTTP_HEAD_FIELDS = 128 };

enum http_head_result {
	HTTP_HEAD_WHOLE,
	HTTP_HEAD_MORE, /* so far it could be one: wait for more bytes */
	HTTP_HEAD_BAD,
};

enum http_head_body { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

struct http_head {
	size_t len;                /* with the empty line */
	char host[HTTP_HEAD_NAME]; /* lower case, without the port */
	uint16_t port;             /* 0: none was said */
	enum http_head_body body;
	uint64_t length;
	bool is_websocket; /* wants to speak something else afterwards */
	bool has_upgrade;  /* to anything else: http_head_strip takes it out */
	const char *why;   /* BAD: for people */
};

enum http_head_result http_head_parse(const uint8_t *bytes, size_t len, struct http_head *ret);
/* The head without its wish for another protocol: a server may not listen to it. `out` has room for
 * head->len bytes; the new length. */
size_t http_head_strip(const struct http_head *head, const uint8_t *bytes, uint8_t *out);

/* Where a body ends. */
struct http_body {
	enum http_head_body kind;
	int state;
	uint64_t left;
	size_t digits;
};

void http_body_start(struct http_body *body, const struct http_head *head);
/* How many of the bytes belong to the body (all of them unless it ends here), or -EBADMSG.
 * *ret_is_over: the next byte begins another request. */
ssize_t http_body_take(struct http_body *body, const uint8_t *bytes, size_t len,
                       bool *ret_is_over) NODISCARD;
