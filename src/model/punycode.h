/*
 * Labels of domain names in scripts other than ASCII: which code points one may hold, lower case,
 * and the ASCII form of it (RFC 3492 with the parameters of IDNA). We carry no tables of Unicode:
 * what would need them (decomposed accents, full-width forms, mixtures of look-alike scripts) is
 * refused instead of guessed. Pure.
 */
#pragma once

#include "base/base.h"

enum { PUNYCODE_POINTS = 63 };

/* UTF-8 (one label, not all ASCII) to "xn--…", lower case. NULL: done. Otherwise why not. */
const char *punycode_from_utf8(const char *label, size_t len, char *out, size_t size) NODISCARD;
/* An "xn--…" label (lower-case ASCII) that stands for a label we would write so ourselves. NULL:
 * it does. Otherwise why not. */
const char *punycode_check(const char *label, size_t len) NODISCARD;
