/*
 * What happens while an agent works: its end, the wall clock (which nothing extends), the idle
 * deadline (which only real work extends: output, or processor time) and the budget.
 */
#include <stdio.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/drive.h"
#include "task/freeze.h"
#include "task/job.h"
#include "task/ledger.h"
#include "task/turns.h"

enum {
	TICK_MS = 500,
	KILL_MS = 15 * 1000, /* for the end of an exec that was killed to be told */
	ALIVE_US = 5000,     /* processor time between two ticks that counts as work */
};

static void on_output(struct exec_watch *watch, void *ctx)
{
	struct job *job = ctx;

	job->active_ms = io_boot_ms();
	drive_output(job);
}

static void on_room(struct exec_watch *watch, void *ctx)
{
	drive_room(ctx);
}

enum sandbox_state watch_sandbox_state(const struct job *job)
{
	struct engine *engine = job->tasks->config.engine;

	return engine->ops->state(engine, job->run->sandbox.text);
}

/* A command that is killed with its sandbox did nothing wrong itself. */
static bool went_with_sandbox(const struct job *job, const struct exec *exec)
{
	return exec->signal && watch_sandbox_state(job) != SANDBOX_RUNNING;
}

static char *late_text(const struct run *run)
{
	return mem_printf("it took longer than its timeout of %llu ms",
	                  (unsigned long long)run->timeout_ms);
}

void watch_take_exec(struct job *job, const struct exec *exec)
{
	struct run *run = job->run;

	run->has_exit = true;
	run->exit_code = exec->exit_code;
	run->signal = exec->signal;
	/* One that had answered was ended by us. */
	if (run->end == RUN_END_FINISHED && job->drive)
		run->exit_code = run->signal = 0;
	if (run->end != RUN_END_NONE)
		return;
	run->end = run_end_of_exec(exec->reason, exec->signal, exec->exit_code);
	if (run->end == RUN_END_FINISHED)
		return;
	mem_freep(&run->detail);
	if (run->end == RUN_END_AGENT_ERROR && went_with_sandbox(job, exec))
		run->end = RUN_END_SANDBOX_LOST;
	if (run->end == RUN_END_SANDBOX_LOST)
		run->detail = mem_strdup("the sandbox ended before the agent did");
	else if (run->end == RUN_END_TIMEOUT)
		run->detail = late_text(run);
	else if (exec->signal)
		run->detail = mem_printf("the agent was ended by signal %d (%s)", exec->signal,
		                         exec->reason ? exec->reason : "unknown");
	else
		run->detail = mem_printf("the agent ended with status %d", exec->exit_code);
}

static void on_over(struct exec_watch *watch, const struct exec *exec, void *ctx)
{
	struct job *job = ctx;

	if (!exec || job->is_over || job->tasks->is_shut)
		return;
	drive_over(job, exec);
	watch_take_exec(job, exec);
	/* While its start is not answered, the step `wait` finds it over. */
	if (job->run->step == RUN_STEP_WAIT)
		job_wait_over(job);
}

void watch_init(struct job *job)
{
	static const struct exec_watch_ops ops = {on_output, on_room, on_over};

	job->watch = (struct exec_watch){.ops = &ops, .ctx = job};
}

/* --- limits --- */

static void on_deadline(struct loop_timer *timer, void *ctx)
{
	struct job *job = ctx;
	auto_free char *text = late_text(job->run);

	job_end(job, RUN_END_TIMEOUT, text);
}

void watch_clock(struct job *job, uint64_t left_ms)
{
	job->deadline_ms = io_boot_ms() + left_ms;
	loop_timer_in(job->tasks->config.loop, &job->deadline, left_ms, on_deadline, job);
}

static void check_idle(struct job *job, const struct meters *meters)
{
	uint64_t now = io_boot_ms();
	char text[96];

	/* An agent that waits for a turn still ticks: only what is more than that is work. */
	if (job->turns && (turns_is_busy(job->turns) || meters->cpu_us > job->cpu_us + ALIVE_US))
		job->active_ms = now;
	if (job->turns)
		job->cpu_us = meters->cpu_us;
	if (meters->cpu_us > job->cpu_us + ALIVE_US) {
		job->active_ms = now;
		job->cpu_us = meters->cpu_us;
	}
	if (job->is_frozen)
		job->active_ms = now;
	if (job->run->idle_ms == 0 || now - job->active_ms <= job->run->idle_ms)
		return;
	(void)snprintf(text, sizeof(text), "nothing happened in it for %llu ms",
	               (unsigned long long)job->run->idle_ms);
	job_end(job, RUN_END_IDLE, text);
}

static void on_measured(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job)
		return;
	job->is_measuring = false;
	if (!sandbox || job->run->step != RUN_STEP_WAIT)
		return;
	if (!job_guest(job))
		ledger_measured(job, &sandbox->meters);
	freeze_look(job, &sandbox->meters);
	check_idle(job, &sandbox->meters);
}

static void on_tick(struct loop_timer *timer, void *ctx)
{
	struct job *job = ctx;
	struct engine *engine = job->tasks->config.engine;

	loop_timer_in(job->tasks->config.loop, &job->tick, TICK_MS, on_tick, job);
	if (job->is_measuring)
		return;
	job->is_measuring = true;
	engine->ops->meters(engine, job->run->sandbox.text, on_measured, job_ask(job));
}

void watch_count(struct job *job)
{
	loop_timer_in(job->tasks->config.loop, &job->tick, TICK_MS, on_tick, job);
}

void watch_begin(struct job *job)
{
	job->active_ms = io_boot_ms();
	job->is_measuring = false;
	/* One that is taken up may be frozen, for money that nobody counts any more. */
	if (job->run->idle_ms > 0 || ledger_counts(job) || job->is_resumed)
		watch_count(job);
}

void watch_end(struct job *job)
{
	struct engine *engine = job->tasks->config.engine;

	loop_timer_stop(&job->deadline);
	loop_timer_stop(&job->tick);
	loop_timer_stop(&job->kill_timer);
	if (!job->tasks->is_shut)
		engine->ops->unwatch(engine, &job->watch);
}

/* --- ending it --- */

static void on_kill_late(struct loop_timer *timer, void *ctx)
{
	struct job *job = ctx;

	if (job->run->step == RUN_STEP_WAIT)
		job_wait_over(job); /* the removal of the sandbox ends it */
}

static void on_killed(const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (job && err->code != ERR_OK && err->code != ERR_CONFLICT)
		log_warn("an agent could not be killed; its sandbox goes",
		         LOG_STR("run", job->run->id.text), LOG_ERR(err));
}

void watch_kill(struct job *job)
{
	struct engine *engine = job->tasks->config.engine;

	loop_timer_in(job->tasks->config.loop, &job->kill_timer, KILL_MS, on_kill_late, job);
	engine->ops->kill(engine, job->run->sandbox.text, job->run->exec.text, on_killed,
	                  job_ask(job));
}
