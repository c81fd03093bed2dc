/* Small encodings the command line needs: URLs, base64, SHA-1 (only for the WebSocket handshake,
 * RFC 6455 section 1.3, where it protects nothing). Pure. */
#pragma once

#include "base/base.h"
#include "base/buf.h"

enum { ENCODE_SHA1_BYTES = 20 };

/* Appends s with every byte but unreserved ones (RFC 3986) as %XX; `keep` names more bytes that
 * stay, e.g. "/". */
int encode_url(struct buf *to, const char *s, const char *keep) NODISCARD;
/* Appends the padded form. */
int encode_base64(struct buf *to, const void *bytes, size_t len) NODISCARD;
/* Decodes padded base64 to out, which has room for len / 4 * 3 bytes. The count, or -EINVAL. */
ssize_t encode_from_base64(const char *text, size_t len, uint8_t *out) NODISCARD;
void encode_sha1(const void *bytes, size_t len, uint8_t out[ENCODE_SHA1_BYTES]);
