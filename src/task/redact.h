/*
 * Keeps secrets out of what is kept and shown: known values, and texts that begin like the tokens
 * of well-known services (redact.def). Works on streams: what may be the beginning of a secret is
 * held back until the bytes after it decide, so a secret that comes in two pieces is found, too.
 * Pure.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"

enum { REDACT_STREAMS = 2, REDACT_VALUE_LEAST = 6 };
#define REDACT_MARK "[REDACTED]"

struct redact;

typedef int (*redact_put)(void *ctx, const void *bytes, size_t len);

struct redact *redact_new(void);
void redact_free(struct redact *redact);
/* Values shorter than REDACT_VALUE_LEAST are left alone: they would hit by chance. Before the first
 * redact_feed. */
void redact_add(struct redact *redact, const char *value);
/* Hands on what is certain to be no secret. <0 is what put returned. */
int redact_feed(struct redact *redact, int stream, const void *bytes, size_t len, redact_put put,
                void *ctx) NODISCARD;
/* The end of a stream: what was held back. */
int redact_end(struct redact *redact, int stream, redact_put put, void *ctx) NODISCARD;
/* A whole text; the caller frees. NULL stays NULL. */
char *redact_text(struct redact *redact, const char *text) NODISCARD;
/* Whether a variable of that name is likely to hold a secret. */
bool redact_is_secret_name(const char *name);
