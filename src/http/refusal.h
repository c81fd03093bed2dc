/*
 * Requests the library refuses by itself, before anybody is asked: too long a line, too many
 * headers, no HTTP. It has a page of HTML for each; here they become problem documents as all other
 * errors are. Inside src/http only; the loop's thread.
 */
#pragma once

#include "base/base.h"

/* From what the library logs. The status it is about to answer with; 0: it says something else. */
int refusal_heard(const char *text);
