/*
 * SHA-1 (FIPS 180-4), only because the WebSocket handshake (RFC 6455, 4.2.2) names it. Not for
 * anything that needs a secure hash.
 */
#pragma once

#include "base/base.h"

enum { SHA1_BYTES = 20, SHA1_MAX_INPUT = 1024 };

/* len ≤ SHA1_MAX_INPUT. */
void sha1_digest(uint8_t out[SHA1_BYTES], const void *bytes, size_t len);
