/* Execs out of the store. */
#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"
#include "store/pack.h"
#include "store/store_impl.h"

/* Columns in the order of EXEC_COLUMNS. */
static struct exec *take_exec(sqlite3_stmt *row)
{
	struct exec *exec = mem_new(struct exec);

	exec->id = db_column_id(row, 0);
	exec->sandbox = db_column_id(row, 1);
	unpack_strings(db_column_view(row, 2), &exec->argv);
	exec->user = db_column_text(row, 3);
	exec->cwd = db_column_text(row, 4);
	exec->tty = db_column_int(row, 5) != 0;
	exec->background = db_column_int(row, 6) != 0;
	exec->started_ms = db_column_int(row, 7);
	exec->ended_ms = db_column_int(row, 8);
	exec->exit_code = (int)db_column_int(row, 9);
	exec->signal = (int)db_column_int(row, 10);
	exec->reason = db_column_text(row, 11);
	exec->output_bytes = db_column_int(row, 12);
	return exec;
}

/* The one row of a statement with one parameter. */
static int read_one(struct store *store, enum sql sql, const char *key, struct exec **ret,
                    struct err *err)
{
	const struct value values[] = {value_text(key)};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, sql, values, 1, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r <= 0)
		return r;
	*ret = take_exec(row);
	sqlite3_reset(row);
	return 1;
}

int store_exec_get(struct store *store, const char *id, struct exec **ret, struct err *err)
{
	int r = read_one(store, SQL_EXEC_GET, id, ret, err);
	char shown[64];

	if (r == 0) {
		str_escape(shown, sizeof(shown), id, strlen(id));
		return err_set(err, ERR_NOT_FOUND, "no command '%s'", shown);
	}
	return r < 0 ? -1 : 0;
}

int store_exec_latest(struct store *store, const char *sandbox_id, struct exec **ret,
                      struct err *err)
{
	int r = read_one(store, SQL_EXEC_LATEST, sandbox_id, ret, err);

	if (r == 0)
		return err_set(err, ERR_NOT_FOUND, "nothing was run in this sandbox");
	return r < 0 ? -1 : 0;
}

static int begin_list(struct store *store, const struct exec_filter *filter, const char *after,
                      size_t limit, sqlite3_stmt **ret, struct err *err)
{
	const struct value all[] = {value_text(after), value_int(filter->running_only),
	                            value_int(limit + 1)};
	const struct value one[] = {value_text(after), value_text(filter->sandbox),
	                            value_int(filter->running_only), value_int(limit + 1)};

	if (filter->sandbox != NULL)
		return db_begin(&store->reader, SQL_EXEC_LIST_OF_SANDBOX, one, ARRAY_LEN(one), ret,
		                err);
	return db_begin(&store->reader, SQL_EXEC_LIST, all, ARRAY_LEN(all), ret, err);
}

int store_exec_list(struct store *store, const struct exec_filter *filter, struct exec_page *ret,
                    struct err *err)
{
	auto_free char *after = NULL;
	struct exec_page page = {0};
	sqlite3_stmt *row;
	size_t limit;
	int r;

	if (cursor_check_limit(filter->limit, &limit, err) < 0 ||
	    cursor_read(filter->cursor, &after, err) < 0 ||
	    begin_list(store, filter, after, limit, &row, err) < 0)
		return -1;
	page.items = mem_resize(NULL, limit + 1, sizeof(struct exec *));
	while ((r = db_step(&store->reader, row, err)) > 0)
		page.items[page.count++] = take_exec(row);
	if (r < 0) {
		exec_page_done(&page);
		return -1;
	}
	if (page.count > limit) {
		exec_free(page.items[--page.count]);
		page.next_cursor = cursor_make(page.items[limit - 1]->id.text);
	}
	*ret = page;
	return 0;
}

void exec_page_done(struct exec_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		exec_free(page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct exec_page){0};
}
