/*
 * fill STORE COUNT: adds tasks that have ended to a store nobody serves, by the functions the
 * daemon writes them with, but without sandboxes. For tests/bench/finished.mjs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/io.h"
#include "base/mem.h"
#include "store/store.h"
#include "store/task.h"

enum { AT_ONCE = 100 };

static void add_events(struct store_write *write, const struct task *task)
{
	static const enum event_kind kinds[] = {EVENT_TASK_CREATED, EVENT_TASK_STARTED,
	                                        EVENT_TASK_STEP, EVENT_TASK_COMPLETED};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		store_put_event(write, &(struct event){.kind = kinds[i],
		                                       .time_ms = io_real_ms(),
		                                       .sandbox = task->id,
		                                       .data = (char *)"{}"});
}

static void add_run(struct store_write *write, const struct task *task)
{
	struct run *run = run_new(task, io_real_ms());
	struct run_progress steps[RUN_STEP_COUNT_];

	store_add_run(write, run);
	run->state = RUN_COMPLETED;
	run->end = RUN_END_FINISHED;
	run->step = RUN_STEP_CLEANUP;
	run->started_ms = run->ended_ms = run->created_ms;
	run->has_exit = true;
	for (size_t i = 0; i < RUN_STEP_COUNT_; i++)
		steps[i] = (struct run_progress){.step = (enum run_step)i,
		                                 .status = (char *)"completed",
		                                 .attempts = 1,
		                                 .started_ms = run->started_ms,
		                                 .ended_ms = run->ended_ms};
	store_put_run(write, run, steps);
	run_free(run);
}

static void add(struct store_write *write)
{
	struct task *task = task_new();

	task->title = mem_strdup("filled");
	task->instruction = mem_strdup("true");
	task->agent = mem_strdup("shell");
	task->choices = mem_strdup("{}");
	task->visibility = VISIBILITY_TEAM;
	task->created_ms = io_real_ms();
	store_add_task(write, task);
	add_run(write, task);
	add_events(write, task);
	task_free(task);
}

int main(int argc, char **argv)
{
	struct store_options options = {.path = argc == 3 ? argv[1] : NULL};
	long count = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	struct store *store = NULL;
	struct err err = {0};

	if (argc != 3) {
		fprintf(stderr, "usage: fill STORE COUNT\n");
		return 64;
	}
	if (store_open(&options, &store, &err) < 0) {
		fprintf(stderr, "fill: %s\n", err.msg);
		return 1;
	}
	for (long done = 0; done < count && err.code == ERR_OK; done += AT_ONCE) {
		struct store_write *write = store_write_new(store);

		for (long i = done; i < count && i < done + AT_ONCE; i++)
			add(write);
		(void)!store_write_wait(write, NULL, &err); /* looked at above and below */
	}
	if (err.code != ERR_OK)
		fprintf(stderr, "fill: %s\n", err.msg);
	store_close(store);
	return err.code == ERR_OK ? 0 : 1;
}
