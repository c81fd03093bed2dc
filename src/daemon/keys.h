/*
 * The node's own keys, made at the first start and never changed, readable by the daemon alone:
 * keys/signing.seed (Ed25519) and keys/sealing.key (for vault.h), 32 bytes each.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum {
	KEYS_PUBLIC_BYTES = 32,
	KEYS_SECRET_BYTES = 64,
	KEYS_SEED_BYTES = 32,
	KEYS_SEALING_BYTES = 32
};

struct keys {
	uint8_t public[KEYS_PUBLIC_BYTES];
	uint8_t secret[KEYS_SECRET_BYTES];
	uint8_t sealing[KEYS_SEALING_BYTES];
	uint8_t audit[KEYS_SEED_BYTES]; /* derived from the seed: the chain of the audit is keyed
	                                   with it */
};

/* keys_fd is the folder. A key of another length is refused, not replaced: what it signed would
 * no longer verify, what it sealed no longer open. */
int keys_load(struct keys *keys, int keys_fd, struct err *err) NODISCARD;
/* Wipes it. */
void keys_done(struct keys *keys);
