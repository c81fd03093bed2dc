/*
 * How long something took, many times: a histogram with a few fixed buckets, wide enough for what a
 * daemon waits for. Pure; whoever shares one between threads guards it.
 */
#pragma once

#include "base/base.h"

enum { SPAN_BUCKETS = 10 };

/* Upper bounds in microseconds; what took longer is in count alone. */
extern const uint64_t span_bounds_us[SPAN_BUCKETS];

struct span {
	uint64_t buckets[SPAN_BUCKETS]; /* each by itself, not summed up */
	uint64_t count;
	uint64_t sum_us;
};

void span_add(struct span *span, uint64_t us);
