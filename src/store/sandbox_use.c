#include "store/sandbox_use.h"

#include "base/mem.h"
#include "store/store_impl.h"
#include "store/write.h"

static void add_use(struct store_write *write, enum sql sql, const struct sandbox_use *use)
{
	const struct meters *used = &use->used;
	struct op *op =
		write_add(write, sql, value_text(use->team), value_text(use->owner),
	                  value_text(visibility_name(use->visibility)), value_text(use->chain),
	                  value_text(use->maker), value_int(use->day_ms), value_int(use->is_first),
	                  value_int(use->cost), value_int(used->cpu_us), value_int(used->uptime_ms),
	                  value_int(used->memory_byte_seconds), value_int(used->disk_byte_seconds),
	                  value_int(used->net_sent_bytes + used->net_received_bytes),
	                  value_text(use->sandbox));

	op->if_foreign = mem_strdup("the team is gone");
}

void store_put_sandbox_use(struct store_write *write, const struct sandbox_use *use)
{
	add_use(write, SQL_SANDBOX_USE_PUT, use);
}

void store_add_sandbox_spend(struct store_write *write, const struct sandbox_use *use)
{
	add_use(write, SQL_SANDBOX_SPEND_ADD, use);
}

void store_settle_sandbox_use(struct store_write *write, const char *sandbox)
{
	write_add(write, SQL_SANDBOX_USE_FOLD, value_text(sandbox));
	write_add(write, SQL_SANDBOX_USE_DELETE, value_text(sandbox));
}

void store_charge_sandbox(struct store_write *write, const char *sandbox, const char *maker,
                          uint64_t cost)
{
	write_add(write, SQL_SANDBOX_CHARGE, value_int(cost), value_text(sandbox),
	          value_text(maker));
}

int store_sandbox_use_list(struct store *store, const char *sandbox, struct sandbox_use_list *ret,
                           struct err *err)
{
	const struct value values[] = {value_text(sandbox)};
	struct sandbox_use_list list = {0};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_SANDBOX_USE_LIST, values, ARRAY_LEN(values), &row, err) <
	    0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0) {
		list.items = mem_resize(list.items, list.count + 1, sizeof(*list.items));
		list.items[list.count++] = (struct sandbox_use){
			.day_ms = db_column_int(row, 0),
			.is_first = db_column_int(row, 1) > 0,
			.cost = db_column_int(row, 2),
			.used = {.cpu_us = db_column_int(row, 3),
		                 .uptime_ms = db_column_int(row, 4),
		                 .memory_byte_seconds = db_column_int(row, 5),
		                 .disk_byte_seconds = db_column_int(row, 6),
		                 .net_sent_bytes = db_column_int(row, 7)},
		};
	}
	if (r < 0)
		sandbox_use_list_done(&list);
	else
		*ret = list;
	return r;
}

void sandbox_use_list_done(struct sandbox_use_list *list)
{
	free(list->items);
	*list = (struct sandbox_use_list){0};
}
