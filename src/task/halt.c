/*
 * What becomes of a sandbox of no run when a budget that pays for it is spent: it is stopped, and
 * its files stay; or it is frozen until the budget is raised, or nobody did in time. As freeze.c
 * has it for runs.
 */
#include "base/log.h"
#include "base/mem.h"
#include "model/config.h"
#include "task/account.h"
#include "task/job.h"
#include "task/tenant.h"

void halt_stop(struct tenant *tenant, const char *why)
{
	struct engine *engine = tenant->tasks->config.engine;

	/* One that is stopping already stays as it is; what fails is repeated by the next look. */
	engine->ops->cut(engine, tenant->sandbox.text, why);
}

static void on_late(struct loop_timer *timer, void *ctx)
{
	struct tenant *tenant = ctx;
	uint64_t seconds = tenant->tasks->config.config->budgets.freeze_ms / 1000;
	auto_free char *text = mem_printf("it was frozen for %llu s and nobody raised the budget",
	                                  (unsigned long long)seconds);

	halt_stop(tenant, text);
}

static void stands_still(struct tenant *tenant)
{
	tenant->is_frozen = true;
	loop_timer_in(tenant->tasks->config.loop, &tenant->frozen,
	              tenant->tasks->config.config->budgets.freeze_ms, on_late, tenant);
}

static void on_frozen(const struct err *err, void *ctx)
{
	struct tenant *tenant = ctx;

	if (!tenant_answer(tenant))
		return;
	tenant->is_freezing = false;
	if (err->code == ERR_OK) {
		stands_still(tenant);
	} else if (!tenant->tasks->is_shut) {
		log_warn("a sandbox cannot be frozen; it stops",
		         LOG_STR("sandbox", tenant->sandbox.text), LOG_ERR(err));
		halt_stop(tenant, tenant->frozen_why);
	}
}

void halt_freeze(struct tenant *tenant, const char *why)
{
	struct engine *engine = tenant->tasks->config.engine;

	if (tenant->is_frozen || tenant->is_freezing)
		return;
	tenant->is_freezing = true;
	spec_set(&tenant->frozen_why, why);
	engine->ops->freeze(engine, tenant->sandbox.text, true, why, on_frozen, tenant_ask(tenant));
}

static void on_thawed(const struct err *err, void *ctx)
{
	struct tenant *tenant = ctx;

	if (!tenant_answer(tenant))
		return;
	tenant->is_freezing = false;
	if (err->code != ERR_OK) /* the next look tries again */
		return;
	tenant->is_frozen = false;
	loop_timer_stop(&tenant->frozen);
}

void halt_look(struct tenant *tenant)
{
	struct engine *engine = tenant->tasks->config.engine;

	if (tenant->is_freezing)
		return;
	if (tenant->total.frozen && !tenant->is_frozen)
		stands_still(tenant); /* a daemon before this one did it */
	if (!tenant->is_frozen || account_freezes_tenant(tenant))
		return;
	tenant->is_freezing = true;
	engine->ops->freeze(engine, tenant->sandbox.text, false, "there is money for it again",
	                    on_thawed, tenant_ask(tenant));
}
