#include "cli/encode.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int encode_url(struct buf *to, const char *s, const char *keep)
{
	static const char unreserved[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	int r = 0;

	for (; *s != '\0' && r >= 0; s++) {
		if (strchr(unreserved, *s) != NULL || strchr(keep, *s) != NULL)
			r = buf_put(to, s, 1);
		else
			r = buf_printf(to, "%%%02X", (unsigned)(uint8_t)*s);
	}
	return r < 0 ? r : 0;
}

int encode_base64(struct buf *to, const void *bytes, size_t len)
{
	const uint8_t *in = bytes;

	for (size_t i = 0; i < len; i += 3) {
		uint32_t group = (uint32_t)in[i] << 16;
		char four[4] = {'=', '=', '=', '='};

		if (i + 1 < len)
			group |= (uint32_t)in[i + 1] << 8;
		if (i + 2 < len)
			group |= in[i + 2];
		four[0] = alphabet[group >> 18];
		four[1] = alphabet[group >> 12 & 63];
		if (i + 1 < len)
			four[2] = alphabet[group >> 6 & 63];
		if (i + 2 < len)
			four[3] = alphabet[group & 63];
		int r = buf_put(to, four, sizeof(four));

		if (r < 0)
			return r;
	}
	return 0;
}

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

ssize_t encode_from_base64(const char *text, size_t len, uint8_t *out)
{
	size_t count = 0;

	if (len % 4 != 0)
		return -EINVAL;
	for (size_t i = 0; i < len; i += 4) {
		uint32_t group = 0;
		bool is_last = i + 4 == len;
		size_t pad = is_last && text[i + 3] == '=' ? 1 + (text[i + 2] == '=') : 0;

		for (size_t j = 0; j < 4 - pad; j++) {
			int value = base64_value(text[i + j]);

			if (value < 0)
				return -EINVAL;
			group |= (uint32_t)value << (18 - 6 * j);
		}
		for (size_t j = 0; j < 3 - pad; j++)
			out[count++] = (uint8_t)(group >> (16 - 8 * j));
	}
	return (ssize_t)count;
}

static uint32_t rotate(uint32_t x, int bits)
{
	return x << bits | x >> (32 - bits);
}

static void sha1_block(uint32_t state[5], const uint8_t block[64])
{
	uint32_t w[80];
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
		             : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
		             : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
		                      : (b ^ c ^ d) + 0xca62c1d6;
		uint32_t next = rotate(a, 5) + f + e + w[i];

		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
}

void encode_sha1(const void *bytes, size_t len, uint8_t out[ENCODE_SHA1_BYTES])
{
	uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	uint8_t tail[128] = {0};
	const uint8_t *in = bytes;
	size_t rest = len % 64;
	size_t tail_len = rest < 56 ? 64 : 128;

	for (size_t i = 0; i + 64 <= len; i += 64)
		sha1_block(state, in + i);
	memcpy(tail, in + (len - rest), rest);
	tail[rest] = 0x80;
	for (size_t i = 0; i < 8; i++)
		tail[tail_len - 1 - i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
	for (size_t i = 0; i < tail_len; i += 64)
		sha1_block(state, tail + i);
	for (size_t i = 0; i < ENCODE_SHA1_BYTES; i++)
		out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
