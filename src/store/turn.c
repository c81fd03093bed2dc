#include "store/turn.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"
#include "store/store_impl.h"
#include "store/write.h"

#define begin(store, sql, row, err, ...)                                                           \
	db_begin(&(store)->reader, sql, (const struct value[]){__VA_ARGS__},                       \
	         sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value), row, err)

/* --- writing --- */

void store_add_turn(struct store_write *write, const struct turn *turn)
{
	struct op *op = write_add(
		write, SQL_TURN_ADD, value_text(turn->id.text), value_text(turn->session.text),
		value_text(turn->run.text), value_int(turn->number), value_text(turn->message_id),
		value_text(turn->label), value_text(turn->prompt), value_text(turn->schema),
		value_int(turn->timeout_ms), value_int(turn->is_steer),
		value_text(turn_state_name(turn->state)), value_text(NULL), value_text(NULL),
		value_text(NULL), value_text(NULL), value_text(NULL), value_int(0), value_int(0),
		value_int(0), value_int(0), value_int(0), value_int(0), value_int(turn->created_ms),
		value_int(0), value_int(0));

	op->if_foreign = mem_strdup("the session is gone");
	op->if_taken = mem_strdup("another turn of this session came at this moment");
}

void store_put_turn(struct store_write *write, const struct turn *turn)
{
	write_add(write, SQL_TURN_PUT, value_text(turn_state_name(turn->state)),
	          value_text(turn->end == TURN_END_NONE ? NULL : turn_end_name(turn->end)),
	          value_text(turn->detail), value_text(turn->stop_reason), value_text(turn->text),
	          value_text(turn->output), value_int(turn->attempts), value_int(turn->is_nudged),
	          value_int(turn->is_repaired), value_int(turn->input_tokens),
	          value_int(turn->output_tokens), value_int(turn->cost),
	          value_int(turn->started_ms), value_int(turn->ended_ms),
	          value_text(turn->id.text));
}

/* --- reading --- */

/* Columns in the order of TURN_COLUMNS. */
static int take(sqlite3_stmt *row, struct turn **ret, struct err *err)
{
	struct turn *turn = mem_new(struct turn);

	if (!turn_state_from(db_column_view(row, 10), &turn->state)) {
		turn_free(turn);
		return err_set(err, ERR_IO, "the store has a turn in no state we know");
	}
	turn->id = db_column_id(row, 0);
	turn->session = db_column_id(row, 1);
	turn->run = db_column_id(row, 2);
	turn->number = db_column_int(row, 3);
	turn->message_id = db_column_text(row, 4);
	turn->label = db_column_text(row, 5);
	turn->prompt = db_column_text(row, 6);
	turn->schema = db_column_text(row, 7);
	turn->timeout_ms = db_column_int(row, 8);
	turn->is_steer = db_column_int(row, 9) != 0;
	turn->end = turn_end_from(db_column_view(row, 11));
	turn->detail = db_column_text(row, 12);
	turn->stop_reason = db_column_text(row, 13);
	turn->text = db_column_text(row, 14);
	turn->output = db_column_text(row, 15);
	turn->attempts = db_column_int(row, 16);
	turn->is_nudged = db_column_int(row, 17) != 0;
	turn->is_repaired = db_column_int(row, 18) != 0;
	turn->input_tokens = db_column_int(row, 19);
	turn->output_tokens = db_column_int(row, 20);
	turn->cost = db_column_int(row, 21);
	turn->created_ms = db_column_int(row, 22);
	turn->started_ms = db_column_int(row, 23);
	turn->ended_ms = db_column_int(row, 24);
	*ret = turn;
	return 0;
}

static int take_one(struct store *store, sqlite3_stmt *row, const char *name, struct turn **ret,
                    struct err *err)
{
	int r = db_step(&store->reader, row, err);
	char shown[64];

	if (r < 0)
		return -1;
	if (r == 0) {
		str_escape(shown, sizeof(shown), name, strlen(name));
		return err_set(err, ERR_NOT_FOUND, "no turn '%s' of this session", shown);
	}
	r = take(row, ret, err);
	sqlite3_reset(row);
	return r;
}

int store_turn_get(struct store *store, const char *session, const char *id, struct turn **ret,
                   struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_TURN_GET, &row, err, value_text(id), value_text(session)) < 0)
		return -1;
	return take_one(store, row, id, ret, err);
}

int store_turn_by_message(struct store *store, const char *session, const char *message,
                          struct turn **ret, struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_TURN_BY_MESSAGE, &row, err, value_text(session), value_text(message)) <
	    0)
		return -1;
	return take_one(store, row, message, ret, err);
}

static int take_all(struct store *store, sqlite3_stmt *row, struct turn_page *ret, struct err *err)
{
	size_t room = 0;
	int r;

	while ((r = db_step(&store->reader, row, err)) > 0) {
		if (ret->count == room) {
			room = room ? 2 * room : 16;
			ret->items = mem_resize(ret->items, room, sizeof(struct turn *));
		}
		if (take(row, &ret->items[ret->count], err) < 0) {
			sqlite3_reset(row);
			r = -1;
			break;
		}
		ret->count++;
	}
	if (r < 0)
		turn_page_done(ret);
	return r;
}

static int number_of(const char *cursor, uint64_t *ret, struct err *err)
{
	auto_free char *after = NULL;

	*ret = 0;
	if (cursor_read(cursor, &after, err) < 0)
		return -1;
	if (*after && str_to_u64(after, ret) < 0)
		return err_set(err, ERR_INVALID, "'cursor' is not one of ours");
	return 0;
}

int store_turn_list(struct store *store, const char *session, const char *cursor, size_t limit,
                    struct turn_page *ret, struct err *err)
{
	sqlite3_stmt *row;
	uint64_t after;
	char number[24];

	*ret = (struct turn_page){0};
	if (cursor_check_limit(limit, &limit, err) < 0 || number_of(cursor, &after, err) < 0 ||
	    begin(store, SQL_TURN_LIST, &row, err, value_text(session), value_int(after),
	          value_int(limit + 1)) < 0 ||
	    take_all(store, row, ret, err) < 0)
		return -1;
	if (ret->count <= limit)
		return 0;
	turn_free(ret->items[--ret->count]);
	(void)snprintf(number, sizeof(number), "%llu",
	               (unsigned long long)ret->items[ret->count - 1]->number);
	ret->next_cursor = cursor_make(number);
	return 0;
}

int store_turn_open(struct store *store, const char *session, struct turn_page *ret,
                    struct err *err)
{
	sqlite3_stmt *row;

	*ret = (struct turn_page){0};
	if (begin(store, SQL_TURN_OPEN, &row, err, value_text(session)) < 0)
		return -1;
	return take_all(store, row, ret, err);
}

void turn_page_done(struct turn_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		turn_free(page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct turn_page){0};
}

int store_turn_last(struct store *store, const char *session, uint64_t *ret, struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_TURN_LAST, &row, err, value_text(session)) < 0 ||
	    db_step(&store->reader, row, err) < 0)
		return -1;
	*ret = db_column_int(row, 0);
	sqlite3_reset(row);
	return 0;
}
