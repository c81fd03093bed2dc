/* Services out of the store. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"
#include "store/pack.h"
#include "store/service.h"
#include "store/store_impl.h"

/* Columns in the order of SERVICE_COLUMNS. */
static int take_service(sqlite3_stmt *row, struct service **ret, struct err *err)
{
	auto_(service_freep) struct service *service = service_new(db_column_view(row, 1));

	service->id = db_column_id(row, 0);
	service->upstream = db_column_text(row, 2);
	unpack_strings(db_column_view(row, 3), &service->headers);
	service->secret = db_column_text(row, 4);
	unpack_strings(db_column_view(row, 5), &service->methods);
	unpack_strings(db_column_view(row, 6), &service->paths);
	service->response_bytes = db_column_int(row, 7);
	service->timeout_ms = db_column_int(row, 8);
	if (!visibility_from(db_column_view(row, 9), &service->visibility))
		return err_set(err, ERR_IO, "the store has service %s with words we do not know",
		               service->name);
	service->owner = db_column_text(row, 10);
	service->team = db_column_text(row, 11);
	service->created_ms = db_column_int(row, 12);
	service->updated_ms = db_column_int(row, 13);
	*ret = take_ptr(service);
	return 0;
}

int store_service_get(struct store *store, const char *team, const char *id_or_name,
                      struct service **ret, struct err *err)
{
	const struct value values[] = {value_text(id_or_name),
	                               value_text(team ? team : ACCESS_TEAM)};
	sqlite3_stmt *row;
	char shown[128];
	int r;

	if (db_begin(&store->reader, SQL_SERVICE_GET, values, 2, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r < 0)
		return -1;
	if (r == 0) {
		str_escape(shown, sizeof(shown), id_or_name, strlen(id_or_name));
		return err_set(err, ERR_NOT_FOUND, "no service '%s'", shown);
	}
	r = take_service(row, ret, err);
	sqlite3_reset(row);
	return r;
}

int store_service_sealed(struct store *store, const char *id, char **ret, struct err *err)
{
	const struct value values[] = {value_text(id)};
	sqlite3_stmt *row;
	int r;

	*ret = NULL;
	if (db_begin(&store->reader, SQL_SERVICE_SEALED, values, 1, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r > 0) {
		*ret = db_column_text(row, 0);
		sqlite3_reset(row);
	}
	return r < 0 ? -1 : 0;
}

char *service_use_key(const struct service *service)
{
	return service->id.text[0] ? mem_strdup(service->id.text)
	                           : mem_printf("config:%s", service->name);
}

int store_service_use(struct store *store, const struct service *service, struct service_use *ret,
                      struct err *err)
{
	auto_free char *key = service_use_key(service);
	const struct value values[] = {value_text(key)};
	sqlite3_stmt *row;
	int r;

	*ret = (struct service_use){0};
	if (db_begin(&store->reader, SQL_SERVICE_USE, values, 1, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r <= 0)
		return r;
	*ret = (struct service_use){.calls = db_column_int(row, 0),
	                            .denied = db_column_int(row, 1),
	                            .sent = db_column_int(row, 2),
	                            .received = db_column_int(row, 3),
	                            .last_ms = db_column_int(row, 4)};
	sqlite3_reset(row);
	return 0;
}

int store_service_list(struct store *store, const char *team, const char *cursor, size_t limit,
                       struct service_page *ret, struct err *err)
{
	auto_free char *after = NULL;
	struct service_page page = {0};
	sqlite3_stmt *row;
	int r;

	if (cursor_check_limit(limit, &limit, err) < 0 || cursor_read(cursor, &after, err) < 0)
		return -1;
	const struct value values[] = {value_text(after), value_text(team ? team : ""),
	                               value_int(limit + 1)};

	if (db_begin(&store->reader, SQL_SERVICE_LIST, values, 3, &row, err) < 0)
		return -1;
	page.items = mem_resize(NULL, limit + 1, sizeof(struct service *));
	while ((r = db_step(&store->reader, row, err)) > 0) {
		if (take_service(row, &page.items[page.count], err) < 0) {
			sqlite3_reset(row);
			r = -1;
			break;
		}
		page.count++;
	}
	if (r == 0 && page.count > limit) {
		service_free(page.items[--page.count]);
		page.next_cursor = cursor_make(page.items[limit - 1]->id.text);
	}
	if (r < 0)
		service_page_done(&page);
	*ret = page;
	return r;
}

void service_page_done(struct service_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		service_free(page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct service_page){0};
}
