/* Sums over runs that are over. Meters are kept as a list (pack.h), so they are summed up here. */
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/pack.h"
#include "store/store_impl.h"
#include "store/task.h"

static const struct {
	const char *by;
	enum sql sql;
} kinds[] = {
	{"task", SQL_USAGE_BY_TASK}, {"agent", SQL_USAGE_BY_AGENT}, {"key", SQL_USAGE_BY_KEY},
	{"team", SQL_USAGE_BY_TEAM}, {"day", SQL_USAGE_BY_DAY},
};

static void add_row(struct usage_list *list, sqlite3_stmt *row)
{
	struct usage_row *last = list->count > 0 ? &list->items[list->count - 1] : NULL;
	const char *key = db_column_view(row, 0);
	struct meters meters = {0};

	if (!last || !str_eq(last->key, key)) {
		list->items = mem_resize(list->items, list->count + 1, sizeof(*list->items));
		last = &list->items[list->count++];
		*last = (struct usage_row){.key = mem_strdup(key)};
	}
	unpack_meters(db_column_view(row, 4), &meters);
	last->runs++;
	last->cost += db_column_int(row, 1);
	last->input_tokens += db_column_int(row, 2);
	last->output_tokens += db_column_int(row, 3);
	last->cpu_us += meters.cpu_us;
	last->uptime_ms += meters.uptime_ms;
	last->memory_byte_seconds += meters.memory_byte_seconds;
	last->disk_byte_seconds += meters.disk_byte_seconds;
	last->network_bytes += meters.net_sent_bytes + meters.net_received_bytes;
	last->cached_tokens += db_column_int(row, 5);
}

/* Days since 1970 as people write them. */
static void name_days(struct usage_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		char text[32];
		uint64_t day;

		if (str_to_u64(list->items[i].key, &day) < 0)
			continue;
		io_format_time(text, sizeof(text), day * 24 * 3600 * 1000);
		text[10] = '\0'; /* "2026-01-31" */
		free(list->items[i].key);
		list->items[i].key = mem_strdup(text);
	}
}

int store_usage(struct store *store, const struct usage_filter *filter, struct usage_list *ret,
                struct err *err)
{
	const struct caller *viewer = filter->viewer;
	bool sees_all = viewer == NULL || viewer->is_operator;
	const struct value values[] = {
		value_text(sees_all ? "" : viewer->team.text),
		value_text(sees_all ? "" : viewer->principal.text),
		value_int(!sees_all && viewer->role == ROLE_ADMIN),
		value_int(filter->since_ms),
	};
	struct usage_list list = {0};
	sqlite3_stmt *row;
	size_t i = 0;
	int r;

	while (i < ARRAY_LEN(kinds) && !str_eq(kinds[i].by, filter->by))
		i++;
	if (i == ARRAY_LEN(kinds))
		return err_set(err, ERR_INVALID, "'by' is task, agent, key, team or day");
	if (db_begin(&store->reader, kinds[i].sql, values, ARRAY_LEN(values), &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0)
		add_row(&list, row);
	if (str_eq(filter->by, "day"))
		name_days(&list);
	if (r < 0)
		usage_list_done(&list);
	else
		*ret = list;
	return r;
}

void usage_list_done(struct usage_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].key);
	free(list->items);
	*list = (struct usage_list){0};
}
