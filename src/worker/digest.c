#include "worker/digest.h"

#include "base/str.h"

enum { HEX_LEN = 2 * crypto_hash_sha256_BYTES };

static const char digits[] = "0123456789abcdef";

void digest_begin(digest_state *state)
{
	(void)crypto_hash_sha256_init(state); /* cannot fail */
}

void digest_add(digest_state *state, const void *bytes, size_t len)
{
	(void)crypto_hash_sha256_update(state, bytes, len); /* cannot fail */
}

struct digest digest_end(digest_state *state)
{
	struct digest digest;

	(void)crypto_hash_sha256_final(state, digest.bytes); /* cannot fail */
	return digest;
}

struct digest digest_of(const void *bytes, size_t len)
{
	digest_state state;

	digest_begin(&state);
	digest_add(&state, bytes, len);
	return digest_end(&state);
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

struct digest_text digest_show(const struct digest *digest)
{
	struct digest_text shown = {.text = ""};

	for (size_t i = 0; i < sizeof(digest->bytes); i++) {
		shown.text[2 * i] = digits[digest->bytes[i] >> 4];
		shown.text[2 * i + 1] = digits[digest->bytes[i] & 15];
	}
	return shown;
}

bool digest_parse_hex(const char *text, struct digest *ret)
{
	uint8_t bytes[crypto_hash_sha256_BYTES] = {0};

	for (size_t i = 0; i < HEX_LEN; i++) {
		const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
		if (!digit)
			return false;
		bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | (digit - digits));
	}
	memcpy(ret->bytes, bytes, sizeof(bytes));
	return true;
}

bool digest_parse(const char *text, struct digest *ret)
{
	static const char prefix[] = "sha256:";

	return str_has_prefix(text, prefix) && strlen(text) == strlen(prefix) + HEX_LEN &&
	       digest_parse_hex(text + strlen(prefix), ret);
}
