/* Events, idempotency keys, single values and counts out of the store. */
#include "base/mem.h"
#include "store/cursor.h"
#include "store/store_impl.h"

/* Columns in the order of EVENT_COLUMNS. */
static int take_event(sqlite3_stmt *row, struct event *ret, struct err *err)
{
	struct event event = {
		.seq = db_column_int(row, 0),
		.sandbox = db_column_id(row, 1),
		.sandbox_seq = db_column_int(row, 2),
		.time_ms = db_column_int(row, 3),
		.kind = event_from(db_column_view(row, 4)),
	};

	if (event.kind == EVENT_NONE)
		return err_set(err, ERR_IO, "the store has event %llu of no kind we know",
		               (unsigned long long)event.seq);
	event.data = db_column_text(row, 5);
	event.owner = db_column_id(row, 6);
	event.team = db_column_id(row, 7);
	if (!visibility_from(db_column_view(row, 8), &event.visibility))
		event.visibility = VISIBILITY_PRIVATE;
	*ret = event;
	return 0;
}

static int read_events(struct store *store, sqlite3_stmt *row, size_t limit,
                       struct event_page *page, struct err *err)
{
	int r;

	page->items = mem_resize(NULL, limit + 1, sizeof(*page->items));
	while ((r = db_step(&store->reader, row, err)) > 0) {
		if (take_event(row, &page->items[page->count], err) < 0) {
			sqlite3_reset(row);
			return -1;
		}
		page->count++;
	}
	if (r < 0)
		return -1;
	page->more = page->count > limit;
	if (page->more)
		event_done(&page->items[--page->count]);
	return 0;
}

static int begin_list(struct store *store, const struct event_filter *filter, size_t limit,
                      sqlite3_stmt **ret, struct err *err)
{
	const struct caller *viewer = filter->viewer;
	bool sees_all = viewer == NULL || viewer->is_operator;
	struct value values[7] = {
		value_text(sees_all ? "" : viewer->team.text),
		value_text(sees_all ? "" : viewer->principal.text),
		value_int(!sees_all && viewer->role == ROLE_ADMIN),
	};
	enum sql sql = SQL_EVENT_LIST;
	size_t count = 3;

	if (filter->sandbox != NULL) {
		values[count++] = value_text(filter->sandbox);
		sql = filter->kind != NULL ? SQL_EVENT_LIST_OF_KIND : SQL_EVENT_LIST_OF_SANDBOX;
	}
	values[count++] = value_int(filter->after);
	if (sql == SQL_EVENT_LIST_OF_KIND)
		values[count++] = value_text(filter->kind);
	values[count++] = value_int(limit + 1);
	return db_begin(&store->reader, sql, values, count, ret, err);
}

int store_event_list(struct store *store, const struct event_filter *filter, struct event_page *ret,
                     struct err *err)
{
	struct event_page page = {0};
	sqlite3_stmt *row;
	size_t limit;
	int r;

	if (cursor_check_limit(filter->limit, &limit, err) < 0)
		return -1;
	r = begin_list(store, filter, limit, &row, err);
	if (r < 0 || read_events(store, row, limit, &page, err) < 0) {
		event_page_done(&page);
		return -1;
	}
	*ret = page;
	return 0;
}

void event_page_done(struct event_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		event_done(&page->items[i]);
	free(page->items);
	*page = (struct event_page){0};
}

int store_event_last(struct store *store, const char *sandbox_id, uint64_t *ret, struct err *err)
{
	const struct value values[] = {value_text(sandbox_id)};
	sqlite3_stmt *row;
	int r;

	if (sandbox_id != NULL)
		r = db_begin(&store->reader, SQL_EVENT_LAST_OF_SANDBOX, values, 1, &row, err);
	else
		r = db_begin(&store->reader, SQL_EVENT_LAST, NULL, 0, &row, err);
	if (r < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r < 0)
		return -1;
	*ret = r > 0 ? db_column_int(row, 0) : 0;
	sqlite3_reset(row);
	return 0;
}

int store_idempotency_get(struct store *store, const char *key, const char *route, uint64_t now_ms,
                          struct idempotency **ret, struct err *err)
{
	const struct value values[] = {value_text(key), value_text(route), value_int(now_ms)};
	struct idempotency *entry;
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_IDEMPOTENCY_GET, values, 3, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, ERR_NOT_FOUND, "this Idempotency-Key was not used");
	entry = mem_new(struct idempotency);
	entry->key = db_column_text(row, 0);
	entry->route = db_column_text(row, 1);
	entry->body_hash = db_column_text(row, 2);
	entry->status = (int)db_column_int(row, 3);
	entry->response = db_column_text(row, 4);
	entry->expires_ms = db_column_int(row, 5);
	sqlite3_reset(row);
	*ret = entry;
	return 0;
}

void idempotency_free(struct idempotency *entry)
{
	if (entry == NULL)
		return;
	free(entry->key);
	free(entry->route);
	free(entry->body_hash);
	free(entry->response);
	free(entry);
}

int store_meta_get(struct store *store, const char *name, char **ret, struct err *err)
{
	const struct value values[] = {value_text(name)};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_META_GET, values, 1, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, ERR_NOT_FOUND, "the store has no value '%s'", name);
	*ret = db_column_text(row, 0);
	sqlite3_reset(row);
	return 0;
}

static int count_sandboxes(struct store *store, struct store_counts *counts, struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_COUNT_SANDBOXES, NULL, 0, &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0) {
		enum sandbox_state state = sandbox_state_from(db_column_view(row, 0));

		if (state != SANDBOX_NONE)
			counts->sandboxes[state] = db_column_int(row, 1);
	}
	return r;
}

int store_count(struct store *store, struct store_counts *ret, struct err *err)
{
	struct store_counts counts = {0};
	sqlite3_stmt *row;
	int r;

	if (count_sandboxes(store, &counts, err) < 0 ||
	    db_begin(&store->reader, SQL_COUNT_OTHERS, NULL, 0, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r < 0)
		return -1;
	counts.execs = db_column_int(row, 0);
	counts.execs_running = db_column_int(row, 1);
	counts.images = db_column_int(row, 2);
	counts.events = db_column_int(row, 3);
	sqlite3_reset(row);
	*ret = counts;
	return 0;
}
