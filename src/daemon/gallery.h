/*
 * Images: importing an archive as layers, removing an image and then the layers nothing uses.
 */
#pragma once

#include "api/engine.h"

struct broker_call;
struct gallery;
struct loop;
struct store;

struct gallery *gallery_new(struct loop *loop, struct store *store, struct broker_call *broker);
void gallery_free(struct gallery *gallery);
void gallery_import(struct gallery *gallery, struct image *image, int archive_fd,
                    engine_on_image on_imported, void *ctx);
void gallery_remove(struct gallery *gallery, const char *id, engine_on_done on_removed, void *ctx);
/* Takes away layers that no image uses: after a removal, and at the start. */
void gallery_sweep(struct gallery *gallery);
