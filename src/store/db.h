/*
 * One SQLite connection: opening it the way the store needs, prepared statements by name, values
 * in and out, and SQLite's result codes as struct err. Used by one thread at a time.
 */
#pragma once

#include <sqlite3.h>

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"

enum sql {
#define SQL(name, text) SQL_##name,
#include "store/sql.def"
#undef SQL
	SQL_COUNT_
};

/* A parameter of a statement. */
enum value_kind { VALUE_NULL, VALUE_TEXT, VALUE_INT };
struct value {
	enum value_kind kind;
	const char *text;
	int64_t num;
};

/* NULL becomes SQL's NULL. */
static inline struct value value_text(const char *text)
{
	return (struct value){.kind = text != NULL ? VALUE_TEXT : VALUE_NULL, .text = text};
}

static inline struct value value_int(uint64_t num)
{
	return (struct value){.kind = VALUE_INT, .num = (int64_t)num};
}

struct db {
	sqlite3 *handle;
	const char *path; /* not owned */
	sqlite3_stmt *statements[SQL_COUNT_];
};

enum db_mode { DB_WRITER, DB_READER };

/* The file must exist (it may be empty). A reader needs a database that a writer has opened.
 * db_close is due also after a failure. */
int db_open(struct db *db, const char *path, const char *vfs, enum db_mode mode,
            struct err *err) NODISCARD;
void db_close(struct db *db);
/* Fills err from the connection's last failure, "what: …"; returns -1. */
int db_fail(struct db *db, int rc, const char *what, struct err *err);
/* Runs texts that return nothing. */
int db_exec(struct db *db, const char *text, struct err *err) NODISCARD;
/* Ends the transaction. After some failures SQLite has done so by itself; then nothing happens. */
void db_rollback(struct db *db);
/* One number from a query; 0 when it has no row. */
int db_query_int(struct db *db, const char *text, int64_t *ret, struct err *err) NODISCARD;

const char *db_text(enum sql sql);
/* The statement, reset, with these values bound; they must live until it is stepped through. */
int db_begin(struct db *db, enum sql sql, const struct value *values, size_t count,
             sqlite3_stmt **ret, struct err *err) NODISCARD;
/* As db_begin for a text made on the spot; the caller finalizes. */
int db_prepare(struct db *db, const char *text, const struct value *values, size_t count,
               sqlite3_stmt **ret, struct err *err) NODISCARD;
/* 1: a row is there; 0: no more; -1: failed. In the last two cases the statement is reset. */
int db_step(struct db *db, sqlite3_stmt *statement, struct err *err) NODISCARD;
/* Columns of the row. Text is a fresh copy, NULL for SQL's NULL. */
char *db_column_text(sqlite3_stmt *statement, int column) NODISCARD;
/* The text itself until the next step; "" for SQL's NULL. */
const char *db_column_view(sqlite3_stmt *statement, int column);
uint64_t db_column_int(sqlite3_stmt *statement, int column);
struct id db_column_id(sqlite3_stmt *statement, int column);
