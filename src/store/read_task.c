/* Tasks, runs, their journal and artifacts out of the store. */
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"
#include "store/pack.h"
#include "store/seal.h"
#include "store/store_impl.h"
#include "store/task.h"

#define begin(store, sql, row, err, ...)                                                           \
	db_begin(&(store)->reader, sql, (const struct value[]){__VA_ARGS__},                       \
	         sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value), row, err)

static int first(struct store *store, sqlite3_stmt *row, const char *what, const char *id,
                 struct err *err)
{
	int r = db_step(&store->reader, row, err);
	char shown[64];

	if (r != 0)
		return r < 0 ? -1 : 0;
	str_escape(shown, sizeof(shown), id, strlen(id));
	return err_set(err, ERR_NOT_FOUND, "no %s '%s'", what, shown);
}

/* --- tasks --- */

/* Columns in the order of TASK_COLUMNS. */
static int take_task(const struct store *store, sqlite3_stmt *row, struct task **ret,
                     struct err *err)
{
	auto_(task_freep) struct task *task = mem_new(struct task);

	task->id = db_column_id(row, 0);
	task->title = db_column_text(row, 1);
	task->instruction = db_column_text(row, 2);
	task->agent = db_column_text(row, 3);
	task->origin = db_column_text(row, 4);
	if (seal_open(store, "what was given", task->id.text, db_column_view(row, 5),
	              &task->choices, err) < 0)
		return -1;
	unpack_strings(db_column_view(row, 6), &task->labels);
	task->owner = db_column_id(row, 7);
	task->team = db_column_id(row, 8);
	if (!visibility_from(db_column_view(row, 9), &task->visibility))
		task->visibility = VISIBILITY_PRIVATE;
	task->created_ms = db_column_int(row, 10);
	task->run_count = db_column_int(row, 11);
	task->run = db_column_id(row, 12);
	task->made_by = db_column_text(row, 13);
	*ret = take_ptr(task);
	return 0;
}

int store_task_get(struct store *store, const char *id, struct task **ret, struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (begin(store, SQL_TASK_GET, &row, err, value_text(id)) < 0 ||
	    first(store, row, "task", id, err) < 0)
		return -1;
	r = take_task(store, row, ret, err);
	sqlite3_reset(row);
	return r;
}

/* By the index that has those in this state, where there is one. */
static enum sql list_of(const char *state)
{
	static const enum sql statements[] = {
		[RUN_PENDING] = SQL_TASK_LIST_OPEN,     [RUN_RUNNING] = SQL_TASK_LIST_OPEN,
		[RUN_COMPLETED] = SQL_TASK_LIST,        [RUN_FAILED] = SQL_TASK_LIST_FAILED,
		[RUN_CANCELLED] = SQL_TASK_LIST_FAILED,
	};
	enum run_state known = state != NULL ? run_state_from(state) : RUN_NONE;

	return known != RUN_NONE ? statements[known] : SQL_TASK_LIST;
}

int store_task_list(struct store *store, const struct task_filter *filter, struct task_page *ret,
                    struct err *err)
{
	const struct caller *viewer = filter->viewer;
	bool sees_all = viewer == NULL || viewer->is_operator;
	const char *low = filter->is_session ? TASK_SESSION_PREFIX "_" : TASK_PREFIX "_";
	const char *high = filter->is_session ? TASK_SESSION_PREFIX "_~" : TASK_PREFIX "_~";
	auto_free char *before = NULL;
	struct task_page page = {0};
	sqlite3_stmt *row;
	size_t limit;
	int r;

	if (cursor_check_limit(filter->limit, &limit, err) < 0 ||
	    cursor_read(filter->cursor, &before, err) < 0 ||
	    begin(store, list_of(filter->state), &row, err,
	          value_text(sees_all ? "" : viewer->team.text),
	          value_text(sees_all ? "" : viewer->principal.text),
	          value_int(!sees_all && viewer->role == ROLE_ADMIN),
	          value_text(*before && strcmp(before, high) < 0 ? before : high),
	          value_text(filter->state != NULL ? filter->state : ""), value_text(low),
	          value_int(limit + 1)) < 0)
		return -1;
	page.items = mem_resize(NULL, limit + 1, sizeof(struct task *));
	while ((r = db_step(&store->reader, row, err)) > 0) {
		r = take_task(store, row, &page.items[page.count], err);
		if (r < 0)
			break;
		page.count++;
	}
	sqlite3_reset(row);
	if (r < 0) {
		task_page_done(&page);
		return -1;
	}
	if (page.count > limit) {
		task_free(page.items[--page.count]);
		page.next_cursor = cursor_make(page.items[limit - 1]->id.text);
	}
	*ret = page;
	return 0;
}

void task_page_done(struct task_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		task_free(page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct task_page){0};
}

/* --- runs --- */

static void take_run_end(sqlite3_stmt *row, struct run *run)
{
	run->has_exit = sqlite3_column_type(row, 20) != SQLITE_NULL;
	run->exit_code = (int)db_column_int(row, 20);
	run->signal = (int)db_column_int(row, 21);
	run->input_tokens = db_column_int(row, 22);
	run->output_tokens = db_column_int(row, 23);
	unpack_meters(db_column_view(row, 24), &run->meters);
	run->cost = db_column_int(row, 25);
	run->log = db_column_text(row, 26);
	run->has_log_file = db_column_int(row, 27) != 0;
	run->output = db_column_text(row, 28);
	run->cached_tokens = db_column_int(row, 29);
	run->charged = db_column_int(row, 30);
	run->resume_from = db_column_id(row, 31);
	run->keeps = db_column_int(row, 32) != 0;
}

/* Columns in the order of RUN_COLUMNS. */
static int take_run(sqlite3_stmt *row, struct run **ret, struct err *err)
{
	struct run *run = mem_new(struct run);

	run->id = db_column_id(row, 0);
	run->task = db_column_id(row, 1);
	run->team = db_column_id(row, 2);
	run->number = db_column_int(row, 3);
	run->priority = db_column_int(row, 4);
	run->state = run_state_from(db_column_view(row, 5));
	run->end = run_end_from(db_column_view(row, 7));
	if (run->state == RUN_NONE || !run_step_from(db_column_view(row, 6), &run->step)) {
		run_free(run);
		return err_set(err, ERR_IO, "the store has a run in no state we know");
	}
	run->detail = db_column_text(row, 8);
	run->sandbox = db_column_id(row, 9);
	run->exec = db_column_id(row, 10);
	run->token = db_column_id(row, 11);
	run->parent = db_column_id(row, 12);
	unpack_strings(db_column_view(row, 13), &run->rights);
	run->budget =
		sqlite3_column_type(row, 14) == SQLITE_NULL ? UINT64_MAX : db_column_int(row, 14);
	run->timeout_ms = db_column_int(row, 15);
	run->idle_ms = db_column_int(row, 16);
	run->created_ms = db_column_int(row, 17);
	run->started_ms = db_column_int(row, 18);
	run->ended_ms = db_column_int(row, 19);
	take_run_end(row, run);
	*ret = run;
	return 0;
}

int store_run_get(struct store *store, const char *id, struct run **ret, struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (begin(store, SQL_RUN_GET, &row, err, value_text(id)) < 0 ||
	    first(store, row, "run", id, err) < 0)
		return -1;
	r = take_run(row, ret, err);
	sqlite3_reset(row);
	return r;
}

/* Reads limit rows and sees whether there is one more, which it drops. */
static int read_runs(struct store *store, sqlite3_stmt *row, size_t limit, struct run_page *page,
                     bool *ret_more, struct err *err)
{
	int r;

	page->items = mem_resize(NULL, limit + 1, sizeof(struct run *));
	while ((r = db_step(&store->reader, row, err)) > 0) {
		if (take_run(row, &page->items[page->count], err) < 0) {
			sqlite3_reset(row);
			return -1;
		}
		page->count++;
	}
	*ret_more = r == 0 && page->count > limit;
	if (*ret_more)
		run_free(page->items[--page->count]);
	return r;
}

static void name_next(struct run_page *page)
{
	char number[24];

	(void)snprintf(number, sizeof(number), "%llu",
	               (unsigned long long)page->items[page->count - 1]->number);
	page->next_cursor = cursor_make(number);
}

int store_run_list(struct store *store, const char *task, const char *cursor, size_t limit,
                   struct run_page *ret, struct err *err)
{
	auto_free char *after = NULL;
	struct run_page page = {0};
	uint64_t number = 0;
	sqlite3_stmt *row;
	bool more = false;

	if (cursor_check_limit(limit, &limit, err) < 0 || cursor_read(cursor, &after, err) < 0)
		return -1;
	if (*after != '\0' && str_to_u64(after, &number) < 0)
		return err_set(err, ERR_INVALID, "'cursor' is not one of ours");
	if (begin(store, SQL_RUN_LIST, &row, err, value_text(task), value_int(number),
	          value_int(limit + 1)) < 0 ||
	    read_runs(store, row, limit, &page, &more, err) < 0) {
		run_page_done(&page);
		return -1;
	}
	if (more)
		name_next(&page);
	*ret = page;
	return 0;
}

int store_run_unfinished(struct store *store, const char *after, size_t limit, struct run_page *ret,
                         struct err *err)
{
	struct run_page page = {0};
	sqlite3_stmt *row;
	bool more = false;

	if (begin(store, SQL_RUN_UNFINISHED, &row, err, value_text(after), value_int(limit + 1)) <
	            0 ||
	    read_runs(store, row, limit, &page, &more, err) < 0) {
		run_page_done(&page);
		return -1;
	}
	if (more)
		page.next_cursor = mem_strdup(page.items[page.count - 1]->id.text);
	*ret = page;
	return 0;
}

void run_page_done(struct run_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		run_free(page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct run_page){0};
}

int store_run_agent_get(struct store *store, const char *run, char **ret, struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_RUN_AGENT_GET, &row, err, value_text(run)) < 0 ||
	    first(store, row, "agent of run", run, err) < 0)
		return -1;
	*ret = db_column_text(row, 0);
	sqlite3_reset(row);
	return 0;
}

int store_run_git_get(struct store *store, const char *run, char **ret, struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_RUN_GIT_GET, &row, err, value_text(run)) < 0 ||
	    first(store, row, "repository of run", run, err) < 0)
		return -1;
	*ret = db_column_text(row, 0);
	sqlite3_reset(row);
	return 0;
}

int store_run_steps(struct store *store, const char *run, struct progress_list *ret,
                    struct err *err)
{
	sqlite3_stmt *row;
	int r;

	if (begin(store, SQL_RUN_STEPS, &row, err, value_text(run)) < 0)
		return -1;
	r = db_step(&store->reader, row, err);
	if (r < 0)
		return -1;
	ret->count = r > 0 ? unpack_steps(db_column_view(row, 0), ret->items) : 0;
	sqlite3_reset(row);
	return 0;
}

void progress_list_done(struct progress_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		run_progress_done(&list->items[i]);
	*list = (struct progress_list){0};
}

/* --- artifacts --- */

static void take_artifact(sqlite3_stmt *row, struct artifact *ret)
{
	*ret = (struct artifact){
		.id = db_column_id(row, 0),
		.task = db_column_id(row, 1),
		.run = db_column_id(row, 2),
		.name = db_column_text(row, 3),
		.content_type = db_column_text(row, 4),
		.bytes = db_column_int(row, 5),
		.sha256 = db_column_text(row, 6),
		.created_ms = db_column_int(row, 7),
	};
}

void artifact_done(struct artifact *artifact)
{
	free(artifact->name);
	free(artifact->content_type);
	free(artifact->sha256);
	*artifact = (struct artifact){0};
}

int store_artifact_get(struct store *store, const char *id, struct artifact *ret, struct err *err)
{
	sqlite3_stmt *row;

	if (begin(store, SQL_ARTIFACT_GET, &row, err, value_text(id)) < 0 ||
	    first(store, row, "artifact", id, err) < 0)
		return -1;
	take_artifact(row, ret);
	sqlite3_reset(row);
	return 0;
}

int store_artifact_old(struct store *store, uint64_t before_ms, size_t limit,
                       struct artifact_page *ret, struct err *err)
{
	struct artifact_page page = {0};
	sqlite3_stmt *row;
	int r;

	if (begin(store, SQL_ARTIFACT_OLD, &row, err, value_int(before_ms), value_int(limit)) < 0)
		return -1;
	page.items = mem_resize(NULL, limit, sizeof(*page.items));
	while ((r = db_step(&store->reader, row, err)) > 0)
		take_artifact(row, &page.items[page.count++]);
	if (r < 0)
		artifact_page_done(&page);
	else
		*ret = page;
	return r;
}

int store_artifact_list(struct store *store, const char *task, const char *cursor, size_t limit,
                        struct artifact_page *ret, struct err *err)
{
	auto_free char *after = NULL;
	struct artifact_page page = {0};
	sqlite3_stmt *row;
	int r;

	if (cursor_check_limit(limit, &limit, err) < 0 || cursor_read(cursor, &after, err) < 0 ||
	    begin(store, SQL_ARTIFACT_LIST, &row, err, value_text(task), value_text(after),
	          value_int(limit + 1)) < 0)
		return -1;
	page.items = mem_resize(NULL, limit + 1, sizeof(*page.items));
	while ((r = db_step(&store->reader, row, err)) > 0)
		take_artifact(row, &page.items[page.count++]);
	if (page.count > limit) {
		artifact_done(&page.items[--page.count]);
		page.next_cursor = cursor_make(page.items[limit - 1].id.text);
	}
	if (r < 0)
		artifact_page_done(&page);
	else
		*ret = page;
	return r;
}

void artifact_page_done(struct artifact_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		artifact_done(&page->items[i]);
	free(page->items);
	free(page->next_cursor);
	*page = (struct artifact_page){0};
}
