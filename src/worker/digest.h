/* SHA-256 as archives of images spell it: "sha256:" and 64 lower-case hexadecimal digits. */
#pragma once

#include <sodium/crypto_hash_sha256.h>

#include "base/base.h"

struct digest {
	uint8_t bytes[crypto_hash_sha256_BYTES];
};

struct digest_text {
	char text[2 * crypto_hash_sha256_BYTES + 1];
};

typedef crypto_hash_sha256_state digest_state;

void digest_begin(digest_state *state);
void digest_add(digest_state *state, const void *bytes, size_t len);
struct digest digest_end(digest_state *state);
struct digest digest_of(const void *bytes, size_t len);

bool digest_equal(const struct digest *a, const struct digest *b);
/* The 64 digits alone. */
struct digest_text digest_show(const struct digest *digest);
/* "sha256:…", nothing before or after it. */
bool digest_parse(const char *text, struct digest *ret) NODISCARD;
/* 64 digits at the start of text, whatever follows. */
bool digest_parse_hex(const char *text, struct digest *ret) NODISCARD;
