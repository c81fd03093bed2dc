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

enum bundle_format { BUNDLE_AUTO, BUNDLE_TAR, BUNDLE_OCI_LAYOUT, BUNDLE_DOCKER_ARCHIVE };

enum { BUNDLE_CONFIG_BYTES = 64 * 1024 };

struct bundle_layer {
	const char *path; /* of the member; points into the survey */
	struct digest digest;
	bool is_plain_digest; /* of the tar after decompression */
};

struct bundle {
	enum bundle_format format; /* never BUNDLE_AUTO */
	struct bundle_layer layers[LIMIT_LAYERS];
	size_t layer_count;
	char *config; /* JSON: Env, User, WorkingDir, Entrypoint, Cmd, those that are there */
};

/* "tar", "oci-layout", "docker-archive", "auto". */
bool bundle_parse_format(const char *text, enum bundle_format *ret) NODISCARD;
const char *bundle_format_name(enum bundle_format format);
/* For BUNDLE_TAR there are no layers and the config is "{}". JSON members that are used have been
 * checked against their digests; layers are for the caller to check while it reads them. */
int bundle_read(struct bundle *ret, const struct survey *survey, enum bundle_format format,
                struct err *err) NODISCARD;
/* This machine, as OCI names it: "amd64". */
const char *bundle_architecture(void);
void bundle_done(struct bundle *bundle);
#define auto_bundle auto_(bundle_done)
