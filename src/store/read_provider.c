/* Providers of models out of the store. */
#include <stdlib.h>

#include "base/mem.h"
#include "store/pack.h"
#include "store/provider.h"
#include "store/store_impl.h"

/* Columns in the order of PROVIDER_COLUMNS. */
static int take_provider(sqlite3_stmt *row, struct provider **ret, struct err *err)
{
	auto_(provider_freep) struct provider *provider = provider_new(db_column_view(row, 1));

	provider->id = db_column_id(row, 0);
	provider->base_url = db_column_text(row, 3);
	provider->secret = db_column_text(row, 4);
	provider->default_model = db_column_text(row, 5);
	unpack_strings(db_column_view(row, 6), &provider->models);
	unpack_strings(db_column_view(row, 7), &provider->aliases);
	unpack_strings(db_column_view(row, 8), &provider->prices);
	if (provider_kind_parse(db_column_view(row, 2), &provider->kind, err) < 0 ||
	    !visibility_from(db_column_view(row, 9), &provider->visibility))
		return err_set(err, ERR_IO, "the store has provider %s with words we do not know",
		               provider->name);
	provider->owner = db_column_text(row, 10);
	provider->team = db_column_text(row, 11);
	provider->created_ms = provider->updated_ms = db_column_int(row, 12);
	*ret = take_ptr(provider);
	return 0;
}

int store_provider_list(struct store *store, struct provider ***ret, size_t *ret_count,
                        struct err *err)
{
	struct provider **list = NULL;
	sqlite3_stmt *row;
	size_t count = 0;
	int r;

	if (db_begin(&store->reader, SQL_PROVIDER_LIST, NULL, 0, &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0) {
		list = mem_resize(list, count + 1, sizeof(struct provider *));
		if (take_provider(row, &list[count], err) < 0) {
			sqlite3_reset(row);
			r = -1;
			break;
		}
		count++;
	}
	if (r < 0) {
		for (size_t i = 0; i < count; i++)
			provider_free(list[i]);
		free(list);
		return -1;
	}
	*ret = list;
	*ret_count = count;
	return 0;
}

int store_provider_sealed(struct store *store, const char *id, char **ret, struct err *err)
{
	const struct value values[] = {value_text(id)};
	sqlite3_stmt *row;
	int r;

	*ret = NULL;
	if (db_begin(&store->reader, SQL_PROVIDER_SEALED, values, 1, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r > 0) {
		*ret = db_column_text(row, 0);
		sqlite3_reset(row);
	}
	return r < 0 ? -1 : 0;
}
