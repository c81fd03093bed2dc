#include "api/limiter.h"

#include "base/mem.h"
#include "base/str.h"

/* Names that meet in one place take it from each other; whoever comes anew starts with a full
 * bucket, so a collision is to the caller's advantage and cannot lock anybody out. */
enum { SLOTS = 4096, WAYS = 4, NAME = 48 };

struct bucket {
	char name[NAME];
	uint64_t level; /* thousandths of a request */
	uint64_t at_ms;
};

struct limiter {
	uint64_t rate, burst;
	struct bucket buckets[SLOTS];
};

struct limiter *limiter_new(uint64_t rate, uint64_t burst)
{
	struct limiter *limiter = mem_new(struct limiter);

	limiter->rate = rate;
	limiter->burst = MAX(burst, (uint64_t)1);
	return limiter;
}

void limiter_free(struct limiter *limiter)
{
	mem_freep(&limiter);
}

static uint32_t hash(const char *name)
{
	uint32_t value = 2166136261U;

	for (; *name; name++)
		value = (value ^ (uint8_t)*name) * 16777619U;
	return value;
}

static struct bucket *find(struct limiter *limiter, const char *name, uint64_t now_ms)
{
	size_t first = hash(name) % (SLOTS / WAYS) * WAYS;
	struct bucket *oldest = &limiter->buckets[first];

	for (size_t i = first; i < first + WAYS; i++) {
		if (str_eq(limiter->buckets[i].name, name))
			return &limiter->buckets[i];
		if (limiter->buckets[i].at_ms < oldest->at_ms)
			oldest = &limiter->buckets[i];
	}
	*oldest = (struct bucket){.level = limiter->burst * 1000, .at_ms = now_ms};
	(void)snprintf(oldest->name, sizeof(oldest->name), "%s", name); /* cut is fine */
	return oldest;
}

uint64_t limiter_take(struct limiter *limiter, const char *name, uint64_t now_ms)
{
	struct bucket *bucket;
	uint64_t passed;

	if (limiter->rate == 0)
		return 0;
	bucket = find(limiter, name, now_ms);
	passed = MIN(now_ms - bucket->at_ms, (uint64_t)3600 * 1000);
	bucket->level = MIN(bucket->level + passed * limiter->rate, limiter->burst * 1000);
	bucket->at_ms = now_ms;
	if (bucket->level >= 1000) {
		bucket->level -= 1000;
		return 0;
	}
	return (1000 - bucket->level + limiter->rate - 1) / limiter->rate;
}
