#include "daemon/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/fleet.h"
#include "daemon/leftover.h"
#include "daemon/live.h"
#include "daemon/pool.h"
#include "daemon/sweep.h"
#include "store/load.h"
#include "store/store.h"

/* Profiles are the operator's: their number is the only thing here that grows. */
enum { TEXT_BYTES = 4 * 1024 * 1024, STATM_BYTES = 256 };

void metrics_init(struct metrics *metrics)
{
	*metrics = (struct metrics){.started_ms = io_boot_ms(), .started_real_ms = io_real_ms()};
}

void metrics_count(struct metrics *metrics, enum metrics_counter counter)
{
	metrics->counters[counter]++;
}

void metrics_since(struct metrics *metrics, enum metrics_span span, uint64_t began_us)
{
	span_add(&metrics->spans[span], io_boot_us() - began_us);
}

/* --- the format --- */

static void PRINTF(2, 3) put(struct buf *out, const char *fmt, ...)
{
	auto_free char *text = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	if (text)
		(void)!buf_puts(out, text); /* beyond the maximum the rest is missing */
}

static void put_head(struct buf *out, const char *name, const char *type, const char *help)
{
	put(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* label NULL: none. Values of labels are names that were checked when they were read: nothing to
 * escape. */
static void put_sample(struct buf *out, const char *name, const char *label, const char *value,
                       double number)
{
	if (label)
		put(out, "%s{%s=\"%s\"} %.15g\n", name, label, value, number);
	else
		put(out, "%s %.15g\n", name, number);
}

static void put_span(struct buf *out, const char *name, const char *label, const char *value,
                     const struct span *span)
{
	auto_free char *labels = label ? mem_printf("%s=\"%s\"", label, value) : mem_strdup("");
	const char *comma = label ? "," : "";
	const char *braces[] = {label ? "{" : "", label ? "}" : ""};
	uint64_t count = 0;

	for (size_t i = 0; i < SPAN_BUCKETS; i++) {
		count += span->buckets[i];
		put(out, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels, comma,
		    (double)span_bounds_us[i] / 1e6, (unsigned long long)count);
	}
	put(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma,
	    (unsigned long long)span->count);
	put(out, "%s_sum%s%s%s %.6f\n", name, braces[0], labels, braces[1],
	    (double)span->sum_us / 1e6);
	put(out, "%s_count%s%s%s %llu\n", name, braces[0], labels, braces[1],
	    (unsigned long long)span->count);
}

/* --- the tables --- */

static void put_counted(struct buf *out, const struct metrics *metrics)
{
	static const struct {
		const char *name, *help;
	} counters[] =
		{
#define COUNTER(id, name, help) [METRICS_##id] = {name, help},
#include "daemon/metrics.def"
#undef COUNTER
		},
	  spans[] = {
#define SPAN(id, name, help) [METRICS_##id] = {name, help},
#include "daemon/metrics.def"
#undef SPAN
	  };

	for (size_t i = 0; i < METRICS_COUNTERS_; i++) {
		put_head(out, counters[i].name, "counter", counters[i].help);
		put_sample(out, counters[i].name, NULL, NULL, (double)metrics->counters[i]);
	}
	for (size_t i = 0; i < METRICS_SPANS_; i++) {
		put_head(out, spans[i].name, "histogram", spans[i].help);
		put_span(out, spans[i].name, NULL, NULL, &metrics->spans[i]);
	}
}

static uint64_t field_at(const void *of, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *)of + offset, sizeof(value));
	return value;
}

static void put_pool(struct buf *out, const struct pool *pool)
{
	static const struct {
		size_t offset;
		const char *type, *name, *help;
	} rows[] = {
#define POOL(field, type, name, help) {offsetof(struct pool_counts, field), type, name, help},
#include "daemon/metrics.def"
#undef POOL
	};
	static const char make[] = "cloche_pool_make_seconds";
	struct pool_counts counts;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		put_head(out, rows[i].name, rows[i].type, rows[i].help);
		for (size_t shelf = 0; pool_count(pool, shelf, &counts); shelf++)
			put_sample(out, rows[i].name, "profile", counts.profile,
			           (double)field_at(&counts, rows[i].offset));
	}
	put_head(out, make, "histogram", "How long making one sandbox for the pool takes");
	for (size_t shelf = 0; pool_count(pool, shelf, &counts); shelf++)
		put_span(out, make, "profile", counts.profile, &counts.make);
}

static void put_blanks(struct buf *out, const struct pool *pool)
{
	struct pool_counts counts;

	pool_count_blanks(pool, &counts);
#define BLANK(field, type, name, help)                                                             \
	put_head(out, name, type, help);                                                           \
	put_sample(out, name, NULL, NULL, (double)counts.field);
#include "daemon/metrics.def"
#undef BLANK
}

/* --- what is looked up --- */

struct readings {
	uint64_t execs_running, events, writes, commits, stuck, leftovers;
	uint64_t rss_bytes, fds, start_ms, uptime_ms;
};

static uint64_t resident_bytes(void)
{
	auto_free char *text = NULL;
	unsigned long long pages;
	size_t len;

	if (io_read_file(AT_FDCWD, "/proc/self/statm", STATM_BYTES, &text, &len) < 0 ||
	    sscanf(text, "%*u %llu", &pages) != 1)
		return 0;
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t count = 0;

	if (!dir)
		return 0;
	while (readdir(dir)) /* NOLINT(concurrency-mt-unsafe): a stream of this thread alone */
		count++;
	(void)closedir(dir);
	return count > 3 ? count - 3 : 0; /* ".", ".." and the one that looks */
}

static void read_all(struct fleet *fleet, const struct store_stats *store, struct readings *ret)
{
	const struct metrics *metrics = &fleet->metrics;

	*ret = (struct readings){
		.events = store->events,
		.writes = store->writes,
		.commits = store->commits,
		.stuck = sweep_stuck(fleet),
		.leftovers = leftover_count(fleet),
		.rss_bytes = resident_bytes(),
		.fds = open_fds(),
		.start_ms = metrics->started_real_ms,
		.uptime_ms = io_boot_ms() - metrics->started_ms,
	};
	for (struct member *member = fleet->members; member; member = member->next)
		ret->execs_running += live_count(member);
}

static void put_readings(struct buf *out, const struct readings *readings)
{
	static const struct {
		size_t offset;
		double divisor;
		const char *type, *name, *help;
	} rows[] = {
#define READING(field, type, divisor, name, help)                                                  \
	{offsetof(struct readings, field), divisor, type, name, help},
#include "daemon/metrics.def"
#undef READING
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		put_head(out, rows[i].name, rows[i].type, rows[i].help);
		put_sample(out, rows[i].name, NULL, NULL,
		           (double)field_at(readings, rows[i].offset) / rows[i].divisor);
	}
}

/* --- by state and by class --- */

static void put_sandboxes(struct buf *out, struct fleet *fleet)
{
	static const char name[] = "cloche_sandboxes";
	struct store_counts counts = {0};
	struct err err = {0};

	if (store_count(fleet->store, &counts, &err) < 0) {
		log_warn("metrics without the number of sandboxes", LOG_ERR(&err));
		return;
	}
	put_head(out, name, "gauge", "Sandboxes by state");
	for (int state = 0; state < SANDBOX_STATE_COUNT_; state++)
		put_sample(out, name, "state", sandbox_state_name((enum sandbox_state)state),
		           (double)counts.sandboxes[state]);
}

static void put_transitions(struct buf *out, struct fleet *fleet)
{
	static const char oldest[] = "cloche_state_oldest_seconds";
	static const char total[] = "cloche_state_seconds_total";
	static const char deadline[] = "cloche_state_deadline_seconds";
	static const char spent[] = "cloche_state_seconds";
	const struct sweep_transition *at;

	put_head(out, oldest, "gauge", "Time the oldest sandbox in a transitional state is in it");
	for (size_t i = 0; (at = sweep_transition(i)); i++)
		put_sample(out, oldest, "state", sandbox_state_name(at->state),
		           (double)sweep_oldest_ms(fleet, at->state) / 1e3);
	put_head(out, total, "counter", "Time sandboxes spent in a transitional state");
	for (size_t i = 0; (at = sweep_transition(i)); i++)
		put_sample(out, total, "state", sandbox_state_name(at->state),
		           (double)fleet->metrics.states[at->state].sum_us / 1e6);
	put_head(out, deadline, "gauge", "Time after which a transitional state is overdue");
	for (size_t i = 0; (at = sweep_transition(i)); i++)
		put_sample(out, deadline, "state", sandbox_state_name(at->state),
		           (double)at->deadline_ms / 1e3);
	put_head(out, spent, "histogram", "How long sandboxes were in a transitional state");
	for (size_t i = 0; (at = sweep_transition(i)); i++)
		put_span(out, spent, "state", sandbox_state_name(at->state),
		         &fleet->metrics.states[at->state]);
}

static void put_http(struct buf *out, const struct metrics *metrics)
{
	static const char name[] = "cloche_http_requests_total";
	static const char *const classes[METRICS_HTTP_CLASSES] = {NULL,  "1xx", "2xx",
	                                                          "3xx", "4xx", "5xx"};

	put_head(out, name, "counter", "Requests answered, by class of status");
	for (size_t i = 1; i < METRICS_HTTP_CLASSES; i++)
		put_sample(out, name, "class", classes[i], (double)metrics->answered[i]);
}

char *metrics_text(struct fleet *fleet)
{
	static const char commit[] = "cloche_store_commit_seconds";
	struct store_stats store;
	struct readings readings;
	struct buf out;
	char *text;

	store_get_stats(fleet->store, &store);
	read_all(fleet, &store, &readings);
	buf_init(&out, TEXT_BYTES);
	put_sandboxes(&out, fleet);
	put_transitions(&out, fleet);
	put_readings(&out, &readings);
	put_counted(&out, &fleet->metrics);
	if (fleet->pool) {
		put_pool(&out, fleet->pool);
		put_blanks(&out, fleet->pool);
	}
	put_http(&out, &fleet->metrics);
	put_head(&out, commit, "histogram", "How long a transaction of the store takes");
	put_span(&out, commit, NULL, NULL, &store.commit);
	text = buf_take_string(&out);
	buf_done(&out);
	return text;
}
