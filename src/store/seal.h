/*
 * Columns that may hold secrets (variables of commands, what a task was given) are sealed:
 * XChaCha20-Poly1305, bound to what the column is for and whose row it is, so that none can be put
 * in the place of another. Rows of earlier versions are plain and stay readable.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct store;

/* The caller frees. NULL stays NULL, and nothing ("") needs no seal. */
char *seal_text(const struct store *store, const char *column, const char *id,
                const char *text) NODISCARD;
/* What seal_text was given; *ret is the caller's to free. ERR_IO when it does not open. */
int seal_open(const struct store *store, const char *column, const char *id, const char *sealed,
              char **ret, struct err *err) NODISCARD;
