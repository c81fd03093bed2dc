/*
 * Takes a known text out of a stream of bytes, also where it is split between two pieces: each byte
 * of it becomes a '*', so lengths stay true. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"

/* bytes from buf's front on; `clean` of them were looked at before. Returns how many may go on now:
 * all but a tail that may be the beginning of the text (none is held back when is_end). */
size_t mask_stream(struct buf *buf, size_t clean, const char *text, bool is_end);
