/* Which app we are: RFC 7519 with RS256 (RFC 7518, 3.3), as GitHub wants it. */
#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <sodium.h>

#include "base/io.h"
#include "base/mem.h"
#include "gateway/forge_impl.h"

/* A clock that is ahead of theirs must not make it one of the future; ten minutes are the most. */
enum { KEY_MOST = 16 * 1024, BEFORE_S = 60, AFTER_S = 8 * 60 };

static char *encode(const void *bytes, size_t len)
{
	size_t size = sodium_base64_encoded_len(len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	char *text = mem_zalloc(size);

	return sodium_bin2base64(text, size, bytes, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static int load_key(const struct forge *forge, gnutls_privkey_t key, struct err *err)
{
	char *text = NULL;
	size_t len = 0;
	int r = io_read_file(AT_FDCWD, forge->key_file, KEY_MOST, &text, &len);

	if (r < 0)
		return err_sys(err, -r, "the key_file of forge %s cannot be read", forge->name);
	gnutls_datum_t data = {(unsigned char *)text, (unsigned)len};

	r = gnutls_privkey_import_x509_raw(key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
	mem_wipe_free(text, len);
	if (r < 0 || gnutls_privkey_get_pk_algorithm(key, NULL) != GNUTLS_PK_RSA)
		return err_set(err, ERR_UNAVAILABLE, "the key_file of forge %s is no RSA key (PEM)",
		               forge->name);
	return 0;
}

static char *claims(const struct forge *forge, uint64_t now_ms)
{
	json_int_t now = (json_int_t)(now_ms / 1000);
	json_t *head = json_pack("{s:s, s:s}", "alg", "RS256", "typ", "JWT");
	json_t *body = json_pack("{s:I, s:I, s:s}", "iat", now - BEFORE_S, "exp", now + AFTER_S,
	                         "iss", forge->app_id);
	auto_free char *head_text = json_dumps(head, JSON_COMPACT);
	auto_free char *body_text = json_dumps(body, JSON_COMPACT);
	auto_free char *first = encode(head_text, strlen(head_text));
	auto_free char *second = encode(body_text, strlen(body_text));

	json_decref(head);
	json_decref(body);
	return mem_printf("%s.%s", first, second);
}

static int sign(gnutls_privkey_t key, const struct forge *forge, uint64_t now_ms, char **ret,
                struct err *err)
{
	auto_free char *text = claims(forge, now_ms);
	gnutls_datum_t data = {(unsigned char *)text, (unsigned)strlen(text)};
	gnutls_datum_t signature = {0};
	auto_free char *coded = NULL;

	if (gnutls_privkey_sign_data(key, GNUTLS_DIG_SHA256, 0, &data, &signature) < 0)
		return err_set(err, ERR_UNAVAILABLE, "the key of forge %s signs nothing",
		               forge->name);
	coded = encode(signature.data, signature.size);
	gnutls_free(signature.data);
	*ret = mem_printf("%s.%s", text, coded);
	return 0;
}

int forge_app_jwt(const struct forge *forge, uint64_t now_ms, char **ret, struct err *err)
{
	gnutls_privkey_t key;
	int r;

	if (gnutls_privkey_init(&key) < 0)
		return err_set(err, ERR_INTERNAL, "no memory for a key");
	r = load_key(forge, key, err);
	if (r == 0)
		r = sign(key, forge, now_ms, ret, err);
	gnutls_privkey_deinit(key);
	return r;
}
