/* How much the store has to do, as it counts it and as it is told. Part of store.h. */
#pragma once

#include "model/span.h"
#include "store/store.h"

struct store_stats {
	uint64_t writes;  /* finished, well or not */
	uint64_t commits; /* groups on disk */
	uint64_t events;  /* committed */
	struct span commit;
};
void store_get_stats(struct store *store, struct store_stats *ret);

/* How many are on their way who write several times each: with enough of them, and enough writes, a
 * commit waits some milliseconds for more of these. */
void store_set_company(struct store *store, size_t count);
