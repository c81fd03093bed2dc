/* Bytes as lower-case hexadecimal text, as columns keep hashes. */
#pragma once

#include "base/base.h"

/* out has room for 2 * len + 1 bytes. */
void hex_write(char *out, const uint8_t *bytes, size_t len);
/* Exactly 2 * len digits. */
bool hex_read(const char *text, uint8_t *bytes, size_t len) NODISCARD;
