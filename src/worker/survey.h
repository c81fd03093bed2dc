/*
 * A first look at an archive: what its members are called, how large they are, and the text of
 * those that may be JSON. Enough to tell a plain root file system from the archive of an image,
 * without keeping anything large. Worker role; hostile bytes, everything bounded.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "worker/layer.h"

struct member {
	char *path; /* clean, see name.h */
	char *link; /* clean target, for links; else NULL */
	uint64_t size;
	char *text; /* NULL: too large, or certainly not JSON */
	size_t text_len;
};

struct survey {
	struct member *members;
	size_t count;
	size_t text_bytes;
	bool is_plain; /* something was met that no image archive has; reading stopped there */
};

int survey_read(struct survey *ret, int archive_fd, const struct layer_limits *limits,
                struct err *err) NODISCARD;
/* Harmless on a zeroed or half-read one. */
void survey_done(struct survey *survey);
#define auto_survey auto_(survey_done)

/* The member with this clean path, through a few links between members; NULL if there is none. */
const struct member *survey_find(const struct survey *survey, const char *path);
