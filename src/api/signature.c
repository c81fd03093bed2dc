#include "api/signature.h"

#include <sodium.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "store/hex.h"

/* So that a signature of this key for something else is none of a manifest. */
#define LABEL  "cloche agent manifest 1\n"
#define HEADER "cloche-signature 1\n"

static_assert(SIGNATURE_SEED == crypto_sign_SEEDBYTES, "as the library has it");
static_assert(SIGNATURE_PUBLIC == crypto_sign_PUBLICKEYBYTES, "as the library has it");
static_assert(sizeof(((struct signature *)0)->bytes) == crypto_sign_BYTES, "as the library has it");

void signature_public(const uint8_t seed[SIGNATURE_SEED], uint8_t ret[SIGNATURE_PUBLIC])
{
	uint8_t secret[crypto_sign_SECRETKEYBYTES];

	crypto_sign_seed_keypair(ret, secret, seed);
	sodium_memzero(secret, sizeof(secret));
}

/* Label and manifest in one piece; the caller frees. */
static uint8_t *labelled(const void *manifest, size_t len)
{
	uint8_t *bytes = mem_zalloc(strlen(LABEL) + len + 1);

	memcpy(bytes, LABEL, strlen(LABEL));
	if (len > 0)
		memcpy(bytes + strlen(LABEL), manifest, len);
	return bytes;
}

void signature_make(const uint8_t seed[SIGNATURE_SEED], const void *manifest, size_t len,
                    struct signature *ret)
{
	auto_free uint8_t *bytes = labelled(manifest, len);
	uint8_t secret[crypto_sign_SECRETKEYBYTES];

	crypto_sign_seed_keypair(ret->public_key, secret, seed);
	must(crypto_sign_detached(ret->bytes, NULL, bytes, strlen(LABEL) + len, secret) == 0);
	sodium_memzero(secret, sizeof(secret));
}

bool signature_holds(const struct signature *signature, const void *manifest, size_t len)
{
	auto_free uint8_t *bytes = labelled(manifest, len);

	return crypto_sign_verify_detached(signature->bytes, bytes, strlen(LABEL) + len,
	                                   signature->public_key) == 0;
}

void signature_format_key(const uint8_t key[SIGNATURE_PUBLIC], char *out)
{
	hex_write(out, key, SIGNATURE_PUBLIC);
}

bool signature_parse_key(const char *text, uint8_t ret[SIGNATURE_PUBLIC])
{
	return hex_read(text, ret, SIGNATURE_PUBLIC);
}

void signature_format(const struct signature *signature, char text[SIGNATURE_TEXT])
{
	char key[2 * SIGNATURE_PUBLIC + 1], bytes[2 * sizeof(signature->bytes) + 1];

	hex_write(key, signature->public_key, SIGNATURE_PUBLIC);
	hex_write(bytes, signature->bytes, sizeof(signature->bytes));
	(void)snprintf(text, SIGNATURE_TEXT, HEADER "key %s\nsignature %s\n", key,
	               bytes); /* fits */
}

int signature_parse(const char *text, struct signature *ret, struct err *err)
{
	char key[2 * SIGNATURE_PUBLIC + 1], bytes[2 * sizeof(ret->bytes) + 1];
	char again[SIGNATURE_TEXT];

	if (sscanf(text, HEADER "key %64[0-9a-f]\nsignature %128[0-9a-f]\n", key, bytes) != 2 ||
	    !hex_read(key, ret->public_key, SIGNATURE_PUBLIC) ||
	    !hex_read(bytes, ret->bytes, sizeof(ret->bytes)))
		return err_set(err, ERR_INVALID,
		               "this is no signature that `cloche agent sign` made");
	/* Nothing more, nothing less. */
	signature_format(ret, again);
	return str_eq(again, text) ? 0
	                           : err_set(err, ERR_INVALID,
	                                     "this is no signature that `cloche agent sign` made");
}
