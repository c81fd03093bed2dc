#include "base/must.h"
#include "store/number.h"
#include "store/store_impl.h"
#include "store/write.h"

static struct value value_id(const struct id *id)
{
	return value_text(id->text[0] != '\0' ? id->text : NULL);
}

static int add_event(struct store_write *write, struct event *event, struct db *db, struct err *err)
{
	sqlite3_stmt *statement;

	if (numbers_give(write->store->numbers, db, event, err) < 0)
		return -1;
	const struct value values[] = {
		value_int(event->seq),
		value_id(&event->sandbox),
		value_int(event->sandbox_seq),
		value_int(event->time_ms),
		value_text(event_name(event->kind)),
		value_text(event->data),
		value_id(&event->owner),
		value_id(&event->team),
		value_text(event->team.text[0] ? visibility_name(event->visibility) : NULL),
	};

	if (db_begin(db, SQL_EVENT_ADD, values, ARRAY_LEN(values), &statement, err) < 0 ||
	    db_step(db, statement, err) < 0)
		return -1;
	write->result.seq = event->seq;
	write->result.sandbox_seq = event->sandbox_seq;
	return 0;
}

/* Says what a violated constraint means to people. */
static int explain(const struct op *op, int rc, struct err *err)
{
	if (rc == SQLITE_CONSTRAINT_FOREIGNKEY && op->if_foreign != NULL)
		return err_set(err, ERR_CONFLICT, "%s", op->if_foreign);
	if (rc == SQLITE_CONSTRAINT_UNIQUE && op->if_taken != NULL)
		return err_set(err, ERR_CONFLICT, "%s", op->if_taken);
	return -1;
}

static int apply_op(struct store_write *write, struct op *op, struct db *db, struct err *err)
{
	sqlite3_stmt *statement;
	int r;

	if (op->audit != NULL)
		return audit_apply(write->store, op->audit, db, err);
	if (op->event != NULL)
		return add_event(write, op->event, db, err);
	if (db_begin(db, op->sql, op->values, op->count, &statement, err) < 0)
		return -1;
	r = db_step(db, statement, err);
	must(r <= 0); /* none of them answers with rows */
	if (r < 0)
		return explain(op, sqlite3_extended_errcode(db->handle), err);
	if (op->if_none != ERR_OK && sqlite3_changes(db->handle) == 0)
		return err_set(err, op->if_none, "%s", op->if_none_text);
	numbers_learn(write->store->numbers, op);
	return 0;
}

int write_apply(struct store_write *write, struct db *db, struct err *err)
{
	for (struct op *op = write->first; op != NULL; op = op->next) {
		if (apply_op(write, op, db, err) < 0)
			return -1;
	}
	return 0;
}

bool write_is_refusal(const struct err *err)
{
	return err->code == ERR_CONFLICT || err->code == ERR_NOT_FOUND ||
	       err->code == ERR_FORBIDDEN || err->code == ERR_INTERNAL;
}
