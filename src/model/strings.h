/*
 * A list of owned strings, for everything that is "some texts in order": argv, labels, env,
 * mechanisms. Zeroed memory is an empty list. Bounds are the caller's (base/limits.h): each list
 * that a peer fills is checked where it is read.
 */
#pragma once

#include "base/base.h"

struct strings {
	char **items; /* count strings, then NULL once anything was added: usable as argv */
	size_t count;
};

void strings_done(struct strings *list);
/* Adds a copy. */
void strings_add(struct strings *list, const char *text);
/* Adds the string itself, which the list then owns. */
void strings_take(struct strings *list, char *text);
/* Replaces what *to holds by copies of from's strings. */
void strings_copy(struct strings *to, const struct strings *from);
bool strings_has(const struct strings *list, const char *text);
bool strings_equal(const struct strings *a, const struct strings *b);
/* Ascending indices as people count them: "2, 7-9"; cut with "…" when it does not fit. */
enum { STRINGS_POSITIONS = 240 }; /* room for those of a whole list of 100 */
void strings_format_positions(char *out, size_t size, const size_t *indices, size_t count);

/* Adds each word of a text with blanks between. */
void strings_split(struct strings *list, const char *text);
/* The other way round; the caller frees. */
char *strings_join(const struct strings *list);

/* --- lists of "key=value" entries, each key once --- */
/* The value of key, or NULL. */
const char *strings_value(const struct strings *list, const char *key);
/* Sets or replaces key; keeps the order of what was there. */
void strings_set(struct strings *list, const char *key, const char *value);
/* Drops key; false when it was not there. */
bool strings_unset(struct strings *list, const char *key);
