/*
 * One text looked for in a stream that comes in pieces of any size. Pure, no allocation.
 */
#pragma once

#include "base/base.h"

struct needle {
	const char *text; /* the caller's, and stays */
	size_t len;
	size_t matched; /* bytes of it that the stream ends with so far */
};

void needle_init(struct needle *needle, const char *text);
/* Whether the text ends in these bytes, having begun in them or in earlier ones. */
bool needle_look(struct needle *needle, const uint8_t *bytes, size_t len);
