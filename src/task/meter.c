#include "task/meter.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/later.h"
#include "task/account.h"
#include "task/job.h"
#include "task/ledger.h"
#include "task/outside.h"
#include "task/tenant.h"

enum {
	TICK_LEAST_MS = 200,
	TICK_MOST_MS = 5 * 1000,
	CHECK_MS = 20,        /* answers of one round come together */
	STORE_MS = 30 * 1000, /* what a crash of the machine may lose */
	FRESH_MS = 2 * 1000,
};

struct meter_waiter {
	struct meter_waiter *next;
	meter_on_fresh on_fresh;
	void *ctx;
};

static void store_some(struct tasks *tasks, bool is_wanted);
static void continue_refresh(struct tasks *tasks);

/* --- against budgets --- */

static void on_check(struct loop_timer *timer, void *ctx)
{
	struct tasks *tasks = ctx;

	tasks->meter.is_check_due = false;
	account_look(tasks);
	ledger_look(tasks);
}

static void check_soon(struct tasks *tasks)
{
	if (tasks->meter.is_check_due || tasks->is_shut)
		return;
	tasks->meter.is_check_due = true;
	loop_timer_in(tasks->config.loop, &tasks->meter.check, CHECK_MS, on_check, tasks);
}

/* --- asking --- */

static void on_measured(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct tenant *tenant = ctx;
	struct tasks *tasks = tenant->tasks;
	bool is_there = tenant_answer(tenant);

	if (is_there) {
		tenant->is_measuring = false;
		tenant->is_refreshing = false;
		tenant->is_measured = true;
		tenant->measured_ms = io_boot_ms();
	}
	if (is_there && sandbox && !tasks->is_shut) {
		tenant->visibility = sandbox->spec.visibility;
		tenant_take(tenant, &sandbox->meters);
		halt_look(tenant);
		check_soon(tasks);
	}
	continue_refresh(tasks);
}

static void measure(struct tenant *tenant)
{
	struct engine *engine = tenant->tasks->config.engine;

	if (tenant->is_measuring)
		return;
	tenant->is_measuring = true;
	engine->ops->meters(engine, tenant->sandbox.text, on_measured, tenant_ask(tenant));
}

static void on_tick(struct loop_timer *timer, void *ctx)
{
	struct tasks *tasks = ctx;
	uint64_t now = io_boot_ms(), next = now + TICK_MOST_MS;

	if (tasks->is_shut || !tasks->tenants)
		return; /* the next one begins it again */
	tasks->meter.ticked_ms = now;
	account_pace(tasks);
	for (struct tenant *tenant = tasks->tenants; tenant; tenant = tenant->next) {
		uint64_t pace = account_pace_of(tenant);
		bool is_due = tenant->measured_ms + pace <= now;

		if (tenant->is_frozen)
			halt_look(tenant);
		if (is_due)
			measure(tenant);
		next = MIN(next, (is_due ? now : tenant->measured_ms) + pace);
	}
	if (now >= tasks->meter.stored_ms + STORE_MS)
		store_some(tasks, tasks->meter.is_storing);
	loop_timer_in(tasks->config.loop, &tasks->meter.tick,
	              MAX(next - now, (uint64_t)TICK_LEAST_MS), on_tick, tasks);
}

void meter_hurry(struct tasks *tasks)
{
	uint64_t now = io_boot_ms(), least = tasks->meter.ticked_ms + TICK_LEAST_MS;

	if (!tasks->is_shut && tasks->tenants)
		loop_timer_in(tasks->config.loop, &tasks->meter.tick, least > now ? least - now : 0,
		              on_tick, tasks);
}

/* --- storing --- */

static void answer_all(struct tasks *tasks)
{
	struct meter_waiter *at = take_ptr(tasks->meter.waiters);

	while (at) {
		struct meter_waiter *waiter = at;

		at = waiter->next;
		waiter->on_fresh(waiter->ctx);
		mem_freep(&waiter);
	}
}

static bool is_any(const struct tasks *tasks, bool is_refreshing)
{
	for (const struct tenant *at = tasks->tenants; at; at = at->next) {
		if (is_refreshing ? at->is_refreshing : at->is_dirty)
			return true;
	}
	return false;
}

static void on_stored(const struct store_result *result, void *ctx)
{
	struct tasks *tasks = ctx;

	bool is_for_waiters = tasks->meter.is_for_waiters;

	tasks->meter.is_storing = tasks->meter.is_for_waiters = false;
	if (!result->ok)
		log_warn("what sandboxes used is not stored; trying again", LOG_ERR(&result->err));
	for (struct tenant *at = tasks->tenants; at && !result->ok; at = at->next)
		at->is_dirty = true;
	if (is_for_waiters && !is_any(tasks, true))
		answer_all(tasks);
	else
		continue_refresh(tasks);
}

/* All in one write. Nobody waits for it, unless somebody does: it lies until there is a commit, and
 * at most until the next time. */
static void store_some(struct tasks *tasks, bool is_wanted)
{
	struct store_write *write = NULL;

	tasks->meter.stored_ms = io_boot_ms();
	if (tasks->meter.is_storing) {
		if (is_wanted)
			store_hurry(tasks->config.store);
		return;
	}
	for (struct tenant *tenant = tasks->tenants; tenant; tenant = tenant->next) {
		if (!tenant->is_dirty)
			continue;
		if (!write)
			write = store_write_new(tasks->config.store);
		tenant_put(tenant, write);
	}
	if (!write)
		return;
	tasks->meter.is_storing = true;
	if (is_wanted)
		store_write_submit(write, on_stored, tasks);
	else
		store_write_submit_later(write, on_stored, tasks);
}

/* --- for somebody who looks --- */

/* Once everybody answered it is stored, and once it is stored whoever waits is told. */
static void continue_refresh(struct tasks *tasks)
{
	if (!tasks->meter.waiters || tasks->is_shut || is_any(tasks, true))
		return;
	if (tasks->meter.is_storing) {
		store_hurry(tasks->config.store);
	} else if (is_any(tasks, false)) {
		tasks->meter.is_for_waiters = true;
		store_some(tasks, true);
	} else {
		answer_all(tasks);
	}
}

static void on_asked(struct loop_timer *timer, void *ctx)
{
	continue_refresh(ctx);
}

void meter_refresh(struct tasks *tasks, meter_on_fresh on_fresh, void *ctx)
{
	struct meter_waiter *waiter = mem_new(struct meter_waiter);
	uint64_t now = io_boot_ms();

	*waiter = (struct meter_waiter){tasks->meter.waiters, on_fresh, ctx};
	tasks->meter.waiters = waiter;
	for (struct tenant *tenant = tasks->tenants; tenant; tenant = tenant->next) {
		if (!tenant->is_measured || tenant->measured_ms + FRESH_MS <= now) {
			tenant->is_refreshing = true;
			measure(tenant);
		}
	}
	loop_timer_in(tasks->config.loop, &tasks->meter.asked, 0, on_asked, tasks);
}

void meter_shut(struct tasks *tasks)
{
	loop_timer_stop(&tasks->meter.tick);
	loop_timer_stop(&tasks->meter.check);
	loop_timer_stop(&tasks->meter.asked);
	for (struct tenant *tenant = tasks->tenants; tenant; tenant = tenant->next)
		loop_timer_stop(&tenant->frozen);
	store_some(tasks, true);
	answer_all(tasks);
}

/* --- for the fleet --- */

static bool is_counted(const struct spec *spec)
{
	return !strings_value(&spec->labels, JOB_LABEL);
}

void meter_began(struct tasks *tasks, const struct sandbox *sandbox)
{
	bool is_alone;

	if (!tasks || tasks->is_shut || !is_counted(&sandbox->spec) ||
	    tenant_find(tasks, sandbox->id.text))
		return;
	is_alone = !tasks->tenants;
	if (is_alone)
		tasks->meter.stored_ms = io_boot_ms();
	tenant_new(tasks, sandbox);
	if (is_alone || tasks->account_count > 0)
		meter_hurry(tasks);
}

void meter_adopt(struct tasks *tasks, const struct sandbox *sandbox)
{
	struct tenant *tenant;
	struct err err = {0};

	if (!tasks || !is_counted(&sandbox->spec) || tenant_find(tasks, sandbox->id.text))
		return;
	tenant = tenant_new(tasks, sandbox);
	tenant->measured_ms = 0; /* at once */
	if (tenant_load(tenant, &err) < 0)
		log_error("what a sandbox used before cannot be read",
		          LOG_STR("sandbox", sandbox->id.text), LOG_ERR(&err));
	meter_hurry(tasks);
}

bool meter_counts(const struct tasks *tasks, const char *sandbox)
{
	return tasks && !tasks->is_shut && tenant_find(tasks, sandbox);
}

void meter_put_end(struct tasks *tasks, struct store_write *write, const struct sandbox *sandbox)
{
	struct tenant *tenant = tasks ? tenant_find(tasks, sandbox->id.text) : NULL;

	if (!tenant)
		return;
	tenant_take(tenant, &sandbox->meters);
	tenant_put_end(tenant, write);
}

void meter_ended(struct tasks *tasks, const char *sandbox)
{
	struct tenant *tenant = tasks ? tenant_find(tasks, sandbox) : NULL;

	if (!tenant)
		return;
	ledger_settle_tenant(tenant);
	tenant_leave(tenant);
	check_soon(tasks);
	continue_refresh(tasks);
}

int meter_fits(struct tasks *tasks, const struct spec *spec, struct err *err)
{
	struct outside payer = {.team = spec->team ? spec->team : (char *)ACCESS_TEAM};
	const struct account *tight = NULL;
	char amount[MONEY_TEXT];
	uint64_t left;

	if (!tasks || tasks->account_count == 0 || !is_counted(spec))
		return 0;
	strings_split(&payer.credentials, spec->made_by ? spec->made_by : "");
	left = account_left_outside(tasks, &payer, &tight);
	strings_done(&payer.credentials);
	if (!tight || left > 0)
		return 0;
	return err_set(err, ERR_BUDGET, "the budget of %s %.40s is spent: nothing is left of $%s",
	               budget_kind_name(tight->budget.kind), tight->budget.subject,
	               money_format(amount, tight->budget.amount));
}
