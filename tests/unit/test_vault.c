#include <sodium.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/vault.h"
#include "harness/test.h"

static struct keys make_keys(uint8_t fill)
{
	struct keys keys = {0};

	CHECK(sodium_init() >= 0);
	memset(keys.sealing, fill, sizeof(keys.sealing));
	return keys;
}

TEST(what_is_sealed_opens_for_its_purpose_alone)
{
	struct keys keys = make_keys(1), other = make_keys(2);
	auto_free char *sealed = vault_seal(&keys, "environment en_1 TOKEN", "canary");
	auto_free char *again = vault_seal(&keys, "environment en_1 TOKEN", "canary");
	auto_free char *value = NULL;
	struct err err = {0};
	char *wrong = NULL;

	CHECK(strstr(sealed, "canary") == NULL);
	CHECK(!str_eq(sealed, again)); /* another nonce */
	CHECK_INT(vault_open(&keys, "environment en_1 TOKEN", sealed, &value, &err), 0);
	CHECK_STR(value, "canary");
	CHECK_INT(vault_open(&keys, "environment en_2 TOKEN", sealed, &wrong, &err), -1);
	CHECK_INT(vault_open(&keys, "environment en_1 OTHER", sealed, &wrong, &err), -1);
	CHECK_INT(vault_open(&other, "environment en_1 TOKEN", sealed, &wrong, &err), -1);
	CHECK_INT(err.code, ERR_IO);
}

TEST(damage_is_noticed)
{
	struct keys keys = make_keys(1);
	auto_free char *sealed = vault_seal(&keys, "p", "");
	struct err err = {0};
	char *value = NULL;

	CHECK_INT(vault_open(&keys, "p", sealed, &value, &err), 0);
	CHECK_STR(value, "");
	mem_freep(&value);
	sealed[8] = sealed[8] == 'A' ? 'B' : 'A';
	CHECK_INT(vault_open(&keys, "p", sealed, &value, &err), -1);
	CHECK_INT(vault_open(&keys, "p", "", &value, &err), -1);
	CHECK_INT(vault_open(&keys, "p", "x1:", &value, &err), -1);
	CHECK_INT(vault_open(&keys, "p", "x1:AAAA", &value, &err), -1);
	CHECK_INT(vault_open(&keys, "p", "x2:AAAA", &value, &err), -1);
}
