#include "daemon/gallery.h"

#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/notes.h"
#include "runtime/broker_call.h"
#include "store/store.h"

enum { SWEEP_AGAIN_MS = 500, SWEEP_TRIES = 120 };

struct gallery {
	struct loop *loop;
	struct store *store;
	struct broker_call *broker;
	bool is_sweeping;
	bool is_sweep_due;
	struct loop_timer again; /* a layer was still in use */
	unsigned tries;
};

struct gallery *gallery_new(struct loop *loop, struct store *store, struct broker_call *broker)
{
	struct gallery *gallery = mem_new(struct gallery);

	gallery->loop = loop;
	gallery->store = store;
	gallery->broker = broker;
	return gallery;
}

void gallery_free(struct gallery *gallery)
{
	if (gallery)
		loop_timer_stop(&gallery->again);
	mem_freep(&gallery);
}

/* --- import --- */

struct import {
	struct gallery *gallery;
	struct image *image;
	engine_on_image on_imported;
	void *ctx;
};

static void import_free(struct import *import)
{
	image_free(import->image);
	mem_freep(&import);
}

static void ignore_result(const struct err *err, void *ctx)
{
	auto_free char *layer = ctx;

	if (err->code != ERR_OK)
		log_error("a layer cannot be removed", LOG_STR("layer", layer), LOG_ERR(err));
}

static void on_import_stored(const struct store_result *result, void *ctx)
{
	static const struct err none = {0};
	struct import *import = ctx;
	const struct strings *layers = &import->image->layers;

	if (result->ok) {
		import->on_imported(import->image, &none, import->ctx);
	} else {
		for (size_t i = 0; i < layers->count; i++)
			broker_call_layer_rm(import->gallery->broker, layers->items[i],
			                     ignore_result, mem_strdup(layers->items[i]));
		import->on_imported(NULL, &result->err, import->ctx);
	}
	import_free(import);
}

static void on_unpacked(const struct broker_imported *unpacked, const struct err *err, void *ctx)
{
	struct import *import = ctx;
	struct image *image = import->image;
	struct store_write *write;
	struct event event;

	if (!unpacked) {
		import->on_imported(NULL, err, import->ctx);
		import_free(import);
		return;
	}
	strings_copy(&image->layers, &unpacked->layers);
	if (unpacked->config)
		spec_set(&image->config, unpacked->config);
	if (*unpacked->format && !str_eq(image->format, IMAGE_ON_HOST))
		spec_set(&image->format, unpacked->format);
	image->bytes = unpacked->bytes;
	image->entries = unpacked->entries;
	image->created_ms = io_real_ms();
	write = store_write_new(import->gallery->store);
	store_put_image(write, image);
	note_image(&event, EVENT_IMAGE_IMPORTED, image);
	store_put_event(write, &event);
	event_done(&event);
	store_write_submit(write, on_import_stored, import);
}

void gallery_import(struct gallery *gallery, struct image *image, int archive_fd,
                    engine_on_image on_imported, void *ctx)
{
	struct import *import = mem_new(struct import);

	*import = (struct import){gallery, image, on_imported, ctx};
	broker_call_import(gallery->broker, image->id.text,
	                   str_eq(image->format, IMAGE_ON_HOST) ? "tar" : image->format, archive_fd,
	                   on_unpacked, import);
}

/* --- remove --- */

struct removal {
	struct gallery *gallery;
	engine_on_done on_removed;
	void *ctx;
};

static void on_removal_stored(const struct store_result *result, void *ctx)
{
	static const struct err none = {0};
	auto_free struct removal *removal = ctx;

	removal->on_removed(result->ok ? &none : &result->err, removal->ctx);
	if (result->ok)
		gallery_sweep(removal->gallery);
}

void gallery_remove(struct gallery *gallery, const char *id, engine_on_done on_removed, void *ctx)
{
	auto_(image_freep) struct image *image = NULL;
	struct removal *removal = mem_new(struct removal);
	struct store_write *write = store_write_new(gallery->store);
	struct event event;

	*removal = (struct removal){gallery, on_removed, ctx};
	store_delete_image(write, id);
	if (store_image_get(gallery->store, id, &image, &(struct err){0}) == 0) {
		note_image(&event, EVENT_IMAGE_REMOVED, image);
		store_put_event(write, &event);
		event_done(&event);
	}
	store_write_submit(write, on_removal_stored, removal);
}

/* --- sweep: one layer after the other --- */

struct sweep {
	struct gallery *gallery;
	struct strings layers;
	size_t at;
};

static void sweep_next(struct sweep *sweep);

static void on_again(struct loop_timer *timer, void *ctx)
{
	gallery_sweep(ctx);
}

/* A sandbox that is being removed stands on it for a moment longer than its image exists. */
static bool tries_again(struct gallery *gallery, const struct err *err)
{
	if (err->code != ERR_CONFLICT || gallery->tries >= SWEEP_TRIES)
		return false;
	gallery->tries++;
	loop_timer_in(gallery->loop, &gallery->again, SWEEP_AGAIN_MS, on_again, gallery);
	return true;
}

static void on_layer_removed(const struct err *err, void *ctx)
{
	struct sweep *sweep = ctx;
	const char *layer = sweep->layers.items[sweep->at++];
	struct store_write *write;

	/* One that is gone already is as good; any other failure is tried again later. */
	if (err->code == ERR_OK || err->code == ERR_NOT_FOUND) {
		write = store_write_new(sweep->gallery->store);
		store_delete_layer(write, layer);
		store_write_submit(write, NULL, NULL);
		sweep->gallery->tries = 0;
	} else if (err->code == ERR_UNAVAILABLE) {
		sweep->at = sweep->layers.count; /* the broker is gone */
	} else if (!tries_again(sweep->gallery, err)) {
		log_error("a layer cannot be removed; the next start tries again",
		          LOG_STR("layer", layer), LOG_ERR(err));
	}
	sweep_next(sweep);
}

static void sweep_next(struct sweep *sweep)
{
	if (sweep->at < sweep->layers.count) {
		broker_call_layer_rm(sweep->gallery->broker, sweep->layers.items[sweep->at],
		                     on_layer_removed, sweep);
		return;
	}
	struct gallery *gallery = sweep->gallery;
	gallery->is_sweeping = false;
	strings_done(&sweep->layers);
	mem_freep(&sweep);
	if (gallery->is_sweep_due)
		loop_timer_in(gallery->loop, &gallery->again, 0, on_again, gallery);
}

void gallery_sweep(struct gallery *gallery)
{
	struct sweep *sweep;
	struct err err = {0};

	/* What became unused since this sweep looked is for the next one. */
	gallery->is_sweep_due = gallery->is_sweeping;
	if (gallery->is_sweeping)
		return;
	sweep = mem_new(struct sweep);
	sweep->gallery = gallery;
	gallery->is_sweeping = true;
	if (store_layers_unused(gallery->store, &sweep->layers, &err) < 0)
		log_error("cannot look for unused layers", LOG_ERR(&err));
	sweep_next(sweep);
}
