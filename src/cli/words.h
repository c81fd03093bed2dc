/* Lists of words in requests and answers: scopes, mostly. */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "base/opt.h"

/* Sets a member; nothing when text is NULL. ERR_INVALID when it is no UTF-8. */
int words_put(json_t *body, const char *key, const char *text, struct err *err) NODISCARD;
/* Sets a list from repeated options, each of which may hold several words with commas; nothing when
 * none was given. */
int words_put_list(json_t *body, const char *key, const struct opt_list *list,
                   struct err *err) NODISCARD;
/* "sandboxes:* logs:read" for a list of scopes: what is read and written as one. The caller frees.
 */
char *words_shorten(const json_t *list) NODISCARD;
