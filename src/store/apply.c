#include "base/must.h"
#include "store/write.h"

/* Fills in the numbers the store gave to the event. */
static void take_numbers(struct store_write *write, struct op *op, sqlite3_stmt *statement)
{
	must(op->event != NULL);
	op->event->seq = db_column_int(statement, 0);
	op->event->sandbox_seq = db_column_int(statement, 1);
	op->event->owner = db_column_id(statement, 2);
	op->event->team = db_column_id(statement, 3);
	if (!visibility_from(db_column_view(statement, 4), &op->event->visibility))
		op->event->visibility = VISIBILITY_PRIVATE;
	write->result.seq = op->event->seq;
	write->result.sandbox_seq = op->event->sandbox_seq;
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
	if (db_begin(db, op->sql, op->values, op->count, &statement, err) < 0)
		return -1;
	while ((r = db_step(db, statement, err)) > 0)
		take_numbers(write, op, statement);
	if (r < 0)
		return explain(op, sqlite3_extended_errcode(db->handle), err);
	if (op->if_none != ERR_OK && sqlite3_changes(db->handle) == 0)
		return err_set(err, op->if_none, "%s", op->if_none_text);
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
