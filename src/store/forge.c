#include "store/forge.h"

#include "store/store_impl.h"
#include "store/write.h"

int store_forge_sealed(struct store *store, const char *name, char **ret, struct err *err)
{
	const struct value values[] = {value_text(name)};
	sqlite3_stmt *row;
	int r;

	*ret = NULL;
	if (db_begin(&store->reader, SQL_FORGE_SEALED, values, 1, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r > 0) {
		*ret = db_column_text(row, 0);
		sqlite3_reset(row);
	}
	return r < 0 ? -1 : 0;
}

void store_seal_forge(struct store_write *write, const char *name, const char *sealed)
{
	write_add(write, SQL_FORGE_SEAL, value_text(name), value_text(sealed));
}
