#include "http/sha1.h"

#include "base/must.h"

static uint32_t rotate(uint32_t word, int by)
{
	return word << by | word >> (32 - by);
}

static void mix(uint32_t state[5], const uint32_t w[80])
{
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];

	for (int i = 0; i < 80; i++) {
		uint32_t f, k, next;

		if (i < 20) {
			f = (b & c) | (~b & d);
			k = 0x5a827999;
		} else if (i < 40) {
			f = b ^ c ^ d;
			k = 0x6ed9eba1;
		} else if (i < 60) {
			f = (b & c) | (b & d) | (c & d);
			k = 0x8f1bbcdc;
		} else {
			f = b ^ c ^ d;
			k = 0xca62c1d6;
		}
		next = rotate(a, 5) + f + e + k + w[i];
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

static void block(uint32_t state[5], const uint8_t *bytes)
{
	uint32_t w[80];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 |
		       (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	mix(state, w);
}

void sha1_digest(uint8_t out[SHA1_BYTES], const void *bytes, size_t len)
{
	uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	uint8_t padded[SHA1_MAX_INPUT + 128] = {0};
	size_t total = (len + 9 + 63) / 64 * 64;

	must(len <= SHA1_MAX_INPUT);
	memcpy(padded, bytes, len);
	padded[len] = 0x80;
	for (int i = 0; i < 8; i++)
		padded[total - 1 - (size_t)i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
	for (size_t at = 0; at < total; at += 64)
		block(state, padded + at);
	for (int i = 0; i < SHA1_BYTES; i++)
		out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
