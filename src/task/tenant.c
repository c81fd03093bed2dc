#include "task/tenant.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/sandbox_use.h"
#include "task/cost.h"
#include "task/job.h"

enum { DAY_MS = 24 * 3600 * 1000 };

/* The meters that add up. What was sent has what was received in it: it is one number in the store.
 */
static const size_t sums[] = {
	offsetof(struct meters, cpu_us),
	offsetof(struct meters, uptime_ms),
	offsetof(struct meters, memory_byte_seconds),
	offsetof(struct meters, disk_byte_seconds),
	offsetof(struct meters, net_sent_bytes),
};

static uint64_t *sum_of(struct meters *meters, size_t i)
{
	return (uint64_t *)((char *)meters + sums[i]);
}

static uint64_t value_of(const struct meters *meters, size_t i)
{
	return *(const uint64_t *)((const char *)meters + sums[i]);
}

static uint64_t day_of(uint64_t time_ms)
{
	return time_ms - time_ms % DAY_MS;
}

/* --- who there is --- */

struct tenant *tenant_new(struct tasks *tasks, const struct sandbox *sandbox)
{
	const struct spec *spec = &sandbox->spec;
	struct tenant *tenant = mem_new(struct tenant);

	tenant->tasks = tasks;
	tenant->sandbox = sandbox->id;
	tenant->team = mem_strdup(spec->team ? spec->team : ACCESS_TEAM);
	tenant->owner = mem_strdup(spec->owner ? spec->owner : ACCESS_OPERATOR);
	tenant->chain = mem_strdup(spec->made_by ? spec->made_by : "");
	strings_split(&tenant->credentials, tenant->chain);
	tenant->visibility = spec->visibility;
	tenant->day_ms = tenant->first_ms = day_of(io_real_ms());
	tenant->measured_ms = io_boot_ms();
	tenant->next = tasks->tenants;
	if (tenant->next)
		tenant->next->prev = tenant;
	tasks->tenants = tenant;
	return tenant;
}

static void tenant_free(struct tenant *tenant)
{
	loop_timer_stop(&tenant->frozen);
	mem_freep(&tenant->team);
	mem_freep(&tenant->owner);
	mem_freep(&tenant->chain);
	mem_freep(&tenant->frozen_why);
	strings_done(&tenant->credentials);
	mem_freep(&tenant);
}

static void unlink_tenant(struct tenant *tenant)
{
	if (tenant->prev)
		tenant->prev->next = tenant->next;
	else
		tenant->tasks->tenants = tenant->next;
	if (tenant->next)
		tenant->next->prev = tenant->prev;
}

void tenant_leave(struct tenant *tenant)
{
	unlink_tenant(tenant);
	loop_timer_stop(&tenant->frozen);
	tenant->is_gone = true;
	if (tenant->pending == 0)
		tenant_free(tenant);
}

void tenant_done(struct tasks *tasks)
{
	while (tasks->tenants) {
		struct tenant *tenant = tasks->tenants;

		unlink_tenant(tenant);
		tenant_free(tenant);
	}
}

struct tenant *tenant_ask(struct tenant *tenant)
{
	tenant->pending++;
	return tenant;
}

bool tenant_answer(struct tenant *tenant)
{
	tenant->pending--;
	if (!tenant->is_gone)
		return true;
	if (tenant->pending == 0)
		tenant_free(tenant);
	return false;
}

struct tenant *tenant_find(const struct tasks *tasks, const char *sandbox)
{
	for (struct tenant *at = tasks->tenants; at; at = at->next) {
		if (str_eq(at->sandbox.text, sandbox))
			return at;
	}
	return NULL;
}

const char *tenant_maker(const struct tenant *tenant)
{
	const struct strings *chain = &tenant->credentials;

	return chain->count > 0 ? chain->items[chain->count - 1] : "";
}

const struct job *tenant_job(const struct tenant *tenant)
{
	const char *maker = tenant_maker(tenant);

	for (const struct job *job = tenant->tasks->jobs; *maker && job; job = job->next) {
		if (str_eq(job->run->token.text, maker))
			return job;
	}
	return NULL;
}

/* --- what it used --- */

static struct meters used_today(const struct tenant *tenant)
{
	struct meters used = {0};

	for (size_t i = 0; i < ARRAY_LEN(sums); i++)
		*sum_of(&used, i) = value_of(&tenant->total, i) - value_of(&tenant->before, i);
	return used;
}

/* Those of another month belong to no period but the whole. */
static void add_past(struct tenant *tenant, uint64_t day_ms, uint64_t cost)
{
	tenant->past = money_add(tenant->past, cost);
	if (day_ms >= budget_since(BUDGET_MONTH, tenant->day_ms))
		tenant->month = money_add(tenant->month, cost);
}

int tenant_load(struct tenant *tenant, struct err *err)
{
	struct sandbox_use_list list = {0};

	if (store_sandbox_use_list(tenant->tasks->config.store, tenant->sandbox.text, &list, err) <
	    0)
		return -1;
	if (list.count > 0) /* a clock that went back does not begin a day anew */
		tenant->day_ms = MAX(tenant->day_ms, list.items[list.count - 1].day_ms);
	for (size_t i = 0; i < list.count; i++) {
		const struct sandbox_use *use = &list.items[i];

		for (size_t k = 0; k < ARRAY_LEN(sums); k++) {
			*sum_of(&tenant->total, k) += value_of(&use->used, k);
			if (use->day_ms < tenant->day_ms)
				*sum_of(&tenant->before, k) += value_of(&use->used, k);
		}
		if (use->day_ms < tenant->day_ms)
			add_past(tenant, use->day_ms, use->cost);
		else
			tenant->cost = use->cost;
		tenant->has_rows = true;
		tenant->first_ms = MIN(tenant->first_ms, use->day_ms);
	}
	sandbox_use_list_done(&list);
	return 0;
}

static void on_day_stored(const struct store_result *result, void *ctx)
{
	/* The next row has what this one misses: nothing is lost but the day. */
}

/* What was used since the last look is the new day's. */
static void begin_day(struct tenant *tenant, uint64_t today)
{
	uint64_t yesterday = tenant->day_ms;

	if (tenant->is_dirty) {
		struct store_write *write = store_write_new(tenant->tasks->config.store);

		tenant_put(tenant, write);
		store_write_submit(write, on_day_stored, NULL);
	}
	tenant->day_ms = today;
	if (budget_since(BUDGET_MONTH, today) > yesterday)
		tenant->month = 0;
	add_past(tenant, yesterday, tenant->cost);
	tenant->before = tenant->total;
	tenant->cost = 0;
}

void tenant_take(struct tenant *tenant, const struct meters *meters)
{
	uint64_t today = day_of(io_real_ms());
	struct meters seen = *meters, used;

	seen.net_sent_bytes += seen.net_received_bytes;
	if (today > tenant->day_ms)
		begin_day(tenant, today);
	for (size_t i = 0; i < ARRAY_LEN(sums); i++)
		*sum_of(&tenant->total, i) = MAX(value_of(&tenant->total, i), value_of(&seen, i));
	tenant->total.frozen = meters->frozen;
	used = used_today(tenant);
	tenant->cost = cost_of(&tenant->tasks->config.config->rates, &used);
	tenant->is_dirty = true;
}

uint64_t tenant_cost(const struct tenant *tenant, enum budget_period period)
{
	const uint64_t past[] = {
		[BUDGET_TOTAL] = tenant->past,
		[BUDGET_DAY] = 0,
		[BUDGET_MONTH] = tenant->month,
	};

	return money_add(past[period], tenant->cost);
}

/* --- for the store --- */

static struct sandbox_use use_of(const struct tenant *tenant)
{
	return (struct sandbox_use){.sandbox = tenant->sandbox.text,
	                            .team = tenant->team,
	                            .owner = tenant->owner,
	                            .chain = tenant->chain,
	                            .maker = tenant_maker(tenant),
	                            .visibility = tenant->visibility,
	                            .day_ms = tenant->day_ms,
	                            .is_first = tenant->day_ms == tenant->first_ms,
	                            .cost = tenant->cost,
	                            .used = used_today(tenant)};
}

void tenant_put(struct tenant *tenant, struct store_write *write)
{
	struct sandbox_use use = use_of(tenant);

	store_put_sandbox_use(write, &use);
	tenant->has_rows = true;
	tenant->is_dirty = false;
}

void tenant_put_end(struct tenant *tenant, struct store_write *write)
{
	struct sandbox_use use = use_of(tenant);

	if (*use.maker)
		store_charge_sandbox(write, use.sandbox, use.maker,
		                     tenant_cost(tenant, BUDGET_TOTAL));
	if (tenant->has_rows) {
		store_put_sandbox_use(write, &use);
		store_settle_sandbox_use(write, use.sandbox);
	} else {
		store_add_sandbox_spend(write, &use);
	}
}
