#include "cli/ws.h"

#include <errno.h>
#include <sys/random.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/encode.h"

enum { HEAD_FIN = 0x80, HEAD_RESERVED = 0x70, HEAD_MASK = 0x80, CONTROL_MAX = 125 };

void ws_decoder_init(struct ws_decoder *decoder)
{
	*decoder = (struct ws_decoder){0};
	buf_init(&decoder->message, WS_MESSAGE_MAX);
}

void ws_decoder_done(struct ws_decoder *decoder)
{
	buf_done(&decoder->message);
}

struct frame {
	enum ws_opcode opcode;
	bool is_final;
	const uint8_t *bytes;
	size_t len;
	size_t total; /* with its head */
};

/* 1: *ret points into the bytes; 0: incomplete; -EPROTO. */
static int parse_frame(const uint8_t *bytes, size_t len, struct frame *ret)
{
	uint64_t payload;
	size_t head = 2;

	if (len < 2)
		return 0;
	if ((bytes[0] & HEAD_RESERVED) || (bytes[1] & HEAD_MASK))
		return -EPROTO;
	payload = bytes[1];
	if (payload > 125) {
		size_t width = payload == 126 ? 2 : 8;
		uint64_t least = payload == 126 ? 126 : 65536;

		head += width;
		if (len < head)
			return 0;
		payload = 0;
		for (size_t i = 2; i < head; i++)
			payload = payload << 8 | bytes[i];
		if (payload < least)
			return -EPROTO;
	}
	*ret = (struct frame){.opcode = bytes[0] & 15, .is_final = bytes[0] & HEAD_FIN};
	if (payload > WS_MESSAGE_MAX ||
	    (ret->opcode >= WS_CLOSE && (payload > CONTROL_MAX || !ret->is_final)))
		return -EPROTO;
	if (len - head < payload)
		return 0;
	ret->bytes = bytes + head;
	ret->len = (size_t)payload;
	ret->total = head + (size_t)payload;
	return 1;
}

static bool is_known(enum ws_opcode opcode)
{
	return opcode <= WS_BINARY || (opcode >= WS_CLOSE && opcode <= WS_PONG);
}

/* A fragment: keeps it. 1: the message is complete; 0: not yet; -EPROTO. */
static int on_fragment(struct ws_decoder *decoder, const struct frame *frame)
{
	bool starts = frame->opcode != WS_CONTINUATION;

	if (starts == (decoder->opcode != WS_CONTINUATION))
		return -EPROTO;
	if (starts) {
		buf_reset(&decoder->message);
		decoder->opcode = frame->opcode;
	}
	if (buf_put(&decoder->message, frame->bytes, frame->len) < 0)
		return -EPROTO;
	return frame->is_final;
}

int ws_decode(struct ws_decoder *decoder, struct buf *in, struct ws_message *ret, size_t *ret_used)
{
	for (;;) {
		struct frame frame;
		int r = parse_frame(buf_head(in), buf_len(in), &frame);

		if (r <= 0)
			return r;
		if (!is_known(frame.opcode))
			return -EPROTO;
		/* The usual case, a whole message in one frame, is not copied. */
		bool is_whole = frame.is_final && frame.opcode != WS_CONTINUATION;

		if (is_whole && (frame.opcode >= WS_CLOSE || decoder->opcode == WS_CONTINUATION)) {
			*ret = (struct ws_message){frame.opcode, frame.bytes, frame.len};
			*ret_used = frame.total;
			return 1;
		}
		r = on_fragment(decoder, &frame);
		if (r < 0)
			return r;
		if (r > 0) {
			*ret = (struct ws_message){decoder->opcode, buf_head(&decoder->message),
			                           buf_len(&decoder->message)};
			decoder->opcode = WS_CONTINUATION;
			*ret_used = frame.total;
			return 1;
		}
		buf_consume(in, frame.total);
	}
}

static size_t put_length(uint8_t *head, uint64_t len)
{
	size_t width = len < 126 ? 0 : len < 65536 ? 2 : 8;

	head[1] = (uint8_t)(HEAD_MASK | (width == 0 ? len : width == 2 ? 126 : 127));
	for (size_t i = 0; i < width; i++)
		head[2 + i] = (uint8_t)(len >> (8 * (width - 1 - i)));
	return 2 + width;
}

int ws_encode(struct buf *out, enum ws_opcode opcode, int first, const void *bytes, size_t len)
{
	uint8_t head[14] = {(uint8_t)(HEAD_FIN | opcode)};
	size_t total = len + (first >= 0);
	size_t head_len = put_length(head, total);
	uint8_t *mask = head + head_len;

	/* The mask hides nothing on a Unix socket, but servers must refuse frames without. */
	if (getrandom(mask, 4, 0) != 4)
		return -EIO;
	head_len += 4;
	uint8_t *to = buf_reserve(out, head_len + total);

	if (to == NULL)
		return -ENOBUFS;
	memcpy(to, head, head_len);
	to += head_len;
	if (first >= 0)
		*to++ = (uint8_t)first ^ mask[0];
	for (size_t i = 0; i < len; i++)
		to[i] = ((const uint8_t *)bytes)[i] ^ mask[(i + (first >= 0)) & 3];
	buf_commit(out, head_len + total);
	return 0;
}

/* base64(SHA-1(key, the GUID of RFC 6455)) */
static char *accept_for(const char *key)
{
	auto_free char *text = mem_printf("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
	auto_(buf_done) struct buf buf;
	uint8_t digest[ENCODE_SHA1_BYTES];

	buf_init(&buf, 64);
	encode_sha1(text, strlen(text), digest);
	if (encode_base64(&buf, digest, sizeof(digest)) < 0)
		return mem_strdup("");
	return buf_take_string(&buf);
}

static char *new_key(void)
{
	auto_(buf_done) struct buf buf;
	uint8_t nonce[16] = {0};

	buf_init(&buf, 64);
	/* A short count cannot happen for 16 bytes; the handshake would still be well-formed. */
	(void)!getrandom(nonce, sizeof(nonce), 0);
	if (encode_base64(&buf, nonce, sizeof(nonce)) < 0)
		return mem_strdup("");
	return buf_take_string(&buf);
}

int ws_open(struct http *http, const char *target, const char *protocol, const struct buf *early,
            struct err *err)
{
	auto_free char *key = new_key();
	auto_free char *expected = accept_for(key);
	auto_free char *headers = mem_printf("Upgrade: websocket\r\nConnection: Upgrade\r\n"
	                                     "Sec-WebSocket-Version: 13\r\n"
	                                     "Sec-WebSocket-Key: %s\r\n"
	                                     "Sec-WebSocket-Protocol: %s\r\n",
	                                     key, protocol);
	const struct http_request request = {
		.method = "GET", .target = target, .headers = headers, .early = early};

	if (http_begin(http, &request, err) < 0 || http_finish(http, err) < 0)
		return -1;
	if (http->head.status != 101)
		return err_set(err, ERR_PROTOCOL, "the daemon does not open a stream (status %d)",
		               http->head.status);
	if (!str_eq(http->head.upgrade, "websocket") || !str_eq(http->head.ws_accept, expected) ||
	    !str_eq(http->head.ws_protocol, protocol)) {
		http_close(http);
		return err_set(err, ERR_PROTOCOL, "the daemon opens another kind of stream");
	}
	return 0;
}
