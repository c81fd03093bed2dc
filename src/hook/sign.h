/* Signatures of Standard Webhooks. Pure. */
#pragma once

#include "base/base.h"

#define SIGN_SECRET_PREFIX "whsec_"

/* "whsec_" and base64 of 24 random bytes; the caller wipes and frees. */
char *sign_make_secret(void) NODISCARD;
/* "v1,BASE64" of id, timestamp and body; the caller frees. NULL for what is no secret of ours. */
char *sign_message(const char *secret, const char *id, uint64_t timestamp,
                   const char *body) NODISCARD;
