/*
 * What the daemon counts about itself, and GET /metrics from it (Prometheus text format 0.0.4).
 * metrics.def is the list. The counters belong to the fleet; one thread.
 */
#pragma once

#include "base/base.h"
#include "model/sandbox.h"
#include "model/span.h"

struct fleet;

enum metrics_counter {
#define COUNTER(id, name, help) METRICS_##id,
#include "daemon/metrics.def"
#undef COUNTER
	METRICS_COUNTERS_
};

enum metrics_span {
#define SPAN(id, name, help) METRICS_##id,
#include "daemon/metrics.def"
#undef SPAN
	METRICS_SPANS_
};

enum { METRICS_HTTP_CLASSES = 6 };

struct metrics {
	uint64_t counters[METRICS_COUNTERS_];
	struct span spans[METRICS_SPANS_];
	struct span states[SANDBOX_STATE_COUNT_]; /* spent in it by those that left it */
	uint64_t answered[METRICS_HTTP_CLASSES];  /* HTTP answers by status / 100 */
	uint64_t started_ms;                      /* boot clock */
	uint64_t started_real_ms;
};

void metrics_init(struct metrics *metrics);
void metrics_count(struct metrics *metrics, enum metrics_counter counter);
/* What began at this time of the boot clock is over now. */
void metrics_since(struct metrics *metrics, enum metrics_span span, uint64_t began_us);

/* The whole text; the caller frees it. What cannot be read at the moment is left out. */
char *metrics_text(struct fleet *fleet) NODISCARD;
