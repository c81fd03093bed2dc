/*
 * Signatures of agent manifests: Ed25519 over a label and the bytes of the file, kept beside it as
 * a small text file. Used by the daemon, which checks them, and by the tool that makes them.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum {
	SIGNATURE_SEED = 32,
	SIGNATURE_PUBLIC = 32,
	SIGNATURE_TEXT = 256, /* room for any signature file */
};

struct signature {
	uint8_t public_key[SIGNATURE_PUBLIC];
	uint8_t bytes[64];
};

/* The public key of a seed. */
void signature_public(const uint8_t seed[SIGNATURE_SEED], uint8_t ret[SIGNATURE_PUBLIC]);
void signature_make(const uint8_t seed[SIGNATURE_SEED], const void *manifest, size_t len,
                    struct signature *ret);
bool signature_holds(const struct signature *signature, const void *manifest, size_t len);
/* The content of the file. */
void signature_format(const struct signature *signature, char text[SIGNATURE_TEXT]);
/* ERR_INVALID for what signature_format did not write. */
int signature_parse(const char *text, struct signature *ret, struct err *err) NODISCARD;
/* 64 hexadecimal digits; out has room for 65 bytes. */
void signature_format_key(const uint8_t key[SIGNATURE_PUBLIC], char *out);
bool signature_parse_key(const char *text, uint8_t ret[SIGNATURE_PUBLIC]) NODISCARD;
