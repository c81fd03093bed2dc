#include "task/outside.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/budget.h"
#include "task/account.h"
#include "task/charge.h"
#include "task/job.h"

static void outside_free(struct outside *outside)
{
	mem_freep(&outside->team);
	mem_freep(&outside->chain);
	strings_done(&outside->credentials);
	mem_freep(&outside);
}

void outside_done(struct tasks *tasks)
{
	while (tasks->outside) {
		struct outside *outside = tasks->outside;

		tasks->outside = outside->next;
		outside_free(outside);
	}
}

static void outside_init(struct outside *outside, const struct charge_payer *payer)
{
	*outside = (struct outside){.team = mem_strdup(payer->team),
	                            .chain = mem_strdup(payer->chain)};
	strings_split(&outside->credentials, payer->chain);
}

static struct outside *find(const struct tasks *tasks, const struct charge_payer *payer)
{
	for (struct outside *at = tasks->outside; at; at = at->next) {
		if (str_eq(at->team, payer->team) && str_eq(at->chain, payer->chain))
			return at;
	}
	return NULL;
}

static struct outside *enter(struct tasks *tasks, const struct charge_payer *payer)
{
	struct outside *outside = find(tasks, payer);

	if (outside)
		return outside;
	outside = mem_new(struct outside);
	outside_init(outside, payer);
	outside->next = tasks->outside;
	tasks->outside = outside;
	return outside;
}

/* Nothing of it is under way any more. */
static void leave(struct tasks *tasks, struct outside *outside)
{
	struct outside **at = &tasks->outside;

	if (outside->held > 0 || outside->writes > 0)
		return;
	while (*at != outside)
		at = &(*at)->next;
	*at = outside->next;
	outside_free(outside);
}

uint64_t charge_outside_left(const struct tasks *tasks, const struct charge_payer *payer)
{
	const struct outside *outside = find(tasks, payer);
	const struct account *tight = NULL;
	struct outside nobody;
	uint64_t left;

	if (outside)
		return account_left_outside(tasks, outside, &tight);
	outside_init(&nobody, payer);
	left = account_left_outside(tasks, &nobody, &tight);
	mem_freep(&nobody.team);
	mem_freep(&nobody.chain);
	strings_done(&nobody.credentials);
	return left;
}

int charge_outside_hold(struct tasks *tasks, const struct charge_payer *payer, uint64_t amount,
                        struct err *err)
{
	struct outside *outside = enter(tasks, payer);
	char wanted[MONEY_TEXT], rest[MONEY_TEXT];
	const struct account *tight = NULL;
	uint64_t left = account_left_outside(tasks, outside, &tight);

	if (tight && (left == 0 || left < amount)) {
		leave(tasks, outside);
		return err_set(err, ERR_BUDGET,
		               "this takes $%s, and the budget of %s %.40s has $%s left",
		               money_format(wanted, amount), budget_kind_name(tight->budget.kind),
		               tight->budget.subject, money_format(rest, left));
	}
	outside->held = money_add(outside->held, amount);
	leave(tasks, outside); /* unless there is something to keep */
	return 0;
}

struct storing {
	struct tasks *tasks;
	struct outside *outside;
	uint64_t cost;
};

static void on_stored(const struct store_result *result, void *ctx)
{
	auto_free struct storing *storing = ctx;
	struct outside *outside = storing->outside;

	if (!result->ok)
		log_error("what a model cost is not stored", LOG_ERR(&result->err));
	outside->writes--;
	outside->storing = money_sub(outside->storing, storing->cost);
	account_settle_outside(storing->tasks, outside, storing->cost);
	leave(storing->tasks, outside);
}

void charge_outside_add(struct tasks *tasks, const struct charge_payer *payer,
                        const struct charge *charge)
{
	struct outside *outside = enter(tasks, payer);
	struct model_spend spend = {.team = payer->team,
	                            .chain = payer->chain,
	                            .at_ms = io_real_ms(),
	                            .input_tokens = charge->input_tokens,
	                            .cached_tokens = charge->cached_tokens,
	                            .output_tokens = charge->output_tokens,
	                            .cost = charge->cost};
	struct storing *storing;
	struct store_write *write;

	outside->held = money_sub(outside->held, charge->held);
	if (charge->input_tokens + charge->output_tokens == 0) {
		leave(tasks, outside);
		return;
	}
	outside->writes++;
	outside->storing = money_add(outside->storing, charge->cost);
	storing = mem_new(struct storing);
	*storing = (struct storing){tasks, outside, charge->cost};
	write = store_write_new(tasks->config.store);
	store_add_model_spend(write, &spend);
	store_write_submit(write, on_stored, storing);
}
