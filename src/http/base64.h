/*
 * Base64 (RFC 4648 with padding), encoding only.
 */
#pragma once

#include "base/base.h"

#define BASE64_SIZE(len) (((len) + 2) / 3 * 4 + 1)

/* Writes BASE64_SIZE(len) bytes, NUL included. */
void base64_encode(char *to, const void *bytes, size_t len);
