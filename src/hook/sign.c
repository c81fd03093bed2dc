#include "hook/sign.h"

#include <sodium.h>

#include "base/mem.h"
#include "base/str.h"

enum { SECRET_BYTES = 24, SECRET_MOST = 64 };

static char *to_base64(const uint8_t *bytes, size_t len)
{
	size_t size = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
	char *text = mem_zalloc(size);

	sodium_bin2base64(text, size, bytes, len, sodium_base64_VARIANT_ORIGINAL);
	return text;
}

char *sign_make_secret(void)
{
	uint8_t bytes[SECRET_BYTES];
	auto_free char *text = NULL;
	char *secret;

	randombytes_buf(bytes, sizeof(bytes));
	text = to_base64(bytes, sizeof(bytes));
	secret = mem_printf(SIGN_SECRET_PREFIX "%s", text);
	explicit_bzero(text, strlen(text));
	explicit_bzero(bytes, sizeof(bytes));
	return secret;
}

char *sign_message(const char *secret, const char *id, uint64_t timestamp, const char *body)
{
	auto_free char *signed_text =
		mem_printf("%s.%llu.%s", id, (unsigned long long)timestamp, body);
	auto_free char *text = NULL;
	crypto_auth_hmacsha256_state state;
	uint8_t key[SECRET_MOST], mac[crypto_auth_hmacsha256_BYTES];
	size_t len;

	if (!str_has_prefix(secret, SIGN_SECRET_PREFIX) ||
	    sodium_base642bin(key, sizeof(key), secret + strlen(SIGN_SECRET_PREFIX),
	                      strlen(secret) - strlen(SIGN_SECRET_PREFIX), NULL, &len, NULL,
	                      sodium_base64_VARIANT_ORIGINAL) != 0)
		return NULL;
	crypto_auth_hmacsha256_init(&state, key, len);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)signed_text, strlen(signed_text));
	crypto_auth_hmacsha256_final(&state, mac);
	explicit_bzero(key, sizeof(key));
	text = to_base64(mac, sizeof(mac));
	return mem_printf("v1,%s", text);
}
