#include "store/budget.h"

#include "base/mem.h"
#include "store/store_impl.h"
#include "store/write.h"

void store_put_budget(struct store_write *write, const struct budget *budget)
{
	struct op *op = write_add(
		write, SQL_BUDGET_PUT, value_text(budget->id.text),
		value_text(budget_kind_name(budget->kind)), value_text(budget->subject),
		value_text(budget->team.text), value_int(budget->amount),
		value_text(budget_period_name(budget->period)), value_int(budget->created_ms),
		value_text(budget_action_name(budget->action)));

	op->if_foreign = mem_strdup("the team is gone");
}

void store_delete_budget(struct store_write *write, enum budget_kind kind, const char *subject,
                         const char *team)
{
	struct op *op = write_add(write, SQL_BUDGET_DELETE, value_text(budget_kind_name(kind)),
	                          value_text(subject), value_text(team));

	op->if_none = ERR_NOT_FOUND;
	op->if_none_text = mem_printf("this %s has no budget", budget_kind_name(kind));
}

void store_tell_budget(struct store_write *write, const char *id, enum budget_told told,
                       uint64_t since_ms)
{
	write_add(write, SQL_BUDGET_TELL, value_int(told), value_int(since_ms), value_text(id));
}

void store_add_model_spend(struct store_write *write, const struct model_spend *spend)
{
	enum { HOUR_MS = 60 * 60 * 1000 };
	struct op *op = write_add(write, SQL_MODEL_SPEND_ADD, value_text(spend->team),
	                          value_text(spend->chain),
	                          value_int(spend->at_ms - spend->at_ms % HOUR_MS),
	                          value_int(spend->input_tokens), value_int(spend->cached_tokens),
	                          value_int(spend->output_tokens), value_int(spend->cost));

	op->if_foreign = mem_strdup("the team is gone");
}

static bool take_budget(sqlite3_stmt *row, struct budget *ret)
{
	struct budget budget = {.id = db_column_id(row, 0), .team = db_column_id(row, 3)};

	if (!budget_kind_from(db_column_view(row, 1), &budget.kind) ||
	    !budget_period_from(db_column_view(row, 5), &budget.period) ||
	    !budget_action_from(db_column_view(row, 9), &budget.action))
		return false;
	budget.subject = db_column_text(row, 2);
	budget.amount = db_column_int(row, 4);
	budget.created_ms = db_column_int(row, 6);
	budget.told = (enum budget_told)db_column_int(row, 7);
	budget.told_ms = db_column_int(row, 8);
	*ret = budget;
	return true;
}

int store_budget_list(struct store *store, const char *team, struct budget_list *ret,
                      struct err *err)
{
	const struct value values[] = {value_text(team)};
	struct budget_list list = {0};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_BUDGET_LIST, values, ARRAY_LEN(values), &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0) {
		list.items = mem_resize(list.items, list.count + 1, sizeof(*list.items));
		list.count += take_budget(row, &list.items[list.count]);
	}
	if (r < 0)
		budget_list_done(&list);
	else
		*ret = list;
	return r;
}

void budget_list_done(struct budget_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		budget_done(&list->items[i]);
	free(list->items);
	*list = (struct budget_list){0};
}

int store_budget_spent(struct store *store, const struct budget *budget, uint64_t since_ms,
                       uint64_t *ret, struct err *err)
{
	static const enum sql statements[] = {
		[BUDGET_TEAM] = SQL_BUDGET_SPENT_TEAM,
		[BUDGET_AGENT] = SQL_BUDGET_SPENT_AGENT,
		[BUDGET_KEY] = SQL_BUDGET_SPENT_KEY,
		[BUDGET_TASK] = SQL_BUDGET_SPENT_TASK,
	};
	const struct value values[] = {value_text(budget->subject), value_text(budget->team.text),
	                               value_int(since_ms)};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, statements[budget->kind], values, ARRAY_LEN(values), &row,
	             err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r > 0)
		*ret = db_column_int(row, 0);
	sqlite3_reset(row);
	return r > 0 ? 0 : -1;
}
