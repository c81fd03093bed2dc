/*
 * Stored layers, layers/<layer id>/tree: made under a name nobody uses (".new-<id>") and renamed
 * when complete, so a layer that exists is whole. Trees an archive decided about are touched by a
 * worker only.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/site.h"
#include "wire/wire.h"

/* Makes and opens layers/.new-<id>; -1 on failure. */
int layer_begin(const struct site *site, const char *id, struct err *err) NODISCARD;
/* Gives it its name; whoever needs it to survive a power cut has synced it. */
int layer_commit(const struct site *site, const char *id, struct err *err) NODISCARD;
/* Takes .new-<id> away as far as possible; the rest goes at the next start. */
void layer_abandon(const struct site *site, const char *id);
/* The tree, as O_PATH. ERR_NOT_FOUND. */
int layer_open_tree(const struct site *site, const char *id, struct err *err) NODISCARD;
/* ERR_CONFLICT while a running sandbox uses it; gone already is a success. */
int layer_remove(const struct site *site, const char *id, struct err *err) NODISCARD;
/* Calls fn for every layer of a host image; stops at non-zero. -errno. */
int layer_each_host(const struct site *site, int (*fn)(const char *id, void *ctx),
                    void *ctx) NODISCARD;
/* Removes what broken-off imports left, in a child of its own: it may be much. -errno. */
int layer_sweep(struct site *site) NODISCARD;
/* Unpacks an archive (a regular file) as layers; fills LAYER*, BYTES_COUNT, ENTRIES, FORMAT and
 * CONFIG_JSON into answer. */
int layer_import(const struct site *site, int archive_fd, const char *format,
                 struct wire_out *answer, struct err *err) NODISCARD;
