/* Sealed credentials of forges in the store (model/forge.h). Read on the thread of the loop. */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct store;
struct store_write;

/* NULL: it has none. The caller frees. */
int store_forge_sealed(struct store *store, const char *name, char **ret,
                       struct err *err) NODISCARD;
void store_seal_forge(struct store_write *write, const char *name, const char *sealed);
