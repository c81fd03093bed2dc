#include "store/db.h"

#include <errno.h>

#include "base/mem.h"
#include "base/must.h"
#include "store/vfs.h"

static const char *const texts[] = {
#define SQL(name, text) [SQL_##name] = (text),
#include "store/sql.def"
#undef SQL
};

/* A full file system shows as SQLITE_FULL from a write, but as an I/O error from fsync. */
static bool is_no_space(struct db *db, int rc)
{
	int sys = db->handle != NULL ? sqlite3_system_errno(db->handle) : 0;

	if ((rc & 0xff) == SQLITE_FULL)
		return true;
	return (rc & 0xff) == SQLITE_IOERR && (sys == ENOSPC || sys == EDQUOT);
}

int db_fail(struct db *db, int rc, const char *what, struct err *err)
{
	const char *text = db->handle != NULL ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);

	if (is_no_space(db, rc))
		return err_set(err, ERR_NO_SPACE, "%s: no space left for the store %s", what,
		               db->path);
	switch (rc & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_set(err, ERR_IO,
		               "the store %s is damaged (%s): put back a copy of it, or move it "
		               "away to begin with an empty one",
		               db->path, text);
	case SQLITE_CONSTRAINT:
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(err, ERR_UNAVAILABLE, "%s: another program holds the store %s", what,
		               db->path);
	case SQLITE_NOMEM:
		return err_set(err, ERR_INTERNAL, "%s: no memory for the store", what);
	default:
		return err_set(err, ERR_IO, "%s: store %s: %s", what, db->path, text);
	}
}

int db_exec(struct db *db, const char *text, struct err *err)
{
	int rc = sqlite3_exec(db->handle, text, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_fail(db, rc, "store", err);
}

void db_rollback(struct db *db)
{
	if (!sqlite3_get_autocommit(db->handle))
		sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
	must(sqlite3_get_autocommit(db->handle));
}

int db_query_int(struct db *db, const char *text, int64_t *ret, struct err *err)
{
	sqlite3_stmt *statement = NULL;
	int r;

	if (db_prepare(db, text, NULL, 0, &statement, err) < 0)
		return -1;
	r = db_step(db, statement, err);
	if (r >= 0)
		*ret = r > 0 ? sqlite3_column_int64(statement, 0) : 0;
	sqlite3_finalize(statement);
	return r < 0 ? -1 : 0;
}

/* WAL with full sync: a commit that returned survives a crash of the machine too. The log grows to
 * 16 MiB before it goes into the database: pages that every commit touches go there once. */
static int set_up_writer(struct db *db, struct err *err)
{
	return db_exec(db,
	               "PRAGMA journal_mode = WAL;"
	               "PRAGMA synchronous = FULL;"
	               "PRAGMA wal_autocheckpoint = 4000;"
	               "PRAGMA foreign_keys = ON",
	               err);
}

int db_open(struct db *db, const char *path, const char *vfs, enum db_mode mode, struct err *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
	int rc;

	*db = (struct db){.path = path};
	rc = sqlite3_open_v2(path, &db->handle, flags, vfs ? vfs : vfs_plain());
	if (rc != SQLITE_OK)
		return db_fail(db, rc, "open", err);
	sqlite3_busy_timeout(db->handle, 5000);
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	/* What a statement keeps aside for a moment needs no file. */
	if (db_exec(db, "PRAGMA temp_store = MEMORY", err) < 0)
		return -1;
	/* A reader is opened read-write, since only then can it recover the WAL's index. */
	return mode == DB_WRITER ? set_up_writer(db, err)
	                         : db_exec(db, "PRAGMA query_only = ON", err);
}

void db_close(struct db *db)
{
	for (size_t i = 0; i < SQL_COUNT_; i++)
		sqlite3_finalize(db->statements[i]);
	must(sqlite3_close(db->handle) == SQLITE_OK);
	*db = (struct db){0};
}

const char *db_text(enum sql sql)
{
	return texts[sql];
}

/* SQLite takes $1 for a name and numbers names by first use; the texts keep that order, so that
 * the number in the name is the number of the parameter on every engine. */
static void check_order(sqlite3_stmt *statement)
{
	char name[16];

	for (int i = 1; i <= sqlite3_bind_parameter_count(statement); i++) {
		snprintf(name, sizeof(name), "$%d", i);
		must(strcmp(sqlite3_bind_parameter_name(statement, i), name) == 0);
	}
}

static int bind(struct db *db, sqlite3_stmt *statement, const struct value *values, size_t count,
                struct err *err)
{
	must((size_t)sqlite3_bind_parameter_count(statement) == count);
	for (size_t i = 0; i < count; i++) {
		int at = (int)i + 1, rc = SQLITE_OK;

		switch (values[i].kind) {
		case VALUE_NULL:
			rc = sqlite3_bind_null(statement, at);
			break;
		case VALUE_TEXT:
			rc = sqlite3_bind_text(statement, at, values[i].text, -1, SQLITE_STATIC);
			break;
		case VALUE_INT:
			rc = sqlite3_bind_int64(statement, at, values[i].num);
			break;
		}
		if (rc != SQLITE_OK)
			return db_fail(db, rc, "bind", err);
	}
	return 0;
}

int db_begin(struct db *db, enum sql sql, const struct value *values, size_t count,
             sqlite3_stmt **ret, struct err *err)
{
	sqlite3_stmt **slot = &db->statements[sql];
	int rc;

	if (*slot == NULL) {
		rc = sqlite3_prepare_v3(db->handle, texts[sql], -1, SQLITE_PREPARE_PERSISTENT, slot,
		                        NULL);
		if (rc != SQLITE_OK)
			return db_fail(db, rc, "prepare", err);
		check_order(*slot);
	}
	sqlite3_reset(*slot);
	if (bind(db, *slot, values, count, err) < 0)
		return -1;
	*ret = *slot;
	return 0;
}

int db_prepare(struct db *db, const char *text, const struct value *values, size_t count,
               sqlite3_stmt **ret, struct err *err)
{
	sqlite3_stmt *statement;
	int rc = sqlite3_prepare_v2(db->handle, text, -1, &statement, NULL);

	if (rc != SQLITE_OK)
		return db_fail(db, rc, "prepare", err);
	check_order(statement);
	if (bind(db, statement, values, count, err) < 0) {
		sqlite3_finalize(statement);
		return -1;
	}
	*ret = statement;
	return 0;
}

int db_step(struct db *db, sqlite3_stmt *statement, struct err *err)
{
	int rc = sqlite3_step(statement);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		db_fail(db, rc, "store", err);
	sqlite3_reset(statement);
	return rc == SQLITE_DONE ? 0 : -1;
}

char *db_column_text(sqlite3_stmt *statement, int column)
{
	const char *text = (const char *)sqlite3_column_text(statement, column);

	return text != NULL ? mem_strdup(text) : NULL;
}

uint64_t db_column_int(sqlite3_stmt *statement, int column)
{
	return (uint64_t)sqlite3_column_int64(statement, column);
}

const char *db_column_view(sqlite3_stmt *statement, int column)
{
	const char *text = (const char *)sqlite3_column_text(statement, column);

	return text != NULL ? text : "";
}

struct id db_column_id(sqlite3_stmt *statement, int column)
{
	struct id id = {0};

	snprintf(id.text, sizeof(id.text), "%s", db_column_view(statement, column));
	return id;
}
