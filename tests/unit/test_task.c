/* States of a run, its log, and its rows in the store. */
#include "harness/test.h"

#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "store/cursor.h"
#include "store/identity.h"
#include "store/store_impl.h"
#include "store/task.h"
#include "task/agent.h"
#include "task/cost.h"
#include "task/log.h"
#include "task/redact.h"

static struct err err;

#define OK(call)                                                                                   \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			test_fail(__FILE__, __LINE__, "%s: %s", #call, err.msg);                   \
	} while (0)

/* --- states --- */

TEST(final_states_are_final)
{
	for (int state = 0; state < RUN_STATE_COUNT_; state++) {
		for (int event = 0; event < RUN_EVENT_COUNT_; event++) {
			enum run_state next = RUN_NONE;
			int r = run_apply((enum run_state)state, (enum run_event)event, &next,
			                  &err);

			if (run_is_over((enum run_state)state))
				CHECK_INT(r, -1);
			if (r == 0)
				CHECK(next != RUN_PENDING && next != (enum run_state)state);
		}
	}
}

TEST(every_end_can_be_reached_from_running)
{
	for (int end = 0; end < RUN_END_COUNT_; end++) {
		enum run_state next = RUN_NONE;

		OK(run_apply(RUN_RUNNING, run_end_event((enum run_end)end), &next, &err));
		CHECK(run_is_over(next));
		CHECK_INT(run_end_from(run_end_name((enum run_end)end)), end);
	}
	CHECK_INT(run_end_of_exec("exited", 0, 0), RUN_END_FINISHED);
	CHECK_INT(run_end_of_exec("exited", 0, 1), RUN_END_AGENT_ERROR);
	CHECK_INT(run_end_of_exec("signal", 9, 0), RUN_END_AGENT_ERROR);
	CHECK_INT(run_end_of_exec("timeout", 9, 0), RUN_END_TIMEOUT);
	CHECK_INT(run_end_of_exec("oom", 9, 0), RUN_END_OOM);
	CHECK_INT(run_end_of_exec("lost", 9, 0), RUN_END_SANDBOX_LOST);
}

TEST(money_is_what_was_used)
{
	struct config_rates rates = {30, 20, 4, 3600, 7};
	struct meters meters = {.uptime_ms = 300 * 1000,
	                        .cpu_us = 10 * 1000000ull,
	                        .memory_byte_seconds = 300ull << 30,
	                        .disk_byte_seconds = 11ull << 30,
	                        .net_sent_bytes = 1ull << 30,
	                        .net_received_bytes = 2ull << 30};

	CHECK_INT(cost_of(&rates, &meters), 300 * 30 + 10 * 20 + 300 * 4 + 11 + 21);
}

/* --- logs --- */

static bool keep(char stream, const uint8_t *bytes, size_t len, void *ctx)
{
	struct buf *buf = ctx;

	CHECK_INT(buf_printf(buf, "%c", stream), 0);
	CHECK_INT(buf_put(buf, bytes, len), 0);
	return true;
}

static void write_log(int dir_fd, size_t long_bytes, char **ret)
{
	auto_free char *bytes = mem_zalloc(long_bytes + 1);
	struct redact *redact = redact_new();
	struct log_writer writer;

	memset(bytes, 'z', long_bytes);
	log_writer_init(&writer, dir_fd, "rn_1", redact);
	OK(log_writer_put(&writer, '1', "one\n", 4, &err));
	OK(log_writer_put(&writer, '2', "two\n", 4, &err));
	OK(log_writer_put(&writer, '1', bytes, long_bytes, &err));
	OK(log_writer_finish(&writer, ret, &err));
	log_writer_done(&writer);
	redact_free(redact);
}

TEST(a_short_log_is_a_text)
{
	int dir_fd = test_dir_fd();
	char *text = NULL, *got;
	struct buf buf;

	write_log(dir_fd, 2, &text);
	buf_init(&buf, 1000);
	OK(log_read(dir_fd, "rn_1", text, keep, &buf, &err));
	got = buf_take_string(&buf);
	CHECK_STR(got, "1one\n2two\n1zz");
	free(got);
	free(text);
	buf_done(&buf);
	close(dir_fd);
}

TEST(a_long_log_is_a_file)
{
	int dir_fd = test_dir_fd();
	char *text = NULL;
	struct buf buf;

	write_log(dir_fd, 100000, &text);
	CHECK(text == NULL);
	buf_init(&buf, 1000000);
	OK(log_read(dir_fd, "rn_1", NULL, keep, &buf, &err));
	CHECK_INT(buf_len(&buf), 100000 + 11);
	buf_done(&buf);
	log_remove(dir_fd, "rn_1");
	CHECK_INT(log_read(dir_fd, "rn_1", NULL, keep, &buf, &err), -1);
	close(dir_fd);
}

TEST(a_damaged_log_is_refused)
{
	struct buf buf;

	buf_init(&buf, 1000);
	CHECK_INT(log_read(-1, "rn_1", "no base64!", keep, &buf, &err), -1);
	CHECK_INT(log_read(-1, "rn_1", "MQAA", keep, &buf, &err), -1);
	CHECK_INT(log_read(-1, "rn_1", "Mf////8=", keep, &buf, &err), -1);
	buf_done(&buf);
}

/* --- rows --- */

static struct store *open_store(void)
{
	char path[4096];
	struct store_options options = {.path = path};
	struct store *store = NULL;

	snprintf(path, sizeof(path), "%s/cloche.db", test_dir());
	OK(store_open(&options, &store, &err));
	return store;
}

static struct task *add_task(struct store *store, const char *title)
{
	struct store_write *write = store_write_new(store);
	struct task *task = task_new();

	task->title = mem_strdup(title);
	task->instruction = mem_strdup("true");
	task->agent = mem_strdup("shell");
	task->choices = mem_strdup("{}");
	strings_add(&task->labels, "a=b");
	snprintf(task->owner.text, sizeof(task->owner.text), "%s", ACCESS_OPERATOR);
	snprintf(task->team.text, sizeof(task->team.text), "%s", ACCESS_TEAM);
	task->created_ms = 5;
	store_add_task(write, task);
	OK(store_write_wait(write, NULL, &err));
	return task;
}

static int add_run(struct store *store, const struct run *run)
{
	struct store_write *write = store_write_new(store);

	store_add_run(write, run);
	return store_write_wait(write, NULL, &err);
}

TEST(a_run_comes_back_as_it_was_stored)
{
	struct store *store = open_store();
	struct task *task = add_task(store, "one"), *same = NULL;
	struct run *run = run_new(task, 7), *back = NULL;

	run->timeout_ms = 1000;
	run->priority = 3;
	strings_add(&run->rights, "x=y");
	OK(add_run(store, run));
	OK(store_task_get(store, task->id.text, &same, &err));
	CHECK_STR(same->run.text, run->id.text);
	CHECK_INT(same->run_count, 1);
	CHECK_STR(strings_value(&same->labels, "a"), "b");
	OK(store_run_get(store, run->id.text, &back, &err));
	CHECK_INT(back->budget, UINT64_MAX);
	CHECK_INT(back->end, RUN_END_NONE);
	CHECK_INT(back->has_exit, false);
	CHECK_INT(back->priority, 3);
	CHECK_STR(strings_value(&back->rights, "x"), "y");
	run_free(back);
	task_free(same);
	run_free(run);
	task_free(task);
	store_close(store);
}

TEST(two_runs_at_one_moment_are_one)
{
	struct store *store = open_store();
	struct task *task = add_task(store, "one");
	struct run *one = run_new(task, 7), *two = run_new(task, 7);

	OK(add_run(store, one));
	CHECK_INT(add_run(store, two), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	run_free(one);
	run_free(two);
	task_free(task);
	store_close(store);
}

TEST(a_run_that_is_over_never_changes)
{
	struct store *store = open_store();
	struct task *task = add_task(store, "one");
	struct run *run = run_new(task, 7);
	struct run_page page = {0};
	struct store_write *write;

	OK(add_run(store, run));
	OK(store_run_unfinished(store, "", 10, &page, &err));
	CHECK_INT(page.count, 1);
	run_page_done(&page);
	run->state = RUN_COMPLETED;
	run->end = RUN_END_FINISHED;
	run->ended_ms = 9;
	write = store_write_new(store);
	store_put_run(write, run, NULL);
	OK(store_write_wait(write, NULL, &err));
	run->state = RUN_FAILED;
	write = store_write_new(store);
	store_put_run(write, run, NULL);
	CHECK_INT(store_write_wait(write, NULL, &err), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	write = store_write_new(store);
	store_set_output(write, run->id.text, "{}");
	CHECK_INT(store_write_wait(write, NULL, &err), -1);
	OK(store_run_unfinished(store, "", 10, &page, &err));
	CHECK_INT(page.count, 0);
	run_page_done(&page);
	run_free(run);
	task_free(task);
	store_close(store);
}

TEST(tasks_are_listed_newest_first_and_by_who_sees_them)
{
	struct store *store = open_store();
	struct caller stranger = {.team = id_new("tm"), .principal = id_new("pr")};
	struct task_filter filter = {.limit = 2};
	struct task_page page = {0};
	struct task *tasks[3];

	for (int i = 0; i < 3; i++) {
		tasks[i] = add_task(store, "t");
		usleep(2000); /* ids are of milliseconds */
	}
	OK(store_task_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 2);
	CHECK_STR(page.items[0]->id.text, tasks[2]->id.text);
	filter.cursor = page.next_cursor;
	page.next_cursor = NULL;
	task_page_done(&page);
	OK(store_task_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 1);
	CHECK_STR(page.items[0]->id.text, tasks[0]->id.text);
	free((char *)filter.cursor);
	task_page_done(&page);
	filter = (struct task_filter){.viewer = &stranger};
	OK(store_task_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 0);
	task_page_done(&page);
	for (int i = 0; i < 3; i++)
		task_free(tasks[i]);
	store_close(store);
}

/* Sessions sort before tasks: a list of them does not walk through those, whatever cursor it has.
 */
TEST(sessions_and_tasks_are_lists_of_their_own)
{
	struct store *store = open_store();
	struct task *task = add_task(store, "t");
	struct task *session = task_new();
	struct store_write *write = store_write_new(store);
	struct task_filter filter = {.is_session = true, .limit = 1};
	struct task_page page = {0};
	auto_free char *plan = NULL;
	sqlite3_stmt *row;

	session->id = id_new(TASK_SESSION_PREFIX);
	session->title = mem_strdup("s");
	session->instruction = mem_strdup("");
	session->agent = mem_strdup("shell");
	session->choices = mem_strdup("{}");
	store_add_task(write, session);
	OK(store_write_wait(write, NULL, &err));
	for (int i = 0; i < 2; i++) {
		OK(store_task_list(store, &filter, &page, &err));
		CHECK_INT(page.count, 1);
		CHECK_STR(page.items[0]->id.text, session->id.text);
		task_page_done(&page);
		filter.cursor = filter.cursor ? filter.cursor : cursor_make(task->id.text);
	}
	filter.is_session = false;
	OK(store_task_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 0); /* none is older */
	task_page_done(&page);
	plan = mem_printf("EXPLAIN QUERY PLAN %s", db_text(SQL_TASK_LIST));
	CHECK_INT(sqlite3_prepare_v2(store->reader.handle, plan, -1, &row, NULL), SQLITE_OK);
	CHECK_INT(sqlite3_step(row), SQLITE_ROW);
	CHECK_HAS((const char *)sqlite3_column_text(row, 3), "(id>? AND id<?)");
	sqlite3_finalize(row);
	free((char *)filter.cursor);
	task_free(session);
	task_free(task);
	store_close(store);
}

static void check_plan(struct store *store, enum sql sql, const char *wanted)
{
	auto_free char *text = mem_printf("EXPLAIN QUERY PLAN %s", db_text(sql));
	bool is_there = false;
	sqlite3_stmt *row;

	CHECK_INT(sqlite3_prepare_v2(store->reader.handle, text, -1, &row, NULL), SQLITE_OK);
	while (sqlite3_step(row) == SQLITE_ROW) {
		const char *line = (const char *)sqlite3_column_text(row, 3);

		is_there = is_there || strstr(line, wanted);
		CHECK(!strstr(line, "TEMP B-TREE"));
		CHECK(!strstr(line, "SCAN"));
	}
	sqlite3_finalize(row);
	CHECK(is_there);
}

/* By the row of its newest run, and by indices that have the unfinished, or the failed, alone. */
TEST(tasks_are_listed_by_state)
{
	struct store *store = open_store();
	struct task *tasks[] = {add_task(store, "a"), add_task(store, "b"), add_task(store, "c"),
	                        add_task(store, "d")};
	static const enum run_state states[] = {RUN_RUNNING, RUN_COMPLETED, RUN_FAILED,
	                                        RUN_CANCELLED, RUN_PENDING};
	static const size_t counts[] = {1, 1, 1, 1, 0};

	for (size_t i = 0; i < ARRAY_LEN(tasks); i++) {
		struct run *run = run_new(tasks[i], 7);

		run->state = states[i];
		run->ended_ms = states[i] == RUN_RUNNING ? 0 : 8;
		OK(add_run(store, run));
		run_free(run);
	}
	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		struct task_filter filter = {.state = run_state_name(states[i])};
		struct task_page page = {0};

		OK(store_task_list(store, &filter, &page, &err));
		CHECK_INT(page.count, counts[i]);
		if (page.count > 0 && i < ARRAY_LEN(tasks))
			CHECK_STR(page.items[0]->id.text, tasks[i]->id.text);
		task_page_done(&page);
	}
	check_plan(store, SQL_TASK_LIST_FAILED,
	           "runs_failed (state=? AND task_id>? AND task_id<?)");
	for (size_t i = 0; i < ARRAY_LEN(tasks); i++)
		task_free(tasks[i]);
	store_close(store);
}

/* What failed before its newest run does not count, and pages follow one another. */
TEST(failed_tasks_come_newest_first_and_by_pages)
{
	struct store *store = open_store();
	struct task_filter filter = {.state = "failed", .limit = 2};
	struct task_page page = {0};
	struct task *tasks[5];

	for (size_t i = 0; i < ARRAY_LEN(tasks); i++) {
		struct run *run;

		/* Ids of one millisecond have no order. */
		for (uint64_t now = io_real_ms(); io_real_ms() == now;)
			;
		tasks[i] = add_task(store, "t");
		for (int k = 0; k < 2; k++) {
			run = run_new(tasks[i], 7);
			run->number = (uint64_t)k + 1;
			run->state = k == 0 || i != 2 ? RUN_FAILED : RUN_COMPLETED;
			run->ended_ms = 8;
			OK(add_run(store, run));
			run_free(run);
		}
	}
	OK(store_task_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 2);
	CHECK_STR(page.items[0]->id.text, tasks[4]->id.text);
	CHECK_STR(page.items[1]->id.text, tasks[3]->id.text);
	filter.cursor = take_ptr(page.next_cursor);
	task_page_done(&page);
	OK(store_task_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 2);
	CHECK_STR(page.items[0]->id.text, tasks[1]->id.text);
	CHECK(!page.next_cursor);
	task_page_done(&page);
	free((char *)filter.cursor);
	for (size_t i = 0; i < ARRAY_LEN(tasks); i++)
		task_free(tasks[i]);
	store_close(store);
}
