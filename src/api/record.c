#include "api/record.h"

#include "api/call.h"
#include "api/flood.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "http/request.h"
#include "model/access.h"
#include "model/config.h"
#include "store/audit.h"

/* Most changes write within this time, and take the row along. */
enum { FLUSH_MS = 50, PATIENCE_MS = 5000, SWEEP_MS = 1000 };
/* Old rows go in pieces that hold nobody up, as often as their age makes sense. */
enum { PRUNE_ROWS = 2000, PRUNE_LEAST_MS = 1000, PRUNE_MOST_MS = 3600 * 1000 };

struct record {
	struct api *api;
	struct flood *flood;
	struct loop_timer flush;
	struct loop_timer sweep;
	struct loop_timer prune;
	bool is_flushing, is_sweeping; /* the timers are armed */
};

static void arm(struct record *record);

static void on_flush(struct loop_timer *timer, void *ctx)
{
	struct record *record = ctx;

	record->is_flushing = false;
	store_audit_flush(record->api->store, io_boot_ms(), PATIENCE_MS);
	arm(record);
}

static void on_summary(const struct audit_row *row, void *ctx)
{
	struct record *record = ctx;

	store_audit(record->api->store, row);
}

static void on_sweep(struct loop_timer *timer, void *ctx)
{
	struct record *record = ctx;

	record->is_sweeping = false;
	flood_sweep(record->flood, io_boot_ms(), false, on_summary, record);
	arm(record);
}

static void arm(struct record *record)
{
	struct loop *loop = record->api->loop;

	if (!record->is_flushing && store_audit_waits(record->api->store)) {
		record->is_flushing = true;
		loop_timer_in(loop, &record->flush, FLUSH_MS, on_flush, record);
	}
	if (!record->is_sweeping && flood_has_counted(record->flood)) {
		record->is_sweeping = true;
		loop_timer_in(loop, &record->sweep, SWEEP_MS, on_sweep, record);
	}
}

/* --- old rows --- */

/* That rows were removed is on record itself, with their numbers. */
static void record_prune(struct record *record, const struct audit_span *span)
{
	auto_free char *object = mem_printf("%llu-%llu", (unsigned long long)span->first,
	                                    (unsigned long long)span->last);
	struct audit_row row = {
		.time_ms = io_real_ms(),
		.source = (char *)(uintptr_t) "cloched",
		.action = (char *)(uintptr_t) "audit_prune",
		.object = object,
		.rule = (char *)(uintptr_t) "[audit] keep",
		.count = 1,
	};

	store_audit(record->api->store, &row);
}

static void on_prune(struct loop_timer *timer, void *ctx)
{
	struct record *record = ctx;
	struct store *store = record->api->store;
	uint64_t keep = record->api->config->audit_keep_ms;
	uint64_t wait = MIN(MAX(keep / 10, (uint64_t)PRUNE_LEAST_MS), (uint64_t)PRUNE_MOST_MS);
	uint64_t now = io_real_ms();
	struct audit_span span = {0};
	struct store_write *write;
	struct err err = {0};

	if (now > keep && store_audit_old(store, now - keep, PRUNE_ROWS, &span, &err) < 0)
		log_warn("old rows of the audit stay", LOG_STR("why", err.msg));
	if (span.last > 0) {
		record_prune(record, &span);
		write = store_write_new(store);
		store_prune_audit(write, &span);
		store_write_submit(write, NULL, NULL);
	}
	if (span.last > 0 && span.last - span.first + 1 >= PRUNE_ROWS)
		wait = PRUNE_LEAST_MS;
	loop_timer_in(record->api->loop, &record->prune, wait, on_prune, record);
}

struct record *record_new(struct api *api)
{
	struct record *record = mem_new(struct record);

	record->api = api;
	record->flood = flood_new();
	if (api->config->audit_keep_ms > 0)
		loop_timer_in(api->loop, &record->prune, PRUNE_LEAST_MS, on_prune, record);
	return record;
}

void record_shut(struct record *record)
{
	flood_sweep(record->flood, io_boot_ms(), true, on_summary, record);
	loop_timer_stop(&record->flush);
	loop_timer_stop(&record->sweep);
	loop_timer_stop(&record->prune);
}

void record_free(struct record *record)
{
	if (!record)
		return;
	loop_timer_stop(&record->flush);
	loop_timer_stop(&record->sweep);
	loop_timer_stop(&record->prune);
	flood_free(record->flood);
	mem_freep(&record);
}

/* Points into what it is given: copied by whoever keeps it. */
static struct audit_row make_row(const struct caller *caller, const char *source,
                                 const char *action, const char *object, const char *rule)
{
	struct audit_row row = {
		.time_ms = io_real_ms(),
		.source = (char *)(uintptr_t)source,
		.action = (char *)(uintptr_t)action,
		.object = (char *)(uintptr_t)object,
		.rule = (char *)(uintptr_t)rule,
		.count = 1,
	};

	if (!caller)
		return row;
	row.actor = caller->principal;
	row.actor_name = (char *)(uintptr_t)caller->name;
	row.team = caller->team;
	row.credential = caller->credential;
	row.chain = caller->chain;
	return row;
}

/* By credential or place alone: whoever tries many objects is one flood. */
void record_denial(struct api *api, const struct request *request, const struct caller *caller,
                   const char *action, const char *object, const char *rule)
{
	const char *source = request_source(request);
	struct audit_row row = make_row(caller, source, action, object, rule);
	auto_free char *kind =
		mem_printf("deny %s %s", caller ? caller->principal.text : "nobody", source);

	row.verdict = AUDIT_DENY;
	/* Nobody, from ever other addresses, is one flood in the end. */
	if (flood_admit(api->record->flood, kind, &row, caller == NULL, io_boot_ms()))
		store_audit(api->store, &row);
	arm(api->record);
}

void record_action(struct call *call, const char *object, const char *rule)
{
	const struct caller *caller = call->caller;
	struct api *api = call->api;
	struct audit_row row = make_row(caller, caller->source, call->route->name, object, rule);
	auto_free char *kind = mem_printf("%s %s %s", call->route->name, object ? object : "",
	                                  caller->principal.text);

	if (flood_admit(api->record->flood, kind, &row, false, io_boot_ms()))
		store_audit(api->store, &row);
	arm(api->record);
}

void record_use(struct api *api, const struct caller *caller, const char *action, const char *rule)
{
	struct audit_row row = make_row(caller, caller->source, action, NULL, rule);
	auto_free char *kind =
		mem_printf("%s %s %s", action, caller->credential.text, caller->principal.text);

	if (flood_admit(api->record->flood, kind, &row, false, io_boot_ms()))
		store_audit(api->store, &row);
	arm(api->record);
}

uint64_t record_creation(struct call *call, const char *rule)
{
	const struct caller *caller = call->caller;
	struct audit_row row = make_row(caller, caller->source, call->route->name, NULL, rule);
	uint64_t ticket = store_audit_open(call->api->store, &row);

	arm(call->api->record);
	return ticket;
}
