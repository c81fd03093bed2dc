/*
 * Sealing of values that are written once and given to commands only: XChaCha20-Poly1305 under
 * keys/sealing.key. A sealed text is bound to what it is for (`purpose`), so that one cannot be put
 * in the place of another in the store. The daemon alone has the key.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "daemon/keys.h"

/* The caller frees. */
char *vault_seal(const struct keys *keys, const char *purpose, const char *value) NODISCARD;
/* ERR_IO for what was not sealed with this key for this purpose. The caller wipes *ret with
 * mem_wipe_free(value, strlen(value)). */
int vault_open(const struct keys *keys, const char *purpose, const char *sealed, char **ret,
               struct err *err) NODISCARD;
