/* Environments and their sealed variables out of the store. */
#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"
#include "store/pack.h"
#include "store/store_impl.h"

static void take_ports(const char *text, struct environment *environment)
{
	struct strings list = {0};
	uint64_t ports[ENVIRONMENT_PORTS];
	size_t count = 0;

	unpack_strings(text, &list);
	for (size_t i = 0; i < list.count && count < ENVIRONMENT_PORTS; i++) {
		if (str_to_u64(list.items[i], &ports[count]) == 0)
			count++;
	}
	strings_done(&list);
	/* What this version would not have written leads to no port at all. */
	if (environment_set_ports(environment, ports, count, NULL) < 0)
		environment->port_count = 0;
}

/* Columns in the order of ENVIRONMENT_COLUMNS. */
static int take_environment(sqlite3_stmt *row, struct environment **ret, struct err *err)
{
	auto_(environment_freep) struct environment *environment =
		environment_new(db_column_view(row, 1));

	environment->id = db_column_id(row, 0);
	if (!environment_level_from(db_column_view(row, 2), &environment->level) ||
	    !environment_mode_from(db_column_view(row, 3), &environment->mode) ||
	    !visibility_from(db_column_view(row, 12), &environment->visibility))
		return err_set(err, ERR_IO,
		               "the store has environment %s with words we do not know",
		               environment->name);
	environment->domains_any = sqlite3_column_type(row, 4) == SQLITE_NULL;
	unpack_strings(db_column_view(row, 4), &environment->domains);
	environment->include_default = db_column_int(row, 5) != 0;
	unpack_strings(db_column_view(row, 6), &environment->denied_domains);
	environment->ports_any = sqlite3_column_type(row, 7) == SQLITE_NULL;
	if (environment->ports_any)
		environment->port_count = 0;
	else
		take_ports(db_column_view(row, 7), environment);
	unpack_strings(db_column_view(row, 8), &environment->cidrs);
	unpack_strings(db_column_view(row, 9), &environment->denied_cidrs);
	environment->egress_bytes = db_column_int(row, 10);
	environment->egress_rate = db_column_int(row, 11);
	environment->owner = db_column_text(row, 13);
	environment->team = db_column_text(row, 14);
	environment->created_ms = db_column_int(row, 15);
	environment->updated_ms = db_column_int(row, 16);
	*ret = take_ptr(environment);
	return 0;
}

int store_variables_get(struct store *store, const char *environment_id, struct strings *ret,
                        struct err *err)
{
	const struct value values[] = {value_text(environment_id)};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_VARIABLES_GET, values, 1, &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0)
		strings_take(ret,
		             mem_printf("%s=%s", db_column_view(row, 0), db_column_view(row, 1)));
	return r;
}

/* The names alone. */
static int read_variables(struct store *store, struct environment *environment, struct err *err)
{
	struct strings sealed = {0};
	int r = store_variables_get(store, environment->id.text, &sealed, err);

	for (size_t i = 0; r == 0 && i < sealed.count; i++)
		strings_take(&environment->variables,
		             mem_strndup(sealed.items[i], strcspn(sealed.items[i], "=")));
	strings_done(&sealed);
	return r;
}

int store_environment_get(struct store *store, const char *team, const char *id_or_name,
                          struct environment **ret, struct err *err)
{
	const struct value values[] = {value_text(id_or_name),
	                               value_text(team != NULL ? team : ACCESS_TEAM)};
	auto_(environment_freep) struct environment *environment = NULL;
	sqlite3_stmt *row;
	char shown[128];
	int r;

	if (db_begin(&store->reader, SQL_ENVIRONMENT_GET, values, 2, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r < 0)
		return -1;
	if (r == 0) {
		str_escape(shown, sizeof(shown), id_or_name, strlen(id_or_name));
		return err_set(err, ERR_NOT_FOUND, "no environment '%s'", shown);
	}
	r = take_environment(row, &environment, err);
	sqlite3_reset(row);
	if (r < 0 || read_variables(store, environment, err) < 0)
		return -1;
	*ret = take_ptr(environment);
	return 0;
}

static int read_page(struct store *store, const char *after,
                     const struct environment_filter *filter, struct environment_page *page,
                     struct err *err)
{
	size_t limit = filter->limit;
	const struct value values[] = {value_text(after),
	                               value_text(filter->team != NULL ? filter->team : ""),
	                               value_int(limit + 1)};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_ENVIRONMENT_LIST, values, 3, &row, err) < 0)
		return -1;
	page->items = mem_resize(NULL, limit + 1, sizeof(struct environment *));
	while ((r = db_step(&store->reader, row, err)) > 0) {
		if (take_environment(row, &page->items[page->count], err) < 0) {
			sqlite3_reset(row);
			return -1;
		}
		page->count++;
	}
	if (r < 0)
		return -1;
	if (page->count > limit) {
		environment_free(page->items[--page->count]);
		page->next_cursor = cursor_make(page->items[limit - 1]->id.text);
	}
	for (size_t i = 0; i < page->count; i++) {
		if (read_variables(store, page->items[i], err) < 0)
			return -1;
	}
	return 0;
}

int store_environment_list(struct store *store, const struct environment_filter *filter,
                           struct environment_page *ret, struct err *err)
{
	auto_free char *after = NULL;
	struct environment_filter checked = *filter;
	struct environment_page page = {0};

	if (cursor_check_limit(filter->limit, &checked.limit, err) < 0 ||
	    cursor_read(filter->cursor, &after, err) < 0)
		return -1;
	if (read_page(store, after, &checked, &page, err) < 0) {
		environment_page_done(&page);
		return -1;
	}
	*ret = page;
	return 0;
}

void environment_page_done(struct environment_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		environment_free(page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct environment_page){0};
}
