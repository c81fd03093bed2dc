/* Images and layers out of the store. */
#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"
#include "store/store_impl.h"

/* Columns in the order of IMAGE_COLUMNS. */
static struct image *take_image(sqlite3_stmt *row)
{
	struct image *image = mem_new(struct image);

	image->id = db_column_id(row, 0);
	image->name = db_column_text(row, 1);
	image->format = db_column_text(row, 2);
	image->config = db_column_text(row, 3);
	image->bytes = db_column_int(row, 4);
	image->entries = db_column_int(row, 5);
	image->created_ms = db_column_int(row, 6);
	image->owner = db_column_id(row, 7);
	image->team = db_column_id(row, 8);
	return image;
}

static int read_layers(struct store *store, struct image *image, struct err *err)
{
	const struct value values[] = {value_text(image->id.text)};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_IMAGE_LAYERS_GET, values, 1, &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0)
		strings_add(&image->layers, db_column_view(row, 0));
	return r;
}

int store_image_get(struct store *store, const char *id_or_name, struct image **ret,
                    struct err *err)
{
	const struct value values[] = {value_text(id_or_name)};
	auto_(image_freep) struct image *image = NULL;
	sqlite3_stmt *row;
	char shown[128];
	int r;

	if (db_begin(&store->reader, SQL_IMAGE_GET, values, 1, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r < 0)
		return -1;
	if (r == 0) {
		str_escape(shown, sizeof(shown), id_or_name, strlen(id_or_name));
		return err_set(err, ERR_NOT_FOUND, "no image '%s'", shown);
	}
	image = take_image(row);
	sqlite3_reset(row);
	if (read_layers(store, image, err) < 0)
		return -1;
	*ret = take_ptr(image);
	return 0;
}

static int read_page(struct store *store, const char *after, size_t limit, struct image_page *page,
                     struct err *err)
{
	const struct value values[] = {value_text(after), value_int(limit + 1)};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_IMAGE_LIST, values, 2, &row, err) < 0)
		return -1;
	page->items = mem_resize(NULL, limit + 1, sizeof(struct image *));
	while ((r = db_step(&store->reader, row, err)) > 0)
		page->items[page->count++] = take_image(row);
	if (r < 0)
		return -1;
	if (page->count > limit) {
		image_free(page->items[--page->count]);
		page->next_cursor = cursor_make(page->items[limit - 1]->name);
	}
	for (size_t i = 0; i < page->count; i++) {
		if (read_layers(store, page->items[i], err) < 0)
			return -1;
	}
	return 0;
}

int store_image_list(struct store *store, const char *cursor, size_t limit, struct image_page *ret,
                     struct err *err)
{
	auto_free char *after = NULL;
	struct image_page page = {0};

	if (cursor_check_limit(limit, &limit, err) < 0 || cursor_read(cursor, &after, err) < 0)
		return -1;
	if (read_page(store, after, limit, &page, err) < 0) {
		image_page_done(&page);
		return -1;
	}
	*ret = page;
	return 0;
}

void image_page_done(struct image_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		image_free(page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct image_page){0};
}

int store_layers_unused(struct store *store, struct strings *ret, struct err *err)
{
	struct strings layers = {0};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_LAYERS_UNUSED, NULL, 0, &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0)
		strings_add(&layers, db_column_view(row, 0));
	if (r < 0) {
		strings_done(&layers);
		return -1;
	}
	*ret = layers;
	return 0;
}
