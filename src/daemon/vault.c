#include "daemon/vault.h"

#include <sodium.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

/* A sealed text is "x1:" and base64 of nonce and ciphertext; the mark names key and method. */
#define MARK "x1:"

enum {
	NONCE = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
	TAG = crypto_aead_xchacha20poly1305_ietf_ABYTES,
	VARIANT = sodium_base64_VARIANT_ORIGINAL,
	MARK_LEN = sizeof(MARK) - 1,
};

static_assert(KEYS_SEALING_BYTES == crypto_aead_xchacha20poly1305_ietf_KEYBYTES,
              "as the library has it");

char *vault_seal(const struct keys *keys, const char *purpose, const char *value)
{
	size_t len = strlen(value), size = NONCE + len + TAG;
	auto_free uint8_t *bytes = mem_zalloc(size);
	size_t text_size = sodium_base64_encoded_len(size, VARIANT);
	char *text = mem_zalloc(MARK_LEN + text_size);

	randombytes_buf(bytes, NONCE);
	must(crypto_aead_xchacha20poly1305_ietf_encrypt(
		     bytes + NONCE, NULL, (const uint8_t *)value, len, (const uint8_t *)purpose,
		     strlen(purpose), NULL, bytes, keys->sealing) == 0);
	memcpy(text, MARK, MARK_LEN);
	sodium_bin2base64(text + MARK_LEN, text_size, bytes, size, VARIANT);
	return text;
}

int vault_open(const struct keys *keys, const char *purpose, const char *sealed, char **ret,
               struct err *err)
{
	size_t text_len = strlen(sealed), size = 0;
	auto_free uint8_t *bytes = mem_zalloc(text_len + 1);
	char *value;

	if (!str_has_prefix(sealed, MARK) ||
	    sodium_base642bin(bytes, text_len, sealed + MARK_LEN, text_len - MARK_LEN, NULL, &size,
	                      NULL, VARIANT) < 0 ||
	    size < NONCE + TAG)
		return err_set(err, ERR_IO, "a sealed value is damaged");
	value = mem_zalloc(size - NONCE - TAG + 1);
	if (crypto_aead_xchacha20poly1305_ietf_decrypt((uint8_t *)value, NULL, NULL, bytes + NONCE,
	                                               size - NONCE, (const uint8_t *)purpose,
	                                               strlen(purpose), bytes, keys->sealing) < 0) {
		mem_wipe_free(value, size - NONCE - TAG + 1);
		return err_set(
			err, ERR_IO,
			"a sealed value does not open with keys/sealing.key: put the right key "
			"back, or set the value again");
	}
	*ret = value;
	return 0;
}
