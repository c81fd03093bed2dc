/*
 * References of RFC 3986, resolved as texts: nothing is opened or asked.
 */
#pragma once

#include "base/base.h"

/* `reference` seen from `base` (which may be ""), as section 5.2 has it and without a fragment; to
 * be freed. *ret_fragment points behind the '#' in reference, or is NULL where there is none. */
char *uri_resolve(const char *base, const char *reference, const char **ret_fragment) NODISCARD;
/* %41 -> A, in place. false for a broken escape or an escaped NUL. */
bool uri_unescape(char *text) NODISCARD;
