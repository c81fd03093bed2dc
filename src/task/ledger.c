#include "task/ledger.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "model/money.h"
#include "store/identity.h"
#include "task/account.h"
#include "task/charge.h"
#include "task/cost.h"
#include "task/job.h"
#include "task/tenant.h"

/* --- sums --- */

static bool is_below(const struct job *job, const struct job *above)
{
	return above->run->token.text[0] && strings_has(&job->chain, above->run->token.text);
}

static bool is_tenant_below(const struct tenant *tenant, const struct job *above)
{
	return above->run->token.text[0] &&
	       strings_has(&tenant->credentials, above->run->token.text);
}

/* By itself and by all below it. */
static uint64_t used_by(const struct job *job)
{
	uint64_t sum = money_add(job->run->cost, job->below);

	for (const struct job *at = job->tasks->jobs; at; at = at->next) {
		if (is_below(at, job))
			sum = money_add(sum, at->run->cost);
	}
	for (const struct tenant *at = job->tasks->tenants; at; at = at->next) {
		if (is_tenant_below(at, job))
			sum = money_add(sum, tenant_cost(at, BUDGET_TOTAL));
	}
	return sum;
}

static uint64_t held_by(const struct job *job)
{
	uint64_t sum = job->held;

	for (const struct job *at = job->tasks->jobs; at; at = at->next) {
		if (is_below(at, job))
			sum = money_add(sum, at->held);
	}
	return sum;
}

/* What runs right below it were promised and have not spent: nobody else may have it. */
static uint64_t promised_by(const struct job *job)
{
	struct job *const lists[] = {job->tasks->jobs, job->tasks->queue, job->tasks->arriving};
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		for (const struct job *at = lists[i]; at; at = at->next) {
			if (at->run->budget != MONEY_UNLIMITED &&
			    str_eq(at->run->parent.text, job->run->token.text))
				sum = money_add(sum, money_sub(at->run->budget, used_by(at)));
		}
	}
	return sum;
}

static uint64_t left_to(const struct job *job)
{
	return money_sub(money_sub(job->run->budget, used_by(job)), held_by(job));
}

/* Those above it that are under way, and it; in no order. */
bool ledger_is_family(const struct job *at, const struct job *job)
{
	return at == job || is_below(job, at);
}

uint64_t ledger_left(const struct job *job)
{
	uint64_t left = money_sub(left_to(job), promised_by(job));
	const struct account *tight = NULL;

	for (const struct job *at = job->tasks->jobs; at; at = at->next) {
		if (ledger_is_family(at, job))
			left = MIN(left, left_to(at));
	}
	return MIN(left, account_left(job, &tight));
}

bool ledger_counts(const struct job *job)
{
	for (const struct job *at = job->tasks->jobs; at; at = at->next) {
		if (ledger_is_family(at, job) && at->run->budget != MONEY_UNLIMITED)
			return true;
	}
	return account_counts(job);
}

uint64_t ledger_promised(const struct job *job)
{
	if (job->run->budget == MONEY_UNLIMITED)
		return 0;
	for (const struct job *at = job->tasks->jobs; at; at = at->next) {
		if (is_below(job, at) && at->run->budget != MONEY_UNLIMITED)
			return 0;
	}
	return money_sub(job->run->budget, used_by(job));
}

/* --- what follows --- */

static void note(struct job *job, enum event_kind kind, uint64_t used)
{
	job_note(job, kind,
	         json_pack("{s:s, s:f, s:f}", "run", job->run->id.text, "budget",
	                   money_to_dollars(job->run->budget), "spent", money_to_dollars(used)));
	job_commit(job, NULL);
}

static void check(struct job *job)
{
	uint64_t budget = job->run->budget, used;
	char spent[MONEY_TEXT], granted[MONEY_TEXT], text[120];

	if (budget == MONEY_UNLIMITED || job->is_over || job->run->end != RUN_END_NONE)
		return;
	used = used_by(job);
	/* Who waits for the warning gets it, also when both lines are crossed between two looks. */
	if (!job->has_warned && used >= budget_warn_at(budget)) {
		job->has_warned = true;
		note(job, EVENT_BUDGET_WARNING, used);
	}
	if (used >= budget) {
		note(job, EVENT_BUDGET_EXHAUSTED, used);
		(void)snprintf(text, sizeof(text), "it spent $%s of the $%s it was granted",
		               money_format(spent, used), money_format(granted, budget));
		job_end(job, RUN_END_BUDGET, text);
	}
}

void ledger_spent(struct job *job)
{
	struct job *next;

	/* Ending one ends those below it, which stay in the list until their ends are stored. */
	for (struct job *at = job->tasks->jobs; at; at = next) {
		next = at->next;
		if (ledger_is_family(at, job))
			check(at);
	}
	account_spent(job);
}

void ledger_measured(struct job *job, const struct meters *meters)
{
	job->run->meters = *meters;
	job->run->cost =
		money_add(cost_of(&job->tasks->config.config->rates, meters), job->run->charged);
	if (ledger_counts(job))
		ledger_spent(job);
}

void ledger_settle(const struct job *job)
{
	for (struct job *at = job->tasks->jobs; at; at = at->next) {
		if (is_below(job, at))
			at->below = money_add(at->below, job->run->cost);
	}
	account_settle(job);
}

void ledger_look(struct tasks *tasks)
{
	struct job *next;

	for (struct job *at = tasks->jobs; at; at = next) {
		next = at->next;
		check(at);
	}
}

void ledger_settle_tenant(const struct tenant *tenant)
{
	for (struct job *at = tenant->tasks->jobs; at; at = at->next) {
		if (is_tenant_below(tenant, at))
			at->below = money_add(at->below, tenant_cost(tenant, BUDGET_TOTAL));
	}
	account_settle_tenant(tenant);
}

void ledger_take_up(struct job *job)
{
	auto_(credential_freep) struct credential *token = NULL;
	struct err err = {0};

	/* Only what is over was put on its account: its own part comes with its end. */
	if (job->run->token.text[0] &&
	    store_credential_get(job_store(job), job->run->token.text, &token, &err) == 0)
		job->below = token->spent;
	job->has_warned = job->run->budget != MONEY_UNLIMITED &&
	                  money_add(job->run->cost, job->below) >= budget_warn_at(job->run->budget);
}

/* --- for others --- */

static struct job *find(const struct tasks *tasks, const char *run)
{
	for (struct job *job = tasks->jobs; job; job = job->next) {
		if (str_eq(job->run->id.text, run))
			/* Nothing follows the commit of its end. */
			return job->is_over || job->revoke_token ? NULL : job;
	}
	return NULL;
}

uint64_t charge_left(const struct tasks *tasks, const char *run)
{
	const struct job *job = find(tasks, run);

	return job ? ledger_left(job) : 0;
}

bool tasks_money(const struct tasks *tasks, const char *run, uint64_t *ret_total,
                 uint64_t *ret_left)
{
	const struct job *job = find(tasks, run);

	if (!job)
		return false;
	*ret_total = used_by(job);
	*ret_left = ledger_left(job);
	return true;
}

int charge_hold(struct tasks *tasks, const char *run, uint64_t amount, struct err *err)
{
	struct job *job = find(tasks, run);
	char wanted[MONEY_TEXT], rest[MONEY_TEXT];
	uint64_t left;

	if (!job || job->run->end != RUN_END_NONE)
		return err_set(err, ERR_NOT_FOUND, "this run is not under way");
	left = ledger_left(job);
	if (left == 0 || left < amount)
		return err_set(err, ERR_BUDGET, "this takes $%s, and the run has $%s left",
		               money_format(wanted, amount), money_format(rest, left));
	job->held = money_add(job->held, amount);
	return 0;
}

static void on_charged(struct loop_timer *timer, void *ctx)
{
	ledger_spent(ctx);
}

void charge_add(struct tasks *tasks, const char *run, const struct charge *charge)
{
	struct job *job = find(tasks, run);

	if (!job)
		return;
	job->held = money_sub(job->held, charge->held);
	job->run->input_tokens += charge->input_tokens;
	job->run->output_tokens += charge->output_tokens;
	job->run->cached_tokens += charge->cached_tokens;
	job->run->charged = money_add(job->run->charged, charge->cost);
	job->run->cost = money_add(job->run->cost, charge->cost);
	job_commit(job, NULL);
	loop_timer_in(tasks->config.loop, &job->charged, 0, on_charged, job);
}
