#include "store/migrate.h"

#include "base/io.h"
#include "base/mem.h"

struct migration {
	int version;
	const char *name;
	const char *text;
};

static const struct migration migrations[] = {
#include "store/migrations.inc"
};

static int64_t newest(void)
{
	return migrations[ARRAY_LEN(migrations) - 1].version;
}

static int read_version(struct db *db, int64_t *ret, struct err *err)
{
	int64_t exists;

	*ret = 0;
	if (db_query_int(db, "SELECT count(*) FROM sqlite_master WHERE name = 'schema_versions'",
	                 &exists, err) < 0)
		return -1;
	if (exists == 0)
		return 0;
	return db_query_int(db, "SELECT coalesce(max(version), 0) FROM schema_versions", ret, err);
}

static int refuse_newer(struct db *db, int64_t version, struct err *err)
{
	auto_free char *program = NULL;
	sqlite3_stmt *statement;
	int r;

	if (db_prepare(db, "SELECT program FROM schema_versions ORDER BY version DESC LIMIT 1",
	               NULL, 0, &statement, err) < 0)
		return -1;
	r = db_step(db, statement, err);
	if (r > 0)
		program = db_column_text(statement, 0);
	sqlite3_finalize(statement);
	if (r < 0)
		return -1;
	return err_set(err, ERR_UNSUPPORTED,
	               "the store %s was written by cloche %s (schema %lld); this is cloche %s, "
	               "which knows schema %lld: start the newer version",
	               db->path, program != NULL ? program : "?", (long long)version,
	               CLOCHE_VERSION, (long long)newest());
}

static int apply(struct db *db, const struct migration *migration, struct err *err)
{
	const struct value values[] = {
		value_int((uint64_t)migration->version),
		value_text(migration->name),
		value_int(io_real_ms()),
		value_text(CLOCHE_VERSION),
	};
	sqlite3_stmt *statement;
	int r;

	if (db_exec(db, migration->text, err) < 0)
		return -1;
	if (db_prepare(db,
	               "INSERT INTO schema_versions (version, name, applied_ms, program) "
	               "VALUES ($1, $2, $3, $4)",
	               values, ARRAY_LEN(values), &statement, err) < 0)
		return -1;
	r = db_step(db, statement, err);
	sqlite3_finalize(statement);
	return r;
}

static int migrate_one(struct db *db, const struct migration *migration, struct err *err)
{
	if (db_exec(db, "BEGIN IMMEDIATE", err) < 0)
		return -1;
	if (apply(db, migration, err) < 0 || db_exec(db, "COMMIT", err) < 0) {
		db_rollback(db);
		return err_wrap(err, "migration %s", migration->name);
	}
	return 0;
}

int migrate(struct db *db, struct err *err)
{
	return migrate_to(db, newest(), err);
}

int migrate_to(struct db *db, int64_t last, struct err *err)
{
	int64_t version;

	if (read_version(db, &version, err) < 0)
		return -1;
	if (version > newest())
		return refuse_newer(db, version, err);
	if (version == 0 &&
	    db_exec(db,
	            "CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY, "
	            "name TEXT NOT NULL, applied_ms BIGINT NOT NULL, program TEXT NOT NULL)",
	            err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(migrations); i++) {
		if (migrations[i].version > version && migrations[i].version <= last &&
		    migrate_one(db, &migrations[i], err) < 0)
			return -1;
	}
	return 0;
}
