/*
 * An image archive made into directories: one a layer, "l0" (lowest) upwards, below a directory
 * that was empty. Either everything is there and on disk, or nothing. Worker role.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "worker/bundle.h"
#include "worker/layer.h"

extern const struct layer_limits unpack_default_limits;

struct unpack_result {
	enum bundle_format format; /* what it was; never BUNDLE_AUTO */
	size_t layer_count;
	struct layer_counts counts;
	char *config; /* see bundle.h; the caller frees it with unpack_done */
};

/* archive_fd is a regular file and is read from its start, more than once. */
int unpack_image(int archive_fd, int dir_fd, enum bundle_format format,
                 const struct layer_limits *limits, struct unpack_result *ret,
                 struct err *err) NODISCARD;
void unpack_done(struct unpack_result *result);
#define auto_unpack auto_(unpack_done)

/* "l7" */
struct unpack_name {
	char text[8];
};
struct unpack_name unpack_layer_name(size_t index);
