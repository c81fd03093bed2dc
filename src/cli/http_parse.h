/*
 * HTTP/1.1 responses, as far as the command line needs them: pure functions over bytes that came
 * from a socket. Strict (RFC 9112): what is ambiguous is refused, not repaired.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/buf.h"

enum { HTTP_HEAD_MAX = 32 * 1024 };

struct http_head {
	int status; /* 200 */
	bool keep_alive;
	bool chunked;
	bool has_length;
	uint64_t length;
	char content_type[64]; /* without parameters, lower case; "" when absent or too long */
	char ws_accept[32];    /* Sec-WebSocket-Accept */
	char ws_protocol[32];  /* Sec-WebSocket-Protocol */
	char upgrade[16];      /* Upgrade, lower case */
	char mcp_session[80];  /* Mcp-Session-Id */
};

/* How many bytes the head took, 0 when more bytes are needed, -EPROTO, or -EMSGSIZE when it
 * passes HTTP_HEAD_MAX. */
ssize_t http_parse_head(const uint8_t *bytes, size_t len, struct http_head *ret) NODISCARD;

enum http_body_state {
	HTTP_BODY_DONE,
	HTTP_BODY_LENGTH,     /* `left` bytes to come */
	HTTP_BODY_CLOSE,      /* until the peer closes */
	HTTP_BODY_CHUNK_SIZE, /* at the start of a chunk-size line */
	HTTP_BODY_CHUNK,      /* `left` bytes of a chunk to come */
	HTTP_BODY_CHUNK_END,  /* at the line end behind a chunk */
	HTTP_BODY_TRAILER,    /* in the trailer section */
};

struct http_body {
	enum http_body_state state;
	uint64_t left;
	size_t trailer_bytes;
};

/* The body that follows a head; is_bodyless: answer to HEAD. */
void http_body_init(struct http_body *body, const struct http_head *head, bool is_bodyless);
/*
 * Moves decoded bytes from `in` to `out`. The count (> 0); 0: more input is needed, or the body
 * is done (state says which); -EPROTO.
 */
ssize_t http_body_decode(struct http_body *body, struct buf *in, uint8_t *out,
                         size_t size) NODISCARD;
/* The peer closed: 0 if that is a legal end of this body, else -EPROTO. */
int http_body_end(struct http_body *body) NODISCARD;
