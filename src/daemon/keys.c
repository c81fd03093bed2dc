#include "daemon/keys.h"

#include <errno.h>

#include <sodium.h>

#include "base/io.h"
#include "base/mem.h"

static_assert(KEYS_PUBLIC_BYTES == crypto_sign_PUBLICKEYBYTES, "as the library has it");
static_assert(KEYS_SECRET_BYTES == crypto_sign_SECRETKEYBYTES, "as the library has it");
static_assert(KEYS_SEED_BYTES == crypto_sign_SEEDBYTES, "as the library has it");
static_assert(KEYS_SEALING_BYTES == KEYS_SEED_BYTES, "both files have one length");

#define AUDIT_LABEL "cloche audit chain"

static int read_or_make(int keys_fd, const char *name, uint8_t key[KEYS_SEED_BYTES],
                        struct err *err)
{
	char *bytes = NULL;
	size_t len = 0;
	int r = io_read_file(keys_fd, name, KEYS_SEED_BYTES, &bytes, &len);

	if (r == 0 && len == KEYS_SEED_BYTES) {
		memcpy(key, bytes, KEYS_SEED_BYTES);
		mem_wipe_free(bytes, len);
		return 0;
	}
	mem_wipe_free(bytes, len);
	if (r == 0 || r == -EFBIG)
		return err_set(err, ERR_CONFIG,
		               "keys/%s is damaged: put the saved one back, or remove it "
		               "to get a new key",
		               name);
	if (r != -ENOENT)
		return err_sys(err, -r, "read keys/%s", name);
	randombytes_buf(key, KEYS_SEED_BYTES);
	r = io_replace_file(keys_fd, name, key, KEYS_SEED_BYTES, 0600);
	return r < 0 ? err_sys(err, -r, "write keys/%s", name) : 0;
}

int keys_load(struct keys *keys, int keys_fd, struct err *err)
{
	uint8_t seed[KEYS_SEED_BYTES];

	if (read_or_make(keys_fd, "signing.seed", seed, err) < 0 ||
	    read_or_make(keys_fd, "sealing.key", keys->sealing, err) < 0)
		return -1;
	crypto_sign_seed_keypair(keys->public, keys->secret, seed);
	(void)crypto_generichash(keys->audit, sizeof(keys->audit), (const uint8_t *)AUDIT_LABEL,
	                         strlen(AUDIT_LABEL), seed, sizeof(seed)); /* sizes are allowed */
	sodium_memzero(seed, sizeof(seed));
	return 0;
}

void keys_done(struct keys *keys)
{
	sodium_memzero(keys, sizeof(*keys));
}
