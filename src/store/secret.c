/*
 * "sk_live_" + the 20 characters of the credential's id + "_" + 52 characters that stand for 32
 * random bytes. The id finds the row, the rest proves it. What is kept is a BLAKE2b hash keyed with
 * the id: with 256 random bits there is nothing to guess, so a slow hash would only cost time.
 */
#include <sodium.h>

#include "base/must.h"
#include "base/str.h"
#include "store/identity.h"

#define PREFIX "sk_live_"

enum { ID_CHARS = 20, SECRET_BYTES = 32, SECRET_CHARS = 52 };

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

/* Five bits a character; the last one carries what is left. */
static void encode(const uint8_t bytes[SECRET_BYTES], char out[SECRET_CHARS + 1])
{
	for (int i = 0; i < SECRET_CHARS; i++) {
		int bit = 5 * i;
		unsigned pair = (unsigned)bytes[bit / 8] << 8;

		if (bit / 8 + 1 < SECRET_BYTES)
			pair |= bytes[bit / 8 + 1];
		out[i] = alphabet[pair >> (11 - bit % 8) & 31];
	}
	out[SECRET_CHARS] = '\0';
}

static void hash_text(const struct id *id, const char *secret, uint8_t hash[CREDENTIAL_HASH])
{
	must(crypto_generichash(hash, CREDENTIAL_HASH, (const uint8_t *)secret, SECRET_CHARS,
	                        (const uint8_t *)id->text, strlen(id->text)) == 0);
}

void secret_renew(const struct id *id, char text[SECRET_TEXT], uint8_t hash[CREDENTIAL_HASH])
{
	uint8_t bytes[SECRET_BYTES];
	char secret[SECRET_CHARS + 1];

	randombytes_buf(bytes, sizeof(bytes));
	encode(bytes, secret);
	(void)snprintf(text, SECRET_TEXT, PREFIX "%s_%s", id->text + 3, secret); /* fits */
	hash_text(id, secret, hash);
	sodium_memzero(bytes, sizeof(bytes));
	sodium_memzero(secret, sizeof(secret));
}

void secret_make(struct id *ret_id, char text[SECRET_TEXT], uint8_t hash[CREDENTIAL_HASH])
{
	*ret_id = id_new("ky");
	secret_renew(ret_id, text, hash);
}

bool secret_read(const char *text, struct id *ret_id, uint8_t hash[CREDENTIAL_HASH])
{
	const char *id = text + strlen(PREFIX);
	const char *secret = id + ID_CHARS + 1;

	if (!str_has_prefix(text, PREFIX) || strlen(id) != ID_CHARS + 1 + SECRET_CHARS ||
	    id[ID_CHARS] != '_' || strspn(secret, alphabet) != SECRET_CHARS)
		return false;
	(void)snprintf(ret_id->text, sizeof(ret_id->text), "ky_%.*s", ID_CHARS, id); /* fits */
	if (!id_is_valid(ret_id->text, "ky"))
		return false;
	hash_text(ret_id, secret, hash);
	return true;
}

bool secret_is_same(const uint8_t a[CREDENTIAL_HASH], const uint8_t b[CREDENTIAL_HASH])
{
	return sodium_memcmp(a, b, CREDENTIAL_HASH) == 0;
}
