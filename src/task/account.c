#include "task/account.h"

#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "store/budget.h"
#include "store/identity.h"
#include "task/charge.h"
#include "task/freeze.h"
#include "task/job.h"
#include "task/ledger.h"
#include "task/outside.h"
#include "task/tenant.h"

enum {
	RELOAD_MS = 60 * 1000,
	FAST_MS = 400,          /* close to the end of a budget */
	SLOW_MS = 30 * 1000,    /* far from it, or without one */
	NET_GIB_PER_SECOND = 2, /* more than a machine sends and receives */
};

static bool pays_for(const struct account *account, const struct job *job)
{
	const struct budget *budget = &account->budget;

	if (!str_eq(budget->team.text, job->run->team.text))
		return false;
	switch (budget->kind) {
	case BUDGET_TEAM:
		return true;
	case BUDGET_AGENT:
		return str_eq(budget->subject, job->task->agent);
	case BUDGET_TASK:
		return str_eq(budget->subject, job->task->id.text);
	case BUDGET_KEY:
		return strings_has(&job->chain, budget->subject);
	case BUDGET_KIND_COUNT_:
		break;
	}
	return false;
}

static bool pays_with(const struct account *account, const char *team,
                      const struct strings *credentials)
{
	const struct budget *budget = &account->budget;

	if (!str_eq(budget->team.text, team))
		return false;
	return budget->kind == BUDGET_TEAM ||
	       (budget->kind == BUDGET_KEY && strings_has(credentials, budget->subject));
}

static bool pays_outside(const struct account *account, const struct outside *outside)
{
	return pays_with(account, outside->team, &outside->credentials);
}

/* What is made from inside a run is paid for by whoever pays for the run. */
static bool pays_tenant(const struct account *account, const struct tenant *tenant)
{
	enum budget_kind kind = account->budget.kind;
	const struct job *job;

	if (kind != BUDGET_AGENT && kind != BUDGET_TASK)
		return pays_with(account, tenant->team, &tenant->credentials);
	job = tenant_job(tenant);
	return job && pays_for(account, job);
}

bool account_counts(const struct job *job)
{
	const struct tasks *tasks = job->tasks;

	for (size_t i = 0; i < tasks->account_count; i++) {
		if (pays_for(&tasks->accounts[i], job))
			return true;
	}
	return false;
}

/* --- sums --- */

static uint64_t spent_on(const struct tasks *tasks, const struct account *account)
{
	uint64_t sum = account->settled;

	for (const struct job *job = tasks->jobs; job; job = job->next) {
		if (pays_for(account, job))
			sum = money_add(sum, job->run->cost);
	}
	for (const struct outside *at = tasks->outside; at; at = at->next) {
		if (pays_outside(account, at))
			sum = money_add(sum, at->storing);
	}
	for (const struct tenant *at = tasks->tenants; at; at = at->next) {
		if (pays_tenant(account, at))
			sum = money_add(sum, tenant_cost(at, account->budget.period));
	}
	return sum;
}

/* Kept back for calls, and promised to runs but not spent by them; `except`, which may be NULL, and
 * its family left out of the latter. */
static uint64_t reserved_on(const struct tasks *tasks, const struct account *account,
                            const struct job *except)
{
	struct job *const lists[] = {tasks->jobs, tasks->queue, tasks->arriving};
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		for (const struct job *job = lists[i]; job; job = job->next) {
			if (!pays_for(account, job))
				continue;
			sum = money_add(sum, job->held);
			if (!except || !ledger_is_family(job, except))
				sum = money_add(sum, ledger_promised(job));
		}
	}
	for (const struct outside *at = tasks->outside; at; at = at->next) {
		if (pays_outside(account, at))
			sum = money_add(sum, at->held);
	}
	return sum;
}

static uint64_t left_on(const struct tasks *tasks, const struct account *account,
                        const struct job *except)
{
	return money_sub(money_sub(account->budget.amount, spent_on(tasks, account)),
	                 reserved_on(tasks, account, except));
}

uint64_t account_left(const struct job *job, const struct account **ret_tight)
{
	const struct tasks *tasks = job->tasks;
	uint64_t least = MONEY_UNLIMITED;

	for (size_t i = 0; i < tasks->account_count; i++) {
		const struct account *account = &tasks->accounts[i];
		uint64_t left;

		if (!pays_for(account, job))
			continue;
		left = left_on(tasks, account, job);
		if (left < least) {
			least = left;
			*ret_tight = account;
		}
	}
	return least;
}

uint64_t account_left_outside(const struct tasks *tasks, const struct outside *outside,
                              const struct account **ret_tight)
{
	uint64_t least = MONEY_UNLIMITED;

	for (size_t i = 0; i < tasks->account_count; i++) {
		const struct account *account = &tasks->accounts[i];
		uint64_t left;

		if (!pays_outside(account, outside))
			continue;
		left = left_on(tasks, account, NULL);
		if (left < least) {
			least = left;
			*ret_tight = account;
		}
	}
	return least;
}

/* --- what follows --- */

static const enum event_kind told_kinds[] = {
	[BUDGET_WARNED] = EVENT_BUDGET_WARNING,
	[BUDGET_EXHAUSTED] = EVENT_BUDGET_EXHAUSTED,
};

/* Once a period. */
static bool is_told(struct account *account, enum budget_told told)
{
	struct budget *budget = &account->budget;

	if (budget->told >= told && budget->told_ms == account->since_ms)
		return true;
	budget->told = told;
	budget->told_ms = account->since_ms;
	return false;
}

static json_t *facts_of(const struct account *account, uint64_t spent)
{
	const struct budget *budget = &account->budget;

	return json_pack("{s:s, s:s, s:s, s:f, s:f}", "of", budget_kind_name(budget->kind),
	                 "subject", budget->subject, "period", budget_period_name(budget->period),
	                 "budget", money_to_dollars(budget->amount), "spent",
	                 money_to_dollars(spent));
}

/* On the task that crossed the line: whoever sees that learns it. */
static void tell(struct job *job, struct account *account, enum budget_told told, uint64_t spent)
{
	struct store_write *write;
	json_t *facts;

	if (is_told(account, told))
		return;
	write = store_write_new(job_store(job));
	store_tell_budget(write, account->budget.id.text, told, account->since_ms);
	store_write_submit(write, NULL, NULL);
	facts = facts_of(account, spent);
	json_object_set_new(facts, "run", json_string(job->run->id.text));
	job_note(job, told_kinds[told], facts);
	job_commit(job, NULL);
}

/* On the sandbox, where it was no task. */
static void tell_tenant(const struct tenant *tenant, struct account *account, enum budget_told told,
                        uint64_t spent)
{
	struct event event = {
		.kind = told_kinds[told], .time_ms = io_real_ms(), .sandbox = tenant->sandbox};
	struct store_write *write;
	json_t *facts;

	if (is_told(account, told))
		return;
	facts = facts_of(account, spent);
	json_object_set_new(facts, "sandbox", json_string(tenant->sandbox.text));
	event.data = json_dumps(facts, JSON_COMPACT | JSON_REAL_PRECISION(12));
	json_decref(facts);
	write = store_write_new(tenant->tasks->config.store);
	store_tell_budget(write, account->budget.id.text, told, account->since_ms);
	store_put_event(write, &event);
	event_done(&event);
	store_write_submit(write, NULL, NULL);
}

static void end_all(struct job *list, const struct account *account, const char *why)
{
	struct job *next;

	for (struct job *job = list; job; job = next) {
		next = job->next;
		if (pays_for(account, job))
			job_end(job, RUN_END_BUDGET, why);
	}
}

/* Those that wait have nothing that could be lost. */
static void freeze_all(struct tasks *tasks, const struct account *account, const char *why)
{
	struct job *next;

	for (struct job *job = tasks->jobs; job; job = next) {
		next = job->next;
		if (pays_for(account, job))
			freeze_job(job, why);
	}
}

static void halt_all(struct tasks *tasks, const struct account *account, const char *why)
{
	bool freezes = account->budget.action == BUDGET_FREEZE;

	for (struct tenant *tenant = tasks->tenants; tenant; tenant = tenant->next) {
		if (pays_tenant(account, tenant))
			(freezes ? halt_freeze : halt_stop)(tenant, why);
	}
}

static void exhaust(struct tasks *tasks, const struct account *account, uint64_t spent)
{
	const struct budget *budget = &account->budget;
	char used[MONEY_TEXT], amount[MONEY_TEXT], text[160];

	(void)snprintf(text, sizeof(text), "the budget of %s %.40s is spent: $%s of $%s",
	               budget_kind_name(budget->kind), budget->subject, money_format(used, spent),
	               money_format(amount, budget->amount));
	end_all(tasks->queue, account, text);
	if (budget->action == BUDGET_FREEZE)
		freeze_all(tasks, account, text);
	else
		end_all(tasks->jobs, account, text);
	halt_all(tasks, account, text);
}

static bool freezes(const struct tasks *tasks, const struct account *account)
{
	return account->budget.action == BUDGET_FREEZE &&
	       spent_on(tasks, account) >= account->budget.amount;
}

bool account_freezes(const struct job *job)
{
	const struct tasks *tasks = job->tasks;

	for (size_t i = 0; i < tasks->account_count; i++) {
		if (pays_for(&tasks->accounts[i], job) && freezes(tasks, &tasks->accounts[i]))
			return true;
	}
	return false;
}

bool account_freezes_tenant(const struct tenant *tenant)
{
	const struct tasks *tasks = tenant->tasks;

	for (size_t i = 0; i < tasks->account_count; i++) {
		if (pays_tenant(&tasks->accounts[i], tenant) && freezes(tasks, &tasks->accounts[i]))
			return true;
	}
	return false;
}

void account_spent(struct job *job)
{
	struct tasks *tasks = job->tasks;

	for (size_t i = 0; i < tasks->account_count; i++) {
		struct account *account = &tasks->accounts[i];
		uint64_t spent;

		if (job->revoke_token || !pays_for(account, job))
			continue;
		spent = spent_on(tasks, account);
		if (spent >= budget_warn_at(account->budget.amount))
			tell(job, account, BUDGET_WARNED, spent);
		if (spent >= account->budget.amount) {
			tell(job, account, BUDGET_EXHAUSTED, spent);
			exhaust(tasks, account, spent);
		}
	}
}

/* Some sandbox that it pays for; NULL: there is none. */
static const struct tenant *tenant_of(const struct tasks *tasks, const struct account *account)
{
	for (const struct tenant *tenant = tasks->tenants; tenant; tenant = tenant->next) {
		if (pays_tenant(account, tenant))
			return tenant;
	}
	return NULL;
}

void account_look(struct tasks *tasks)
{
	for (size_t i = 0; i < tasks->account_count; i++) {
		struct account *account = &tasks->accounts[i];
		const struct tenant *tenant = tenant_of(tasks, account);
		uint64_t spent = tenant ? spent_on(tasks, account) : 0;

		if (!tenant)
			continue;
		if (spent >= budget_warn_at(account->budget.amount))
			tell_tenant(tenant, account, BUDGET_WARNED, spent);
		if (spent >= account->budget.amount) {
			tell_tenant(tenant, account, BUDGET_EXHAUSTED, spent);
			exhaust(tasks, account, spent);
		}
	}
}

/* --- how often --- */

/* The most that all there is can cost in a second: what the machine has is shared. */
static uint64_t burn(const struct tasks *tasks)
{
	const struct config_rates *rates = &tasks->config.config->rates;
	uint64_t cpus = (uint64_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
	uint64_t page = (uint64_t)MAX(sysconf(_SC_PAGESIZE), 1L);
	uint64_t pages = (uint64_t)MAX(sysconf(_SC_PHYS_PAGES), 1L);
	uint64_t count = tasks->running;

	for (const struct tenant *tenant = tasks->tenants; tenant; tenant = tenant->next)
		count++;
	return count * rates->sandbox_second + cpus * rates->cpu_second +
	       ((page * pages >> 30) + 1) * rates->memory_gib_second +
	       NET_GIB_PER_SECOND * rates->network_gib + 1;
}

void account_pace(struct tasks *tasks)
{
	uint64_t most = tasks->account_count > 0 ? burn(tasks) : 1;

	for (size_t i = 0; i < tasks->account_count; i++) {
		struct account *account = &tasks->accounts[i];
		uint64_t left = money_sub(account->budget.amount, spent_on(tasks, account));
		uint64_t seconds = MIN(left / most, (uint64_t)SLOW_MS);

		account->pace_ms =
			MAX(MIN(seconds * 1000 / 2, (uint64_t)SLOW_MS), (uint64_t)FAST_MS);
	}
}

uint64_t account_pace_of(const struct tenant *tenant)
{
	const struct tasks *tasks = tenant->tasks;
	uint64_t pace = SLOW_MS;

	for (size_t i = 0; i < tasks->account_count; i++) {
		if (pays_tenant(&tasks->accounts[i], tenant))
			pace = MIN(pace, tasks->accounts[i].pace_ms);
	}
	for (const struct job *job = tasks->jobs; job && tenant->credentials.count > 0;
	     job = job->next) {
		if (job->run->budget != MONEY_UNLIMITED &&
		    strings_has(&tenant->credentials, job->run->token.text))
			pace = FAST_MS;
	}
	return pace;
}

/* --- what is over --- */

void account_settle_tenant(const struct tenant *tenant)
{
	struct tasks *tasks = tenant->tasks;

	for (size_t i = 0; i < tasks->account_count; i++) {
		struct account *account = &tasks->accounts[i];

		if (pays_tenant(account, tenant))
			account->settled = money_add(account->settled,
			                             tenant_cost(tenant, account->budget.period));
	}
}

void account_settle(const struct job *job)
{
	struct tasks *tasks = job->tasks;

	for (size_t i = 0; i < tasks->account_count; i++) {
		struct account *account = &tasks->accounts[i];

		if (pays_for(account, job))
			account->settled = money_add(account->settled, job->run->cost);
	}
}

void account_settle_outside(struct tasks *tasks, const struct outside *outside, uint64_t cost)
{
	for (size_t i = 0; i < tasks->account_count; i++) {
		struct account *account = &tasks->accounts[i];

		if (pays_outside(account, outside))
			account->settled = money_add(account->settled, cost);
	}
}

/* --- the store's --- */

void account_done(struct tasks *tasks)
{
	for (size_t i = 0; i < tasks->account_count; i++)
		budget_done(&tasks->accounts[i].budget);
	mem_freep(&tasks->accounts);
	tasks->account_count = 0;
	loop_timer_stop(&tasks->reload);
}

static void on_reload(struct loop_timer *timer, void *ctx)
{
	struct tasks *tasks = ctx;
	struct err err = {0};

	if (!tasks->is_shut && account_load(tasks, &err) < 0)
		log_error("budgets cannot be read; those known stay in force", LOG_ERR(&err));
}

/* Runs under way that nobody measured until now. */
static void watch_all(struct tasks *tasks)
{
	for (struct job *job = tasks->jobs; job; job = job->next) {
		if (job->run->step == RUN_STEP_WAIT && account_counts(job))
			watch_count(job);
	}
}

static bool has_team(const struct budget_list *list, const char *team)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i].kind == BUDGET_TEAM && str_eq(list->items[i].subject, team))
			return true;
	}
	return false;
}

/* Those of [budgets] for teams that have none of their own. */
static int add_teams(struct tasks *tasks, struct budget_list *list, struct err *err)
{
	const struct config_budgets *config = &tasks->config.config->budgets;
	auto_free char *cursor = NULL;
	bool has_more = config->team_amount > 0;

	while (has_more) {
		struct team_page page = {0};

		if (store_team_list(tasks->config.store, cursor, LIMIT_PAGE, &page, err) < 0)
			return -1;
		for (size_t i = 0; i < page.count; i++) {
			if (has_team(list, page.items[i].id.text))
				continue;
			list->items =
				mem_resize(list->items, list->count + 1, sizeof(*list->items));
			list->items[list->count++] = (struct budget){
				.kind = BUDGET_TEAM,
				.subject = mem_strdup(page.items[i].id.text),
				.team = page.items[i].id,
				.amount = config->team_amount,
				.period = config->period,
				.action = config->action,
				.created_ms = page.items[i].created_ms,
			};
		}
		mem_freep(&cursor);
		cursor = take_ptr(page.next_cursor);
		has_more = cursor != NULL;
		team_page_done(&page);
	}
	return 0;
}

/* What was told of one that is not in the store is known here alone. */
static void keep_told(const struct tasks *tasks, struct budget *budget)
{
	for (size_t i = 0; !budget->id.text[0] && i < tasks->account_count; i++) {
		const struct budget *old = &tasks->accounts[i].budget;

		if (old->kind == budget->kind && !old->id.text[0] &&
		    str_eq(old->subject, budget->subject)) {
			budget->told = old->told;
			budget->told_ms = old->told_ms;
		}
	}
}

int account_load(struct tasks *tasks, struct err *err)
{
	struct budget_list list = {0};
	struct account *accounts;
	int r = store_budget_list(tasks->config.store, "", &list, err);

	if (r == 0)
		r = add_teams(tasks, &list, err);
	if (r < 0) {
		budget_list_done(&list);
		return -1;
	}
	accounts = mem_resize(NULL, list.count + 1, sizeof(*accounts));
	for (size_t i = 0; r == 0 && i < list.count; i++) {
		keep_told(tasks, &list.items[i]);
		accounts[i] = (struct account){.budget = list.items[i]};
		accounts[i].since_ms = budget_since(list.items[i].period, io_real_ms());
		r = store_budget_spent(tasks->config.store, &list.items[i], accounts[i].since_ms,
		                       &accounts[i].settled, err);
	}
	if (r < 0) {
		free(accounts);
		budget_list_done(&list);
		return -1;
	}
	account_done(tasks);
	tasks->accounts = accounts;
	tasks->account_count = list.count;
	free(list.items); /* what was in it is the accounts' */
	if (list.count > 0)
		loop_timer_in(tasks->config.loop, &tasks->reload, RELOAD_MS, on_reload, tasks);
	watch_all(tasks);
	meter_hurry(tasks);
	return 0;
}

/* --- for the API --- */

int tasks_reload_budgets(struct tasks *tasks, struct err *err)
{
	return account_load(tasks, err);
}

bool tasks_budget_at(const struct tasks *tasks, size_t index, struct tasks_budget *ret)
{
	const struct account *account;

	if (index >= tasks->account_count)
		return false;
	account = &tasks->accounts[index];
	*ret = (struct tasks_budget){&account->budget, spent_on(tasks, account),
	                             reserved_on(tasks, account, NULL)};
	return true;
}

/* A run that is not there yet is asked about as if it were. */
int tasks_fits(struct tasks *tasks, struct task *task, struct run *run, struct err *err)
{
	struct job job = {.tasks = tasks, .run = run, .task = task};
	char wanted[MONEY_TEXT], rest[MONEY_TEXT], amount[MONEY_TEXT];
	const struct account *tight = NULL;
	uint64_t left;

	if (tasks->account_count == 0)
		return 0;
	job_find_chain(&job);
	left = account_left(&job, &tight);
	strings_done(&job.chain);
	if (!tight || (left > 0 && (run->budget == MONEY_UNLIMITED || run->budget <= left)))
		return 0;
	return err_set(err, ERR_BUDGET,
	               "budget: this run may take $%s, and of the $%s of %s %.40s $%s are left",
	               run->budget == MONEY_UNLIMITED ? "0.000001 or more"
	                                              : money_format(wanted, run->budget),
	               money_format(amount, tight->budget.amount),
	               budget_kind_name(tight->budget.kind), tight->budget.subject,
	               money_format(rest, left));
}
