#include "model/span.h"

const uint64_t span_bounds_us[SPAN_BUCKETS] = {
	1000, 2500, 5000, 10000, 25000, 100000, 500000, 2500000, 10000000, 60000000,
};

void span_add(struct span *span, uint64_t us)
{
	span->count++;
	span->sum_us += us;
	for (size_t i = 0; i < SPAN_BUCKETS; i++) {
		if (us <= span_bounds_us[i]) {
			span->buckets[i]++;
			return;
		}
	}
}
