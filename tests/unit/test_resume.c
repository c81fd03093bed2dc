/* Runs that go on with the files of another, on a stage: what is told when, and in which order. */
#include "task/resume.h"

#include <fcntl.h>
#include <stdio.h>

#include "model/access.h"
#include "model/config.h"
#include "stage.h"
#include "store/resume.h"
#include "store/task.h"
#include "task/tasks.h"

static struct config config;
static struct tasks *tasks;
static struct err err;
static char first_run[33], next_run[33], box[33];
static bool is_over;
static struct tasks_waiter waiter;

#define OK(call)                                                                                   \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			test_fail(__FILE__, __LINE__, "%s: %s", #call, err.msg);                   \
	} while (0)

static int refuse_spec(const json_t *wish, const struct config *with, struct spec *ret,
                       struct err *why)
{
	return err_set(why, ERR_INVALID, "no sandbox is made here");
}

static void on_stored(const struct err *why, void *ctx)
{
	CHECK_INT(why->code, ERR_OK);
	answers++;
}

static void on_over(struct tasks_waiter *one, void *ctx)
{
	is_over = true;
}

static struct task *make_task(void)
{
	struct task *task = task_new();

	task->title = mem_strdup("one");
	task->instruction = mem_strdup("true");
	task->agent = mem_strdup("shell");
	task->choices = mem_strdup("{}");
	snprintf(task->owner.text, sizeof(task->owner.text), "%s", ACCESS_OPERATOR);
	snprintf(task->team.text, sizeof(task->team.text), "%s", ACCESS_TEAM);
	return task;
}

/* A run that is over and whose sandbox, stopped, is kept. */
static void keep_one(const struct task *task)
{
	struct run *run = run_new(task, 7);
	struct store_write *write = store_write_new(store);
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;

	OK(store_sandbox_get(store, box, &sandbox, &err));
	struct resume resume = {.run = run->id,
	                        .team = task->team,
	                        .sandbox = sandbox->id,
	                        .runtime = mem_strdup("native"),
	                        .image = mem_strdup("host"),
	                        .fingerprint = resume_fingerprint(sandbox),
	                        .created_ms = 8,
	                        .expires_ms = UINT64_C(1) << 50};
	store_add_task(write, task);
	store_add_run(write, run);
	store_put_resume(write, &resume);
	OK(store_write_wait(write, NULL, &err));
	run->state = RUN_COMPLETED;
	run->end = RUN_END_FINISHED;
	run->ended_ms = 9;
	write = store_write_new(store);
	store_put_run(write, run, NULL);
	OK(store_write_wait(write, NULL, &err));
	CHECK(str_copy(first_run, sizeof(first_run), run->id.text));
	resume_done(&resume);
	run_free(run);
}

/* Has the first run's sandbox stopped, and its record. */
static void begin(void)
{
	struct task *task;

	set_up();
	config_init(&config);
	tasks = tasks_new(&(struct tasks_config){.loop = loop,
	                                         .store = store,
	                                         .config = &config,
	                                         .engine = engine,
	                                         .sandboxes_fd = stage_sandboxes_fd,
	                                         .files_fd = test_dir_fd(),
	                                         .make_spec = refuse_spec});
	OK(tasks_start(tasks, &err));
	create("one");
	CHECK(str_copy(box, sizeof(box), answer_id));
	engine->ops->stop(engine, box, 0, on_sandbox, NULL);
	UNTIL(answers == 2);
	task = make_task();
	task->created_ms = 5;
	keep_one(task);
	task_free(task);
	heard[0] = '\0';
}

static void end(void)
{
	tasks_shut(tasks);
	tear_down();
	tasks_free(tasks);
	config_done(&config);
}

static void go_on(void)
{
	struct task *task = make_task();
	struct run *run = run_new(task, io_real_ms());

	CHECK(str_copy(run->resume_from.text, sizeof(run->resume_from.text), first_run));
	CHECK(str_copy(run->sandbox.text, sizeof(run->sandbox.text), box));
	CHECK(str_copy(next_run, sizeof(next_run), run->id.text));
	run->keeps = true;
	run->timeout_ms = 600000;
	tasks_create(tasks, task, run, on_stored, NULL);
	UNTIL(answers == 3);
	waiter = (struct tasks_waiter){.on_over = on_over};
	CHECK(tasks_wait(tasks, next_run, &waiter));
}

static bool is_kept(void)
{
	auto_(resume_done) struct resume resume = {0};

	return store_resume_get(store, next_run, &resume, &err) == 0;
}

TEST(a_stop_before_the_start_is_stored_waits_for_it)
{
	begin();
	go_on();
	hold_launch = true;
	UNTIL(fleet->members && fleet->members->row->state == SANDBOX_CREATING);
	tasks_stop(tasks, next_run, NULL, on_stored, NULL);
	UNTIL(held_launch);
	UNTIL(answers == 4);
	CHECK_INT(stored_state(box), SANDBOX_CREATING);
	CHECK(!is_over);
	hold_launch = false;
	keeper_appears(box);
	send_simple(stage_broker_fd, WIRE_OK, held_launch, NULL);
	UNTIL(is_over);
	CHECK_INT(stored_state(box), SANDBOX_STOPPED);
	CHECK(is_kept());
	CHECK_STR(heard, "launch stop reap-keep");
	end();
}

TEST(a_stop_while_it_starts_waits_for_a_start_that_fails)
{
	begin();
	go_on();
	hold_launch = true;
	UNTIL(held_launch);
	tasks_stop(tasks, next_run, NULL, on_stored, NULL);
	UNTIL(answers == 4);
	CHECK(!is_over);
	(void)err_set(&launch_err, ERR_MISSING, "no memory cgroup here"); /* always -1 */
	send_simple(stage_broker_fd, WIRE_ERROR, held_launch, &launch_err);
	UNTIL(is_over);
	CHECK_INT(stored_state(box), SANDBOX_FAILED);
	CHECK(is_kept());
	CHECK_STR(heard, "launch reap-keep");
	end();
}

TEST(one_that_stops_is_waited_for)
{
	begin();
	engine->ops->start(engine, box, on_sandbox, NULL);
	UNTIL(answers == 3);
	answers = 2;
	keeper_of(box)->is_mute = true;
	engine->ops->stop(engine, box, 60000, on_sandbox, NULL);
	UNTIL(stored_state(box) == SANDBOX_STOPPING);
	go_on();
	UNTIL(strstr(heard, "stop stop"));
	heard[0] = '\0';
	keeper_says_gone(keeper_of(box), "stopped");
	UNTIL(strstr(heard, "exec"));
	CHECK_INT(stored_state(box), SANDBOX_RUNNING);
	end();
}
