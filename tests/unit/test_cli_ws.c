/* The WebSocket codec of the command line. */
#include "cli/ws.h"

#include <errno.h>

#include "base/mem.h"
#include "harness/test.h"

struct codec {
	struct ws_decoder decoder;
	struct buf in;
};

static void codec_init(struct codec *codec)
{
	ws_decoder_init(&codec->decoder);
	buf_init(&codec->in, WS_IN_MAX);
}

static void codec_done(struct codec *codec)
{
	ws_decoder_done(&codec->decoder);
	buf_done(&codec->in);
}

static void feed(struct codec *codec, const void *bytes, size_t len)
{
	CHECK_INT(buf_put(&codec->in, bytes, len), 0);
}

/* The next message as a string the caller frees; NULL when there is none yet. */
static char *next(struct codec *codec, enum ws_opcode *ret_opcode)
{
	struct ws_message message;
	size_t used = 0;
	int r = ws_decode(&codec->decoder, &codec->in, &message, &used);
	CHECK(r >= 0);
	if (r == 0)
		return NULL;
	char *text = mem_strndup((const char *)message.bytes, message.len);
	*ret_opcode = message.opcode;
	buf_consume(&codec->in, used);
	return text;
}

static int refuse(const void *bytes, size_t len)
{
	struct codec codec;
	struct ws_message message;
	size_t used;
	codec_init(&codec);
	feed(&codec, bytes, len);
	int r;
	while ((r = ws_decode(&codec.decoder, &codec.in, &message, &used)) > 0)
		buf_consume(&codec.in, used);
	codec_done(&codec);
	return r;
}

#define REFUSE(bytes) refuse(bytes, sizeof(bytes) - 1)

TEST(whole_messages_byte_by_byte)
{
	static const char bytes[] = "\x82\x05hello\x81\x00\x89\x02hi";
	struct codec codec;
	enum ws_opcode opcode = WS_CONTINUATION;
	char *seen[3] = {0};
	size_t count = 0;
	codec_init(&codec);
	for (size_t i = 0; i + 1 < sizeof(bytes); i++) {
		feed(&codec, bytes + i, 1);
		char *text = next(&codec, &opcode);
		if (text != NULL)
			seen[count++] = text;
	}
	CHECK_INT(count, 3);
	CHECK_STR(seen[0], "hello");
	CHECK_STR(seen[1], "");
	CHECK_STR(seen[2], "hi");
	CHECK_INT(opcode, WS_PING);
	for (size_t i = 0; i < 3; i++)
		free(seen[i]);
	codec_done(&codec);
}

TEST(fragments_with_a_ping_between)
{
	static const char bytes[] = "\x02\x03one\x89\x01!\x00\x03two\x80\x05three";
	struct codec codec;
	enum ws_opcode opcode = WS_CONTINUATION;
	codec_init(&codec);
	feed(&codec, bytes, sizeof(bytes) - 1);
	auto_free char *ping = next(&codec, &opcode);
	CHECK_INT(opcode, WS_PING);
	CHECK_STR(ping, "!");
	auto_free char *text = next(&codec, &opcode);
	CHECK_INT(opcode, WS_BINARY);
	CHECK_STR(text, "onetwothree");
	codec_done(&codec);
}

TEST(long_frames)
{
	struct codec codec;
	enum ws_opcode opcode = WS_CONTINUATION;
	auto_free char *payload = mem_zalloc(70001);
	memset(payload, 'x', 70000);
	codec_init(&codec);
	feed(&codec, "\x82\x7f\0\0\0\0\0\x01\x11\x70", 10);
	feed(&codec, payload, 70000);
	auto_free char *text = next(&codec, &opcode);
	CHECK_STR(text, payload);
	feed(&codec, "\x82\x7e\x01\x00", 4);
	feed(&codec, payload, 256);
	auto_free char *middle = next(&codec, &opcode);
	CHECK_INT(strlen(middle), 256);
	codec_done(&codec);
}

TEST(hostile_frames_are_refused)
{
	CHECK_INT(REFUSE("\x82\x81\x01\x02\x03\x04x"), -EPROTO); /* masked by a server */
	CHECK_INT(REFUSE("\xc2\x00"), -EPROTO);                  /* reserved bit */
	CHECK_INT(REFUSE("\x83\x00"), -EPROTO);                  /* unknown opcode */
	CHECK_INT(REFUSE("\x09\x00"), -EPROTO);                  /* fragmented control */
	CHECK_INT(REFUSE("\x88\x7e\x00\x7e"), -EPROTO);          /* long control */
	CHECK_INT(REFUSE("\x80\x00"), -EPROTO);                  /* continuation of nothing */
	CHECK_INT(REFUSE("\x02\x01x\x82\x01y"), -EPROTO);        /* message inside a message */
	CHECK_INT(REFUSE("\x82\x7e\x00\x05hello"), -EPROTO);     /* length not minimal */
	CHECK_INT(REFUSE("\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff"), -EPROTO);
	CHECK_INT(REFUSE("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff"), -EPROTO); /* too large */
}

TEST(fragments_beyond_the_maximum_are_refused)
{
	struct codec codec;
	struct ws_message message;
	size_t used;
	int r = 0;
	auto_free uint8_t *frame = mem_zalloc(4 + 60000);
	codec_init(&codec);
	memcpy(frame, "\x02\x7e\xea\x60", 4);
	for (int i = 0; i < 40 && r == 0; i++) {
		feed(&codec, frame, 4 + 60000);
		r = ws_decode(&codec.decoder, &codec.in, &message, &used);
		frame[0] = 0;
	}
	CHECK_INT(r, -EPROTO);
	codec_done(&codec);
}

/* What a server makes of our frame; the payload's length. */
static size_t unmask(struct buf *out, uint8_t *payload)
{
	const uint8_t *bytes = buf_head(out);
	size_t len = bytes[1] & 0x7f, at = 2;
	CHECK(bytes[1] & 0x80);
	if (len == 126) {
		len = (size_t)bytes[2] << 8 | bytes[3];
		at = 4;
	} else if (len == 127) {
		len = (size_t)bytes[6] << 24 | (size_t)bytes[7] << 16 | (size_t)bytes[8] << 8 |
		      bytes[9];
		at = 10;
	}
	CHECK_INT(buf_len(out), at + 4 + len);
	for (size_t i = 0; i < len; i++)
		payload[i] = bytes[at + 4 + i] ^ bytes[at + i % 4];
	return len;
}

TEST(our_frames_are_masked_and_whole)
{
	static const size_t sizes[] = {0, 1, 124, 125, 126, 65534, 65535, 65536, 100000};
	auto_free uint8_t *bytes = mem_zalloc(100001);
	auto_free uint8_t *payload = mem_zalloc(100002);
	for (size_t i = 0; i < 100000; i++)
		bytes[i] = (uint8_t)(i * 7);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct buf out;
		buf_init(&out, 200000);
		CHECK_INT(ws_encode(&out, WS_BINARY, 3, bytes, sizes[i]), 0);
		CHECK_INT(buf_head(&out)[0], 0x82);
		CHECK_INT(unmask(&out, payload), sizes[i] + 1);
		CHECK_INT(payload[0], 3);
		CHECK_MEM(payload + 1, bytes, sizes[i]);
		buf_reset(&out);
		CHECK_INT(ws_encode(&out, WS_PONG, -1, "hi", 2), 0);
		CHECK_INT(unmask(&out, payload), 2);
		CHECK_MEM(payload, "hi", 2);
		buf_done(&out);
	}
}

TEST(a_full_buffer_takes_no_frame)
{
	struct buf out;
	buf_init(&out, 10);
	CHECK_INT(ws_encode(&out, WS_BINARY, 0, "0123456789", 10), -ENOBUFS);
	CHECK_INT(buf_len(&out), 0);
	buf_done(&out);
}
