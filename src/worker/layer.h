/*
 * One layer: the entries of a tar made as files below a directory, in the form overlayfs with
 * `userxattr` reads (whiteouts as character device 0:0, opaque directories by user.overlay.opaque).
 *
 * What is promised whatever the archive says: nothing outside the directory is made, changed or
 * opened; no link is followed; no device node, set-id program, file capability or forged overlay
 * attribute comes to be; no cap is passed. An entry that breaks a rule ends the layer with an error
 * that names it. Worker role; does not clean up after a failure (unpack.c does).
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "worker/reader.h"

struct layer_limits {
	uint64_t bytes;      /* of file data, all layers together */
	uint64_t entries;    /* files and directories made or named, all layers together */
	uint64_t file_bytes; /* apparent size of one file */
	uint64_t ratio;      /* see reader_open_file */
	uint32_t ids;        /* owners below this are kept, others up to 65535 become 0 */
};

/* What was used of the limits, and what was left out. Goes from layer to layer. */
struct layer_counts {
	uint64_t bytes;
	uint64_t entries;
	uint64_t devices; /* nodes not made */
	uint64_t set_ids; /* files whose set-id bits were cleared */
	uint64_t xattrs;  /* extended attributes not kept */
	uint64_t owners;  /* entries whose owner became 0 */
};

int layer_unpack(struct reader *reader, int dir_fd, const struct layer_limits *limits,
                 struct layer_counts *counts, struct err *err) NODISCARD;
