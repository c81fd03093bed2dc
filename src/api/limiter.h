/*
 * How often somebody may ask: a bucket of tokens for each name, bounded in number. Pure but for its
 * memory; the caller brings the clock.
 */
#pragma once

#include "base/base.h"

struct limiter;

/* rate: requests a second (0: no limit); burst: at once. */
struct limiter *limiter_new(uint64_t rate, uint64_t burst);
void limiter_free(struct limiter *limiter);
/* Takes one: 0, or after how many ms there is one. */
uint64_t limiter_take(struct limiter *limiter, const char *name, uint64_t now_ms);
