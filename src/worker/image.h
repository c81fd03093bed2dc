/*
 * What an archive is (a plain tar, an OCI layout, the output of `docker save`), and for the last
 * two which members are the layers of the image and what its config says. Reads JSON out of a
 * survey; opens nothing. Worker role; hostile bytes.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/limits.h"
#include "worker/survey.h"

enum image_format { IMAGE_AUTO, IMAGE_TAR, IMAGE_OCI_LAYOUT, IMAGE_DOCKER_ARCHIVE };

enum { IMAGE_CONFIG_BYTES = 64 * 1024 };

struct image_layer {
	const char *path; /* of the member; points into the survey */
	struct digest digest;
	bool is_plain_digest; /* of the tar after decompression */
};

struct image {
	enum image_format format; /* never IMAGE_AUTO */
	struct image_layer layers[LIMIT_LAYERS];
	size_t layer_count;
	char *config; /* JSON: Env, User, WorkingDir, Entrypoint, Cmd, those that are there */
};

/* "tar", "oci-layout", "docker-archive", "auto". */
bool image_parse_format(const char *text, enum image_format *ret) NODISCARD;
/* For IMAGE_TAR there are no layers and the config is "{}". JSON members that are used have been
 * checked against their digests; layers are for the caller to check while it reads them. */
int image_read(struct image *ret, const struct survey *survey, enum image_format format,
               struct err *err) NODISCARD;
/* This machine, as OCI names it: "amd64". */
const char *image_architecture(void);
void image_done(struct image *image);
#define auto_image auto_(image_done)
