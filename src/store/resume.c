#include "store/resume.h"

#include "base/mem.h"
#include "base/str.h"
#include "store/store_impl.h"
#include "store/write.h"

#define begin(store, sql, row, err, ...)                                                           \
	db_begin(&(store)->reader, sql, (const struct value[]){__VA_ARGS__},                       \
	         sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value), row, err)

void resume_done(struct resume *resume)
{
	mem_freep(&resume->runtime);
	mem_freep(&resume->image);
	mem_freep(&resume->branch);
	mem_freep(&resume->fingerprint);
}

static struct value value_id(const struct id *id)
{
	return value_text(id->text[0] != '\0' ? id->text : NULL);
}

void store_put_resume(struct store_write *write, const struct resume *resume)
{
	write_add(write, SQL_RESUME_PUT, value_text(resume->run.text),
	          value_text(resume->team.text), value_text(resume->sandbox.text),
	          value_text(resume->runtime), value_text(resume->image),
	          value_text(resume->branch), value_id(&resume->parent),
	          value_text(resume->fingerprint), value_int(resume->bytes),
	          value_int(resume->created_ms), value_int(resume->expires_ms));
}

void store_use_resume(struct store_write *write, const char *run, const char *by)
{
	struct op *op = write_add(write, SQL_RESUME_USE, value_text(by), value_text(run));

	op->if_none = ERR_CONFLICT;
	op->if_none_text = mem_strdup("another run goes on with these files, or they are gone");
}

void store_delete_resume(struct store_write *write, const char *run)
{
	write_add(write, SQL_RESUME_DELETE, value_text(run));
}

/* Columns in the order of RESUME_COLUMNS. */
static void take(sqlite3_stmt *row, struct resume *ret)
{
	*ret = (struct resume){
		.run = db_column_id(row, 0),
		.team = db_column_id(row, 1),
		.sandbox = db_column_id(row, 2),
		.runtime = db_column_text(row, 3),
		.image = db_column_text(row, 4),
		.branch = db_column_text(row, 5),
		.parent = db_column_id(row, 6),
		.fingerprint = db_column_text(row, 7),
		.bytes = db_column_int(row, 8),
		.created_ms = db_column_int(row, 9),
		.expires_ms = db_column_int(row, 10),
		.used_by = db_column_id(row, 11),
	};
}

int store_resume_get(struct store *store, const char *run, struct resume *ret, struct err *err)
{
	sqlite3_stmt *row;
	char shown[64];
	int r;

	if (begin(store, SQL_RESUME_GET, &row, err, value_text(run)) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r > 0) {
		take(row, ret);
		sqlite3_reset(row);
		return 0;
	}
	if (r < 0)
		return -1;
	str_escape(shown, sizeof(shown), run, strlen(run));
	return err_set(err, ERR_NOT_FOUND, "the files of run '%s' are not kept", shown);
}

/* How many there are, and what they take together. */
static int read_sums(struct store *store, uint64_t *ret_count, uint64_t *ret_bytes, struct err *err)
{
	static const struct value none[1];
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_RESUME_SUMS, none, 0, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, ERR_IO, "the store does not count");
	*ret_count = db_column_int(row, 0);
	*ret_bytes = db_column_int(row, 1);
	sqlite3_reset(row);
	return 0;
}

int store_resume_due(struct store *store, const struct resume_bounds *bounds, size_t limit,
                     struct resume_page *ret, struct err *err)
{
	struct resume_page page = {0};
	uint64_t count = 0, bytes = 0;
	sqlite3_stmt *row;
	int r;

	if (read_sums(store, &count, &bytes, err) < 0 ||
	    begin(store, SQL_RESUME_LIST, &row, err, value_int(limit)) < 0)
		return -1;
	page.items = mem_zalloc((limit + 1) * sizeof(*page.items));
	while ((r = db_step(&store->reader, row, err)) > 0) {
		struct resume *at = &page.items[page.count];
		bool is_too_much = (bounds->most > 0 && count > bounds->most) ||
		                   (bounds->bytes > 0 && bytes > bounds->bytes);

		take(row, at);
		page.count++;
		if (at->expires_ms > bounds->now_ms && (!is_too_much || at->used_by.text[0])) {
			resume_done(at);
			page.count--;
			if (!is_too_much)
				break;
		} else if (!at->used_by.text[0]) {
			count--;
			bytes -= at->bytes;
		}
	}
	sqlite3_reset(row);
	if (r < 0) {
		resume_page_done(&page);
		return -1;
	}
	*ret = page;
	return 0;
}

void resume_page_done(struct resume_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		resume_done(&page->items[i]);
	mem_freep(&page->items);
	page->count = 0;
}
