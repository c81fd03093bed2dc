/*
 * The JSON of images: loading members as JSON and walking an OCI layout (index, manifest, config)
 * or the manifest.json of `docker save`. Used by bundle.c alone. Worker role; hostile bytes.
 */
#pragma once

#include <jansson.h>

#include "worker/bundle.h"

void manifest_json_freep(json_t **json);
#define auto_json auto_(manifest_json_freep)

/* A member's text as a JSON value the caller owns; name is for messages. */
int manifest_load(const struct member *member, const char *name, json_t **ret,
                  struct err *err) NODISCARD;
/* Fills ret->layers and gives the image's config as JSON the caller owns. */
int manifest_read_oci(struct bundle *ret, const struct survey *survey, json_t **ret_config,
                      struct err *err) NODISCARD;
int manifest_read_docker(struct bundle *ret, const struct survey *survey, json_t **ret_config,
                         struct err *err) NODISCARD;
