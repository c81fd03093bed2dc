/* Sums over runs that are over, and over sandboxes of no run. Meters of runs are kept as a list
 * (pack.h), so they are summed up here. */
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/pack.h"
#include "store/store_impl.h"
#include "store/task.h"

enum { DAY_MS = 24 * 3600 * 1000 };

static const struct {
	const char *by;
	enum sql runs, sandboxes;
} kinds[] = {
	{"task", SQL_USAGE_BY_TASK, SQL_SANDBOX_USAGE_BY_TASK},
	{"agent", SQL_USAGE_BY_AGENT, SQL_SANDBOX_USAGE_BY_AGENT},
	{"key", SQL_USAGE_BY_KEY, SQL_SANDBOX_USAGE_BY_KEY},
	{"team", SQL_USAGE_BY_TEAM, SQL_SANDBOX_USAGE_BY_TEAM},
	{"day", SQL_USAGE_BY_DAY, SQL_SANDBOX_USAGE_BY_DAY},
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

/* --- models outside of runs --- */

static struct usage_row *find_row(struct usage_list *list, const char *key)
{
	for (size_t i = 0; i < list->count; i++) {
		if (str_eq(list->items[i].key, key))
			return &list->items[i];
	}
	list->items = mem_resize(list->items, list->count + 1, sizeof(*list->items));
	list->items[list->count] = (struct usage_row){.key = mem_strdup(key)};
	return &list->items[list->count++];
}

static void add_outside(struct usage_list *list, const char *by, sqlite3_stmt *row)
{
	const char *chain = db_column_view(row, 1), *last = strrchr(chain, ' ');
	const char *key = str_eq(by, "team") ? db_column_view(row, 0) : last ? last + 1 : chain;
	char day[24];
	struct usage_row *sum;

	if (str_eq(by, "day")) {
		(void)snprintf(day, sizeof(day), "%llu",
		               (unsigned long long)(db_column_int(row, 2) / DAY_MS)); /* fits */
		key = day;
	}
	sum = find_row(list, key);
	sum->cost += db_column_int(row, 3);
	sum->input_tokens += db_column_int(row, 4);
	sum->output_tokens += db_column_int(row, 5);
	sum->cached_tokens += db_column_int(row, 6);
}

/* Tasks and agents have no part in them; nor are they anybody's but the team's. */
static int read_outside(struct store *store, const struct usage_filter *filter,
                        struct usage_list *list, struct err *err)
{
	const struct caller *viewer = filter->viewer;
	bool sees_all = viewer == NULL || viewer->is_operator;
	const struct value values[] = {value_text(sees_all ? "" : viewer->team.text),
	                               value_int(filter->since_ms)};
	sqlite3_stmt *row;
	int r;

	if (str_eq(filter->by, "task") || str_eq(filter->by, "agent") ||
	    (!sees_all && viewer->role != ROLE_ADMIN))
		return 0;
	if (db_begin(&store->reader, SQL_USAGE_OUTSIDE, values, ARRAY_LEN(values), &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0)
		add_outside(list, filter->by, row);
	return r;
}

/* --- sandboxes of no run --- */

static void add_sandboxes(struct usage_row *sum, sqlite3_stmt *row)
{
	sum->sandboxes += db_column_int(row, 1);
	sum->cost += db_column_int(row, 2);
	sum->cpu_us += db_column_int(row, 3);
	sum->uptime_ms += db_column_int(row, 4);
	sum->memory_byte_seconds += db_column_int(row, 5);
	sum->disk_byte_seconds += db_column_int(row, 6);
	sum->network_bytes += db_column_int(row, 7);
}

static int read_sandboxes(struct store *store, enum sql sql, const struct value *values,
                          struct usage_list *list, struct err *err)
{
	const struct value all[] = {
		values[0],
		values[1],
		values[2],
		/* The day it lies in counts. */
		{.kind = VALUE_INT, .num = values[3].num - DAY_MS},
	};
	struct usage_row *sum = NULL;
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, sql, all, ARRAY_LEN(all), &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0) {
		if (!sum || !str_eq(sum->key, db_column_view(row, 0)))
			sum = find_row(list, db_column_view(row, 0));
		add_sandboxes(sum, row);
	}
	return r;
}

/* Days since 1970 as people write them. */
static void name_days(struct usage_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		char text[32];
		uint64_t day;

		if (str_to_u64(list->items[i].key, &day) < 0)
			continue;
		io_format_time(text, sizeof(text), day * DAY_MS);
		text[10] = '\0'; /* "2026-01-31" */
		free(list->items[i].key);
		list->items[i].key = mem_strdup(text);
	}
}

static int compare_rows(const void *a, const void *b)
{
	const struct usage_row *first = a, *second = b;

	return strcmp(first->key, second->key);
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
	if (db_begin(&store->reader, kinds[i].runs, values, ARRAY_LEN(values), &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0)
		add_row(&list, row);
	if (r == 0)
		r = read_outside(store, filter, &list, err);
	if (r == 0)
		r = read_sandboxes(store, kinds[i].sandboxes, values, &list, err);
	if (str_eq(filter->by, "day"))
		name_days(&list);
	if (list.count > 0)
		qsort(list.items, list.count, sizeof(*list.items), compare_rows);
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
