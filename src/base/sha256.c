#include "base/sha256.h"

#include <string.h>

enum { BLOCK = 64, ROUNDS = 64, LENGTH_BYTES = 8 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_words[ROUNDS] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotate(uint32_t word, unsigned by)
{
	return word >> by | word << (32 - by);
}

static void schedule(uint32_t words[ROUNDS], const uint8_t *block)
{
	for (size_t i = 0; i < 16; i++)
		words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		           (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (size_t i = 16; i < ROUNDS; i++) {
		uint32_t a = words[i - 15], b = words[i - 2];

		words[i] = words[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + words[i - 7] +
		           (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

static void add_block(uint32_t state[8], const uint8_t *block)
{
	uint32_t words[ROUNDS], v[8];

	schedule(words, block);
	memcpy(v, state, sizeof(v));
	for (size_t i = 0; i < ROUNDS; i++) {
		uint32_t big1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
		uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
		uint32_t first = v[7] + big1 + choice + round_words[i] + words[i];
		uint32_t big0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
		uint32_t major = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += first;
		v[0] = first + big0 + major;
	}
	for (size_t i = 0; i < 8; i++)
		state[i] += v[i];
}

void sha256_digest(uint8_t out[SHA256_BYTES], const void *bytes, size_t len)
{
	uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	const uint8_t *at = bytes;
	size_t left = len;
	uint8_t tail[2 * BLOCK] = {0};
	size_t tail_len;

	for (; left >= BLOCK; at += BLOCK, left -= BLOCK)
		add_block(state, at);
	if (left > 0)
		memcpy(tail, at, left);
	tail[left] = 0x80;
	tail_len = left + 1 + LENGTH_BYTES > BLOCK ? 2 * BLOCK : BLOCK;
	for (size_t i = 0; i < LENGTH_BYTES; i++)
		tail[tail_len - 1 - i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
	for (size_t i = 0; i < tail_len; i += BLOCK)
		add_block(state, tail + i);
	for (size_t i = 0; i < SHA256_BYTES; i++)
		out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_hex(char out[SHA256_TEXT], const void *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t digest[SHA256_BYTES];

	sha256_digest(digest, bytes, len);
	for (size_t i = 0; i < SHA256_BYTES; i++) {
		out[2 * i] = digits[digest[i] >> 4];
		out[2 * i + 1] = digits[digest[i] & 15];
	}
	out[SHA256_TEXT - 1] = '\0';
}
