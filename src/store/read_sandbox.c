/* Sandboxes out of the store. Rows are foreign bytes as far as words go: a state that this
 * version does not know is an error, not an abort. */
#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "store/cursor.h"
#include "store/pack.h"
#include "store/seal.h"
#include "store/store_impl.h"
#include "store/write.h"

enum { VALUES_MOST = SANDBOX_STATE_COUNT_ + 2 * LIMIT_LABELS + 8, QUERY_BYTES = 64 * 1024 };

/* What write_scoped_name made of a name, back. */
static char *plain_name(const char *column)
{
	const char *slash = strchr(column, '/');

	return *column == '\0' ? NULL : mem_strdup(slash != NULL ? slash + 1 : column);
}

/* Columns in the order of SANDBOX_COLUMNS. */
static void take_spec(sqlite3_stmt *row, struct spec *spec)
{
	spec->name = plain_name(db_column_view(row, 1));
	spec->profile = db_column_text(row, 3);
	spec->runtime = db_column_text(row, 4);
	spec->image = db_column_text(row, 5);
	spec->user = db_column_text(row, 7);
	spec->cwd = db_column_text(row, 8);
	spec->hostname = db_column_text(row, 9);
	spec->disk_backend = db_column_text(row, 10);
	spec->network = db_column_text(row, 11);
	unpack_limits(db_column_view(row, 13), &spec->limits);
	spec->ttl_ms = db_column_int(row, 14);
	spec->degraded = db_column_int(row, 15) != 0;
}

static int take_env(const struct store *store, sqlite3_stmt *row, struct sandbox *sandbox,
                    struct err *err)
{
	auto_free char *env = NULL;

	if (seal_open(store, "variables", sandbox->id.text, db_column_view(row, 12), &env, err) < 0)
		return -1;
	unpack_strings(env, &sandbox->spec.env);
	return 0;
}

static int take_sandbox(const struct store *store, sqlite3_stmt *row, struct sandbox **ret,
                        struct err *err)
{
	auto_(sandbox_freep) struct sandbox *sandbox = mem_new(struct sandbox);

	sandbox->id = db_column_id(row, 0);
	sandbox->state = sandbox_state_from(db_column_view(row, 2));
	if (sandbox->state == SANDBOX_NONE)
		return err_set(err, ERR_IO, "the store has sandbox %s in no state we know",
		               sandbox->id.text);
	take_spec(row, &sandbox->spec);
	if (take_env(store, row, sandbox, err) < 0)
		return -1;
	sandbox->image_id = db_column_id(row, 6);
	sandbox->created_ms = db_column_int(row, 16);
	sandbox->started_ms = db_column_int(row, 17);
	sandbox->ended_ms = db_column_int(row, 18);
	sandbox->expires_ms = db_column_int(row, 19);
	sandbox->end_reason = db_column_text(row, 20);
	sandbox->detail = db_column_text(row, 21);
	sandbox->is_degraded = db_column_int(row, 22) != 0;
	unpack_strings(db_column_view(row, 23), &sandbox->mechanisms);
	unpack_meters(db_column_view(row, 24), &sandbox->meters);
	unpack_network(db_column_view(row, 25), sandbox);
	sandbox->spec.owner = db_column_text(row, 26);
	sandbox->spec.team = db_column_text(row, 27);
	sandbox->spec.made_by = db_column_text(row, 29);
	if (!visibility_from(db_column_view(row, 28), &sandbox->spec.visibility))
		return err_set(err, ERR_IO, "the store has sandbox %s of no visibility we know",
		               sandbox->id.text);
	*ret = take_ptr(sandbox);
	return 0;
}

static int read_labels(struct store *store, struct sandbox *sandbox, struct err *err)
{
	const struct value values[] = {value_text(sandbox->id.text)};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_LABELS_GET, values, 1, &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0)
		strings_take(&sandbox->spec.labels,
		             mem_printf("%s=%s", db_column_view(row, 0), db_column_view(row, 1)));
	return r;
}

static int read_mounts(struct store *store, struct sandbox *sandbox, struct err *err)
{
	const struct value values[] = {value_text(sandbox->id.text)};
	sqlite3_stmt *row;
	int r;

	if (db_begin(&store->reader, SQL_MOUNTS_GET, values, 1, &row, err) < 0)
		return -1;
	while ((r = db_step(&store->reader, row, err)) > 0)
		spec_add_mount(&sandbox->spec, db_column_view(row, 0), db_column_view(row, 1),
		               db_column_view(row, 2), db_column_int(row, 3) != 0);
	return r;
}

static int read_lists(struct store *store, struct sandbox *sandbox, struct err *err)
{
	return read_labels(store, sandbox, err) < 0 ? -1 : read_mounts(store, sandbox, err);
}

int store_sandbox_get(struct store *store, const char *id_or_name, struct sandbox **ret,
                      struct err *err)
{
	return store_sandbox_find(store, NULL, id_or_name, ret, err);
}

int store_sandbox_find(struct store *store, const char *team, const char *id_or_name,
                       struct sandbox **ret, struct err *err)
{
	bool is_id = id_is_valid(id_or_name, "sb");
	auto_free char *key = is_id ? mem_strdup(id_or_name) : write_scoped_name(team, id_or_name);
	const struct value values[] = {value_text(strchr(id_or_name, '/') ? "" : key)};
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	sqlite3_stmt *row;
	char shown[2 * LIMIT_NAME_LEN];
	int r;

	if (db_begin(&store->reader, SQL_SANDBOX_GET, values, 1, &row, err) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r > 0) {
		r = take_sandbox(store, row, &sandbox, err);
		sqlite3_reset(row);
	} else if (r == 0) {
		str_escape(shown, sizeof(shown), id_or_name, strlen(id_or_name));
		return err_set(err, ERR_NOT_FOUND, "no sandbox '%s'", shown);
	}
	if (r < 0 || read_lists(store, sandbox, err) < 0)
		return -1;
	*ret = take_ptr(sandbox);
	return 0;
}

enum sandbox_state store_sandbox_state(struct store *store, const char *id, struct err *err)
{
	const struct value values[] = {value_text(id)};
	enum sandbox_state state = SANDBOX_NONE;
	sqlite3_stmt *row;

	if (db_begin(&store->reader, SQL_SANDBOX_STATE, values, 1, &row, err) < 0 ||
	    db_step(&store->reader, row, err) <= 0)
		return SANDBOX_NONE;
	state = sandbox_state_from(db_column_view(row, 0));
	sqlite3_reset(row);
	return state;
}

/* A query that grows condition by condition, with its values. */
struct query {
	struct buf text;
	struct value values[VALUES_MOST];
	size_t count;
};

/* Adds a value and returns the number of its parameter. */
static int add_value(struct query *query, struct value value)
{
	must(query->count < VALUES_MOST);
	query->values[query->count++] = value;
	return (int)query->count;
}

static void add_states(struct query *query, uint32_t states)
{
	const char *separator = " AND state IN (";

	if (states == 0)
		return;
	for (int state = 0; state < SANDBOX_STATE_COUNT_; state++) {
		const char *name = sandbox_state_name((enum sandbox_state)state);

		if ((states & 1U << state) == 0)
			continue;
		must(buf_printf(&query->text, "%s$%d", separator,
		                add_value(query, value_text(name))) == 0);
		separator = ", ";
	}
	must(buf_puts(&query->text, ")") == 0);
}

/* `label` is key=value; key and value are copied to *keys, which must outlive the query. */
static void add_label(struct query *query, const char *label, struct strings *keys)
{
	const char *equals = strchr(label, '=');
	size_t len = equals != NULL ? (size_t)(equals - label) : strlen(label);
	int key;

	strings_take(keys, mem_strndup(label, len));
	key = add_value(query, value_text(keys->items[keys->count - 1]));
	must(buf_printf(&query->text,
	                " AND EXISTS (SELECT 1 FROM sandbox_labels WHERE sandbox_id = sandboxes.id "
	                "AND label_key = $%d AND label_value = $%d)",
	                key, add_value(query, value_text(equals != NULL ? equals + 1 : ""))) == 0);
}

/* As model/access.h has it: what this caller may look at. */
static void add_viewer(struct query *query, const struct caller *viewer)
{
	int team = add_value(query, value_text(viewer->team.text));
	bool is_admin = viewer->role == ROLE_ADMIN;

	must(buf_printf(&query->text, " AND (visibility = 'global' OR (team_id = $%d", team) == 0);
	if (!is_admin)
		must(buf_printf(&query->text, " AND (visibility = 'team' OR owner_id = $%d)",
		                add_value(query, value_text(viewer->principal.text))) == 0);
	must(buf_puts(&query->text, "))") == 0);
}

/* Made on this credential, or below it. */
static void add_maker(struct query *query, const char *credential, struct strings *keys)
{
	strings_take(keys, mem_printf("%% %s %%", credential));
	must(buf_printf(&query->text, " AND (' ' || coalesce(made_by, '') || ' ') LIKE $%d",
	                add_value(query, value_text(keys->items[keys->count - 1]))) == 0);
}

static int build_query(struct query *query, const struct sandbox_filter *filter,
                       struct strings *keys, struct err *err)
{
	if (filter->labels != NULL && filter->labels->count > LIMIT_LABELS)
		return err_set(err, ERR_INVALID, "%zu labels are more than %d",
		               filter->labels->count, LIMIT_LABELS);
	if (filter->states >> SANDBOX_STATE_COUNT_ != 0)
		return err_set(err, ERR_INVALID, "no such state");
	add_states(query, filter->states);
	if (filter->name != NULL) {
		strings_take(keys,
		             write_scoped_name(filter->viewer ? filter->viewer->team.text : NULL,
		                               filter->name));
		must(buf_printf(&query->text, " AND name = $%d",
		                add_value(query, value_text(keys->items[keys->count - 1]))) == 0);
	}
	if (filter->viewer != NULL && !filter->viewer->is_operator)
		add_viewer(query, filter->viewer);
	if (filter->viewer != NULL && filter->viewer->run.text[0])
		add_maker(query, filter->viewer->credential.text, keys);
	if (filter->made_by != NULL)
		add_maker(query, filter->made_by, keys);
	if (filter->hides_kept)
		must(buf_puts(&query->text,
		              " AND NOT EXISTS (SELECT 1 FROM resumes WHERE sandbox_id = "
		              "sandboxes.id AND used_by IS NULL)") == 0);
	if (filter->image != NULL) {
		int image = add_value(query, value_text(filter->image));

		must(buf_printf(&query->text, " AND (image = $%d OR image_id = $%d)", image,
		                image) == 0);
	}
	for (size_t i = 0; filter->labels != NULL && i < filter->labels->count; i++)
		add_label(query, filter->labels->items[i], keys);
	return 0;
}

/* Rows of the page, without labels and mounts. One row more than asked for tells of a next page. */
static int read_rows(struct store *store, struct query *query, size_t limit,
                     struct sandbox_page *page, struct err *err)
{
	auto_free char *text = buf_take_string(&query->text);
	sqlite3_stmt *row;
	int r;

	if (db_prepare(&store->reader, text, query->values, query->count, &row, err) < 0)
		return -1;
	page->items = mem_resize(NULL, limit + 1, sizeof(struct sandbox *));
	while ((r = db_step(&store->reader, row, err)) > 0) {
		if (take_sandbox(store, row, &page->items[page->count], err) < 0) {
			r = -1;
			break;
		}
		page->count++;
	}
	sqlite3_finalize(row);
	return r;
}

static int list_page(struct store *store, struct query *query, size_t limit,
                     struct sandbox_page *page, struct err *err)
{
	if (read_rows(store, query, limit, page, err) < 0)
		return -1;
	if (page->count > limit) {
		sandbox_free(page->items[--page->count]);
		page->next_cursor = cursor_make(page->items[limit - 1]->id.text);
	}
	for (size_t i = 0; i < page->count; i++) {
		if (read_lists(store, page->items[i], err) < 0)
			return -1;
	}
	return 0;
}

int store_sandbox_list(struct store *store, const struct sandbox_filter *filter,
                       struct sandbox_page *ret, struct err *err)
{
	auto_free char *after = NULL;
	struct sandbox_page page = {0};
	struct query query = {0};
	struct strings keys = {0};
	size_t limit = 0;
	int r = -1;

	buf_init(&query.text, QUERY_BYTES);
	must(buf_puts(&query.text, db_text(SQL_SANDBOX_LIST)) == 0);
	if (cursor_check_limit(filter->limit, &limit, err) == 0 &&
	    cursor_read(filter->cursor, &after, err) == 0) {
		add_value(&query, value_text(after));
		r = build_query(&query, filter, &keys, err);
	}
	if (r == 0) {
		must(buf_printf(&query.text, " ORDER BY id LIMIT $%d",
		                add_value(&query, value_int(limit + 1))) == 0);
		r = list_page(store, &query, limit, &page, err);
	}
	if (r == 0)
		*ret = page;
	else
		sandbox_page_done(&page);
	strings_done(&keys);
	buf_done(&query.text);
	return r;
}

void sandbox_page_done(struct sandbox_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		sandbox_free(page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct sandbox_page){0};
}
