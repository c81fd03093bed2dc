/*
 * WebSocket, client side (RFC 6455): the codec is pure and works on buffers, so that tests and
 * the fuzzer drive it without a socket; ws_open does the handshake over an http connection.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/http.h"

enum {
	WS_MESSAGE_MAX = 1024 * 1024, /* one message from the server */
	WS_IN_MAX = WS_MESSAGE_MAX + 64 * 1024,
};

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

struct ws_decoder {
	struct buf message;    /* fragments so far */
	enum ws_opcode opcode; /* of the message under way; WS_CONTINUATION: none */
};

struct ws_message {
	enum ws_opcode opcode; /* never WS_CONTINUATION */
	const uint8_t *bytes;  /* valid until the next ws_decode */
	size_t len;
};

void ws_decoder_init(struct ws_decoder *decoder);
void ws_decoder_done(struct ws_decoder *decoder);
/*
 * Takes whole frames from `in` (a buf of WS_IN_MAX) until a message is complete. 1: *ret; its
 * frame stays in `in` until the caller passes *ret_used to buf_consume. 0: more bytes are
 * needed. -EPROTO: a masked or oversized frame, a reserved bit, a broken fragment.
 */
int ws_decode(struct ws_decoder *decoder, struct buf *in, struct ws_message *ret,
              size_t *ret_used) NODISCARD;
/* Appends one masked frame whose payload is `first` (when ≥ 0, one byte) and then the bytes. */
int ws_encode(struct buf *out, enum ws_opcode opcode, int first, const void *bytes,
              size_t len) NODISCARD;

/*
 * GET target as an upgrade to subprotocol `protocol`. The frames in `early` go along with the
 * request instead of waiting a round trip for its answer: our daemon is known to take them so. On
 * success the socket belongs to the WebSocket and `http->in` may hold its first bytes.
 * ERR_PROTOCOL, or what the server answered: then the head is read and the caller takes the error
 * body.
 */
int ws_open(struct http *http, const char *target, const char *protocol, const struct buf *early,
            struct err *err) NODISCARD;
