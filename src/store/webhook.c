/* Webhooks and deliveries, into the store and out of it. */
#include "store/webhook.h"

#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"
#include "store/pack.h"
#include "store/store_impl.h"
#include "store/write.h"

void store_put_webhook(struct store_write *write, const struct webhook *webhook)
{
	auto_free char *events = pack_strings(&webhook->events);

	write_add(write, SQL_WEBHOOK_PUT, value_text(webhook->id.text), value_text(webhook->url),
	          value_text(events), value_text(webhook->about), value_text(webhook->sealed),
	          value_text(webhook->sealed_before), value_int(webhook->before_until_ms),
	          value_text(webhook->owner.text), value_text(webhook->team.text),
	          value_int(webhook->created_ms), value_int(webhook->after_seq));
}

void store_delete_webhook(struct store_write *write, const char *id)
{
	struct op *op = write_add(write, SQL_WEBHOOK_DELETE, value_text(id));

	op->if_none = ERR_NOT_FOUND;
	op->if_none_text = mem_strdup("no such webhook");
}

void store_add_delivery(struct store_write *write, const struct delivery *delivery)
{
	write_add(write, SQL_DELIVERY_ADD, value_text(delivery->id.text),
	          value_text(delivery->webhook.text), value_int(delivery->event_seq),
	          value_text(delivery->kind), value_text(delivery->subject),
	          value_text(delivery->payload), value_text(delivery_state_name(delivery->state)),
	          value_int(delivery->attempts), value_int(delivery->next_ms),
	          value_int((uint64_t)delivery->last_status), value_text(delivery->last_error),
	          value_int(delivery->created_ms), value_int(delivery->ended_ms));
}

void store_put_delivery(struct store_write *write, const struct delivery *delivery)
{
	write_add(write, SQL_DELIVERY_PUT, value_text(delivery_state_name(delivery->state)),
	          value_int(delivery->attempts), value_int(delivery->next_ms),
	          value_int((uint64_t)delivery->last_status), value_text(delivery->last_error),
	          value_int(delivery->ended_ms), value_text(delivery->id.text));
}

void store_expire_deliveries(struct store_write *write, uint64_t before_ms)
{
	write_add(write, SQL_DELIVERY_EXPIRE, value_int(before_ms));
}

/* --- reading --- */

#define begin(store, sql, row, err, ...)                                                           \
	db_begin(&(store)->reader, sql, (const struct value[]){__VA_ARGS__},                       \
	         sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value), row, err)

static int first(struct store *store, sqlite3_stmt *row, const char *what, const char *id,
                 struct err *err)
{
	int r = db_step(&store->reader, row, err);
	char shown[64];

	if (r != 0)
		return r < 0 ? -1 : 0;
	str_escape(shown, sizeof(shown), id, strlen(id));
	return err_set(err, ERR_NOT_FOUND, "no %s '%s'", what, shown);
}

static void take_webhook(sqlite3_stmt *row, struct webhook *ret)
{
	*ret = (struct webhook){
		.id = db_column_id(row, 0),
		.url = db_column_text(row, 1),
		.about = db_column_text(row, 3),
		.sealed = db_column_text(row, 4),
		.sealed_before = db_column_text(row, 5),
		.before_until_ms = db_column_int(row, 6),
		.owner = db_column_id(row, 7),
		.team = db_column_id(row, 8),
		.created_ms = db_column_int(row, 9),
		.after_seq = db_column_int(row, 10),
	};
	unpack_strings(db_column_view(row, 2), &ret->events);
}

int store_webhook_get(struct store *store, const char *id, struct webhook *ret, struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_WEBHOOK_GET, &row, err, value_text(id)) < 0 ||
	    first(store, row, "webhook", id, err) < 0)
		return -1;
	take_webhook(row, ret);
	sqlite3_reset(row);
	return 0;
}

int store_webhook_list(struct store *store, const char *team, const char *cursor, size_t limit,
                       struct webhook_page *ret, struct err *err)
{
	auto_free char *after = NULL;
	struct webhook_page page = {0};
	sqlite3_stmt *row;
	int r;

	if (cursor_check_limit(limit, &limit, err) < 0 || cursor_read(cursor, &after, err) < 0 ||
	    begin(store, SQL_WEBHOOK_LIST, &row, err, value_text(after), value_text(team),
	          value_int(limit + 1)) < 0)
		return -1;
	page.items = mem_resize(NULL, limit + 1, sizeof(*page.items));
	while ((r = db_step(&store->reader, row, err)) > 0)
		take_webhook(row, &page.items[page.count++]);
	if (page.count > limit) {
		webhook_done(&page.items[--page.count]);
		page.next_cursor = cursor_make(page.items[limit - 1].id.text);
	}
	if (r < 0)
		webhook_page_done(&page);
	else
		*ret = page;
	return r;
}

void webhook_page_done(struct webhook_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		webhook_done(&page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct webhook_page){0};
}

static void take_delivery(sqlite3_stmt *row, struct delivery *ret)
{
	*ret = (struct delivery){
		.id = db_column_id(row, 0),
		.webhook = db_column_id(row, 1),
		.event_seq = db_column_int(row, 2),
		.kind = db_column_text(row, 3),
		.subject = db_column_text(row, 4),
		.payload = db_column_text(row, 5),
		.state = delivery_state_from(db_column_view(row, 6)),
		.attempts = db_column_int(row, 7),
		.next_ms = db_column_int(row, 8),
		.last_status = (int)db_column_int(row, 9),
		.last_error = db_column_text(row, 10),
		.created_ms = db_column_int(row, 11),
		.ended_ms = db_column_int(row, 12),
	};
}

int store_delivery_get(struct store *store, const char *id, struct delivery *ret, struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_DELIVERY_GET, &row, err, value_text(id)) < 0 ||
	    first(store, row, "delivery", id, err) < 0)
		return -1;
	take_delivery(row, ret);
	sqlite3_reset(row);
	return 0;
}

static int read_deliveries(struct store *store, sqlite3_stmt *row, size_t limit,
                           struct delivery_page *ret, struct err *err)
{
	struct delivery_page page = {0};
	int r;

	page.items = mem_resize(NULL, limit + 1, sizeof(*page.items));
	while ((r = db_step(&store->reader, row, err)) > 0)
		take_delivery(row, &page.items[page.count++]);
	if (page.count > limit) {
		delivery_done(&page.items[--page.count]);
		page.next_cursor = cursor_make(page.items[limit - 1].id.text);
	}
	if (r < 0)
		delivery_page_done(&page);
	else
		*ret = page;
	return r;
}

int store_delivery_list(struct store *store, const struct delivery_filter *filter,
                        struct delivery_page *ret, struct err *err)
{
	auto_free char *after = NULL;
	sqlite3_stmt *row;
	size_t limit;

	if (cursor_check_limit(filter->limit, &limit, err) < 0 ||
	    cursor_read(filter->cursor, &after, err) < 0 ||
	    begin(store, SQL_DELIVERY_LIST, &row, err, value_text(filter->webhook),
	          value_int(filter->since_ms), value_text(filter->state ? filter->state : ""),
	          value_text(after), value_int(limit + 1)) < 0)
		return -1;
	return read_deliveries(store, row, limit, ret, err);
}

int store_delivery_due(struct store *store, uint64_t now_ms, size_t limit,
                       struct delivery_page *ret, struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_DELIVERY_DUE, &row, err, value_int(now_ms), value_int(limit)) < 0)
		return -1;
	return read_deliveries(store, row, limit, ret, err);
}

void delivery_page_done(struct delivery_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		delivery_done(&page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct delivery_page){0};
}

int store_delivery_next(struct store *store, uint64_t *ret, struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_DELIVERY_NEXT, NULL, 0, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r < 0)
		return -1;
	*ret = r > 0 ? db_column_int(row, 0) : 0;
	sqlite3_reset(row);
	return 0;
}
