#include "store/seal.h"

#include <sodium.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "store/store_impl.h"

/* No packed list and no JSON begins like this. */
#define MARK "s1:"

enum {
	NONCE = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
	TAG = crypto_aead_xchacha20poly1305_ietf_ABYTES,
	VARIANT = sodium_base64_VARIANT_ORIGINAL,
	MARK_LEN = sizeof(MARK) - 1,
};

static_assert(STORE_SEALING_KEY == crypto_aead_xchacha20poly1305_ietf_KEYBYTES,
              "as the library has it");

char *seal_text(const struct store *store, const char *column, const char *id, const char *text)
{
	auto_free char *purpose = mem_printf("%s %s", column, id);
	auto_free uint8_t *bytes = NULL;
	size_t len, size, room;
	char *sealed;

	if (!text || !*text || !store->has_sealing_key)
		return text ? mem_strdup(text) : NULL;
	len = strlen(text);
	size = NONCE + len + TAG;
	bytes = mem_zalloc(size);
	room = sodium_base64_encoded_len(size, VARIANT);
	sealed = mem_zalloc(MARK_LEN + room);
	randombytes_buf(bytes, NONCE);
	must(crypto_aead_xchacha20poly1305_ietf_encrypt(
		     bytes + NONCE, NULL, (const uint8_t *)text, len, (const uint8_t *)purpose,
		     strlen(purpose), NULL, bytes, store->sealing_key) == 0);
	memcpy(sealed, MARK, MARK_LEN);
	sodium_bin2base64(sealed + MARK_LEN, room, bytes, size, VARIANT);
	return sealed;
}

int seal_open(const struct store *store, const char *column, const char *id, const char *sealed,
              char **ret, struct err *err)
{
	auto_free char *purpose = mem_printf("%s %s", column, id);
	auto_free uint8_t *bytes = NULL;
	size_t len = strlen(sealed), size = 0;
	auto_free char *text = NULL;

	if (!str_has_prefix(sealed, MARK)) {
		*ret = mem_strdup(sealed);
		return 0;
	}
	bytes = mem_zalloc(len + 1);
	text = mem_zalloc(len + 1);
	if (sodium_base642bin(bytes, len, sealed + MARK_LEN, len - MARK_LEN, NULL, &size, NULL,
	                      VARIANT) < 0 ||
	    size < NONCE + TAG ||
	    crypto_aead_xchacha20poly1305_ietf_decrypt(
		    (uint8_t *)text, NULL, NULL, bytes + NONCE, size - NONCE,
		    (const uint8_t *)purpose, strlen(purpose), bytes, store->sealing_key) < 0)
		return err_set(err, ERR_IO,
		               "%s of %s does not open with keys/sealing.key: put the right key "
		               "back",
		               column, id);
	*ret = take_ptr(text);
	return 0;
}
