/*
 * An imported image: a name for an ordered list of layers and the configuration that came with
 * them. The `host` image is not a row: it is always there.
 */
#pragma once

#include "base/base.h"
#include "base/id.h"
#include "model/strings.h"

/* A format: its layers lie on top of the host image. */
#define IMAGE_ON_HOST "host-layer"

struct image {
	struct id id;
	char *name;            /* unique */
	char *format;          /* "tar", "oci-layout", "docker-archive" */
	struct strings layers; /* ids ly_…, lowest first */
	char *config;          /* JSON text: env, user, cwd, entrypoint; may be NULL */
	uint64_t bytes;        /* unpacked */
	uint64_t entries;
	uint64_t created_ms;
	struct id owner, team; /* who imported it; everybody may use it */
};

/* A new id; nothing else set. */
struct image *image_new(void);
void image_free(struct image *image);
void image_freep(struct image **image);
