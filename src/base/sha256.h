/*
 * SHA-256 (FIPS 180-4) of bytes in memory: fingerprints of small things of our own in the program
 * that links no library. Whoever links libsodium and hashes much uses that.
 */
#pragma once

#include "base/base.h"

enum { SHA256_BYTES = 32, SHA256_TEXT = 65 };

void sha256_digest(uint8_t out[SHA256_BYTES], const void *bytes, size_t len);
/* The same as 64 lower-case hexadecimal digits and a NUL. */
void sha256_hex(char out[SHA256_TEXT], const void *bytes, size_t len);
