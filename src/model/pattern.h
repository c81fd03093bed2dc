/*
 * Regular expressions of ECMA-262 with the `u` flag, as JSON Schema uses them: an automaton, all of
 * whose states advance together, so time is bounded by pattern × text and no pattern can
 * backtrack. What that cannot do (back references) is refused by name. A compiled pattern is
 * read-only and may be used by several threads.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum {
	PATTERN_BYTES = 16 * 1024,
	PATTERN_CODE = 20000, /* instructions, after {n,m} is written out */
	PATTERN_DEPTH = 32,   /* groups inside groups */
};

struct pattern;

/* ERR_INVALID names what and where. */
int pattern_compile(const char *text, size_t len, struct pattern **ret, struct err *err) NODISCARD;
void pattern_free(struct pattern *pattern);
/* Whether it matches somewhere in the UTF-8 text. Takes from *steps; -E2BIG when none is left. */
int pattern_search(const struct pattern *pattern, const char *text, size_t len, uint64_t *steps,
                   bool *ret) NODISCARD;
