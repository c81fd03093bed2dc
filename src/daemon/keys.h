/*
 * The node's signing key (Ed25519), made at the first start and never changed: keys/signing.seed,
 * 32 bytes, readable by the daemon alone.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum { KEYS_PUBLIC_BYTES = 32, KEYS_SECRET_BYTES = 64, KEYS_SEED_BYTES = 32 };

struct keys {
	uint8_t public[KEYS_PUBLIC_BYTES];
	uint8_t secret[KEYS_SECRET_BYTES];
};

/* keys_fd is the folder. A seed of another length is refused, not replaced: what it signed would
 * no longer verify. */
int keys_load(struct keys *keys, int keys_fd, struct err *err) NODISCARD;
/* Wipes it. */
void keys_done(struct keys *keys);
