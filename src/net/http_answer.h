/*
 * The head of an answer as a server inside a sandbox sends it: every byte is foreign. Stricter than
 * clients are. Pure, no allocation.
 */
#pragma once

#include "base/base.h"

/* A field; both texts are valid during the call, without blanks around them. */
typedef void (*http_answer_on_field)(const char *name, const char *value, void *ctx);

/* Reads a whole head, up to and with its empty line, and cuts it into pieces in place. The status,
 * or -1: it is none. on_field (may be NULL) is called for each line; a line that is no field makes
 * the whole head none. */
int http_answer_read(char *head, http_answer_on_field on_field, void *ctx) NODISCARD;
