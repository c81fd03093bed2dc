/*
 * Errors that are known before a request has been received in full: told to a client that still
 * sends, within bounds of time and bytes. Inside src/http only; the loop's thread.
 */
#pragma once

#include "base/base.h"

struct request;

/* After the answer was made (request->status is set); bytes are copied. */
void early_answer(struct request *request, const void *bytes, size_t len);
/* Bytes of the body came that nobody wants any more. */
void early_drop(struct request *request, size_t len);
void early_done(struct request *request);
