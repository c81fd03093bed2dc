/*
 * Providers of models in the store (model/provider.h). Read on the thread of the loop.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/provider.h"

struct store;
struct store_write;

/* All of them, oldest first; the caller frees each and the list. */
int store_provider_list(struct store *store, struct provider ***ret, size_t *ret_count,
                        struct err *err) NODISCARD;
/* Its sealed key; NULL: it has none. The caller frees. */
int store_provider_sealed(struct store *store, const char *id, char **ret,
                          struct err *err) NODISCARD;

/* sealed: its key; NULL: there is none. */
void store_add_provider(struct store_write *write, const struct provider *provider,
                        const char *sealed);
/* All but name and owner; sealed: another key, NULL: the one it has, if it is to have one.
 * ERR_NOT_FOUND. */
void store_set_provider(struct store_write *write, const struct provider *provider,
                        const char *sealed);
/* ERR_NOT_FOUND. */
void store_delete_provider(struct store_write *write, const char *id);
