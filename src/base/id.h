/*
 * Ids: a short prefix, "_", then 20 characters of lower-case base32 (a 48-bit millisecond time
 * and 52 random bits), so that they sort by creation, are safe in paths and URLs, and are never
 * guessed twice. Example: sb_01jd3q8k2v9m4x7c5t0z.
 */
#pragma once

#include "base/base.h"

struct id {
	char text[33];
};

/* prefix is 2–4 lower-case letters. Randomness from getrandom(2). */
struct id id_new(const char *prefix);
/* Shape check for text from outside: prefix, "_", 20 base32 characters, nothing else. */
bool id_is_valid(const char *text, const char *prefix);
