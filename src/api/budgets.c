/* Budgets: how much runs and sandboxes may cost, by team, agent, key or task. Only operators limit
 * a team: its own admins would lift the limit. */
#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "store/budget.h"
#include "store/identity.h"
#include "store/task.h"
#include "task/meter.h"
#include "task/tasks.h"

enum { AGENT_BYTES = 63 };

static json_t *dollars(uint64_t millionths)
{
	return json_real(money_to_dollars(millionths));
}

static json_t *encode(const struct tasks_budget *now)
{
	const struct budget *budget = now->budget;
	json_t *object = json_object();

	json_object_set_new(object, "kind", json_string(budget_kind_name(budget->kind)));
	json_object_set_new(object, "subject", encode_text(budget->subject));
	json_object_set_new(object, "team", json_string(budget->team.text));
	json_object_set_new(object, "amount", dollars(budget->amount));
	json_object_set_new(object, "period", json_string(budget_period_name(budget->period)));
	json_object_set_new(object, "action", json_string(budget_action_name(budget->action)));
	json_object_set_new(object, "spent", dollars(now->spent));
	json_object_set_new(object, "reserved", dollars(now->reserved));
	json_object_set_new(
		object, "left",
		dollars(money_sub(money_sub(budget->amount, now->spent), now->reserved)));
	json_object_set_new(object, "createdAt", encode_time(budget->created_ms));
	return object;
}

static bool is_seen(const struct call *call, const struct budget *budget)
{
	return call->caller->is_operator || str_eq(budget->team.text, call->caller->team.text);
}

static void answer_list(void *ctx)
{
	struct call *call = ctx;
	json_t *items = json_array();
	struct tasks_budget now;

	for (size_t i = 0; tasks_budget_at(call->api->tasks, i, &now); i++) {
		if (is_seen(call, now.budget))
			json_array_append_new(items, encode(&now));
	}
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

void handle_budget_list(struct call *call)
{
	meter_refresh(call->api->tasks, answer_list, call);
}

/* --- of whom --- */

static int of_team(struct call *call, struct budget *ret, struct err *err)
{
	struct team team = {0};

	if (!call->caller->is_operator)
		return err_set(err, ERR_FORBIDDEN, "only an operator limits what a team spends");
	if (store_team_get(call->api->store, call->params[1], &team, err) < 0)
		return -1;
	ret->team = team.id;
	ret->subject = mem_strdup(team.id.text);
	team_done(&team);
	return 0;
}

/* Of the caller's team: every team has its own. */
static int of_agent(struct call *call, struct budget *ret, struct err *err)
{
	const char *name = call->params[1];

	if (strlen(name) > AGENT_BYTES || !str_is_utf8(name, strlen(name)))
		return err_set(err, ERR_INVALID, "the name of an agent has at most %d bytes",
		               AGENT_BYTES);
	ret->team = call->caller->team;
	ret->subject = mem_strdup(name);
	return 0;
}

static int of_key(struct call *call, struct budget *ret, struct err *err)
{
	auto_(credential_freep) struct credential *key = NULL;
	int r = store_credential_get(call->api->store, call->params[1], &key, err);

	if (r < 0 && err->code != ERR_NOT_FOUND)
		return -1;
	if (r < 0 || key->run.text[0] ||
	    (!call->caller->is_operator && !str_eq(key->team.text, call->caller->team.text)))
		return err_set(err, ERR_NOT_FOUND, "no key '%.40s': give its id, ky_…",
		               call->params[1]);
	ret->team = key->team;
	ret->subject = mem_strdup(key->id.text);
	return 0;
}

static int of_task(struct call *call, struct budget *ret, struct err *err)
{
	auto_(task_freep) struct task *task = NULL;
	struct ownership whose;

	if (store_task_get(call->api->store, call->params[1], &task, err) < 0)
		return -1;
	whose = (struct ownership){
		.owner = task->owner.text, .team = task->team.text, .visibility = task->visibility};
	if (authz_change(call, &whose, "task", call->params[1], err) < 0)
		return -1;
	ret->team = task->team;
	ret->subject = mem_strdup(task->id.text);
	return 0;
}

static int find_subject(struct call *call, struct budget *ret, struct err *err)
{
	static int (*const finders[])(struct call *, struct budget *, struct err *) = {
		[BUDGET_TEAM] = of_team,
		[BUDGET_AGENT] = of_agent,
		[BUDGET_KEY] = of_key,
		[BUDGET_TASK] = of_task,
	};

	if (!budget_kind_from(call->params[0], &ret->kind))
		return err_set(err, ERR_INVALID, "a budget is of a team, agent, key or task");
	return finders[ret->kind](call, ret, err);
}

/* --- changing --- */

struct change {
	struct call *call;
	struct budget budget;
	bool is_removal;
};

static void change_free(struct change *change)
{
	budget_done(&change->budget);
	mem_freep(&change);
}

static void answer(struct call *call, const struct budget *budget)
{
	struct tasks_budget now;

	for (size_t i = 0; tasks_budget_at(call->api->tasks, i, &now); i++) {
		if (now.budget->kind == budget->kind &&
		    str_eq(now.budget->subject, budget->subject) &&
		    str_eq(now.budget->team.text, budget->team.text)) {
			call_answer(call, 200, encode(&now));
			return;
		}
	}
	call_fail(call,
	          &(struct err){.code = ERR_CONFLICT, .msg = "somebody removed it at this moment"});
}

/* What is spent up to now is known. */
static void on_fresh(void *ctx)
{
	struct change *change = ctx;

	answer(change->call, &change->budget);
	change_free(change);
}

static void on_stored(const struct store_result *result, void *ctx)
{
	struct change *change = ctx;
	struct call *call = change->call;
	struct err err = result->err;

	if (result->ok && tasks_reload_budgets(call->api->tasks, &err) == 0 &&
	    !change->is_removal) {
		meter_refresh(call->api->tasks, on_fresh, change);
		return;
	}
	if (err.code != ERR_OK)
		call_fail(call, &err);
	else
		call_answer_empty(call);
	change_free(change);
}

static int decode(const struct call *call, struct budget *ret, struct err *err)
{
	const char *period = json_string_value(json_object_get(call->body, "period"));
	const char *action = json_string_value(json_object_get(call->body, "action"));
	double amount = json_number_value(json_object_get(call->body, "amount"));

	if (!money_from_dollars(amount, &ret->amount) || ret->amount == 0)
		return err_set(err, ERR_INVALID,
		               "'amount' is more than 0 and at most 1000000 dollars");
	if (period && !budget_period_from(period, &ret->period))
		return err_set(err, ERR_INVALID, "'period' is total, day or month");
	ret->action = call->api->config->budgets.action;
	if (action && !budget_action_from(action, &ret->action))
		return err_set(err, ERR_INVALID, "'action' is stop or freeze");
	return 0;
}

static void submit(struct call *call, bool is_removal)
{
	struct change *change = mem_new(struct change);
	struct budget *budget = &change->budget;
	struct store_write *write;
	struct err err = {0};

	*change = (struct change){.call = call, .is_removal = is_removal};
	budget->id = id_new("bg");
	budget->created_ms = io_real_ms();
	if (find_subject(call, budget, &err) < 0 ||
	    (!is_removal && decode(call, budget, &err) < 0)) {
		change_free(change);
		call_fail(call, &err);
		return;
	}
	write = store_write_new(call->api->store);
	if (is_removal)
		store_delete_budget(write, budget->kind, budget->subject, budget->team.text);
	else
		store_put_budget(write, budget);
	store_write_submit(write, on_stored, change);
}

void handle_budget_set(struct call *call)
{
	submit(call, false);
}

void handle_budget_remove(struct call *call)
{
	submit(call, true);
}
