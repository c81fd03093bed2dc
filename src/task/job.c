#include "task/job.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/money.h"
#include "model/rights.h"
#include "store/identity.h"
#include "task/collect.h"
#include "task/drive.h"
#include "task/freeze.h"
#include "task/git.h"
#include "task/inside.h"
#include "task/ledger.h"
#include "task/resume.h"
#include "task/turns.h"

enum {
	RETRY_MS = 200,
	RETRY_MOST_MS = 30 * 1000,
	NOTE_MS = 500, /* for why it ends to be on disk; then it ends all the same */
	SOON_MS = 40,
};

static void begin_step(struct job *job, enum run_step step);

void job_find_chain(struct job *job)
{
	const char *parent = job->run->parent.text;
	auto_(credential_freep) struct credential *credential = NULL;
	struct err err = {0};

	if (!parent[0])
		return;
	/* A parent that is gone is refused by the store when the token is made. */
	if (store_credential_get(job_store(job), parent, &credential, &err) == 0 &&
	    credential->chain)
		strings_split(&job->chain, credential->chain);
	strings_add(&job->chain, parent);
}

struct job *job_new(struct tasks *tasks, struct run *run, struct task *task)
{
	struct job *job = mem_new(struct job);
	struct rights rights = {0};
	struct err err = {0};

	job->tasks = tasks;
	job->run = run;
	job->task = task;
	job->choices = json_loads(task->choices, 0, NULL);
	if (!job->choices)
		job->choices = json_object();
	if (rights_load(&run->rights, &rights, &err) == 0)
		job->depth = rights.depth;
	rights_done(&rights);
	job_find_chain(job);
	watch_init(job);
	if (turns_is_session(job))
		job->turns = turns_new(job);
	for (size_t i = 0; i < RUN_STEP_COUNT_; i++)
		job->progress[i].step = (enum run_step)i;
	return job;
}

static void stop_timers(struct job *job)
{
	loop_timer_stop(&job->step_timer);
	loop_timer_stop(&job->commit_retry);
	loop_timer_stop(&job->commit_soon);
	loop_timer_stop(&job->charged);
	loop_timer_stop(&job->frozen);
	watch_end(job);
}

void job_free(struct job *job)
{
	stop_timers(job);
	sync_cancel(job);
	drive_free(job->drive);
	sandbox_free(job->made);
	turns_free(job->turns);
	json_decref(job->files);
	json_decref(job->git);
	inside_cancel(job);
	for (size_t i = 0; i < RUN_STEP_COUNT_; i++)
		run_progress_done(&job->progress[i]);
	for (size_t i = 0; i < job->event_count; i++)
		event_done(&job->events[i]);
	mem_freep(&job->events);
	mem_freep(&job->frozen_why);
	strings_done(&job->chain);
	json_decref(job->choices);
	run_free(job->run);
	task_free(job->task);
	mem_freep(&job);
}

const char *job_guest(const struct job *job)
{
	return json_string_value(json_object_get(job->choices, "guest"));
}

/* --- questions and answers --- */

struct job_call *job_ask(struct job *job)
{
	struct job_call *call = mem_new(struct job_call);

	*call = (struct job_call){job, job->serial};
	job->pending++;
	return call;
}

static void let_go(struct job *job)
{
	if (job->is_over && job->pending == 0 && !job->tasks->is_shut)
		job_free(job);
}

struct job *job_answer_any(struct job_call *call, struct job **ret_any)
{
	struct job *job = call->job;
	bool is_wanted = call->serial == job->serial && !job->is_over && !job->tasks->is_shut;

	mem_freep(&call);
	job->pending--;
	*ret_any = job;
	return is_wanted ? job : NULL;
}

struct job *job_answer(struct job_call *call)
{
	struct job *any;
	struct job *job = job_answer_any(call, &any);

	if (!job)
		let_go(any);
	return job;
}

/* --- the journal --- */

static void submit(struct job *job);

static void on_commit_retry(struct loop_timer *timer, void *ctx)
{
	submit(ctx);
}

/* The write as a whole was refused: the token. Nothing of it is there. */
static void on_no_token(struct job *job, const struct err *err)
{
	job->add_token = false;
	job->then = NULL;
	job->run->token = (struct id){0};
	for (size_t i = 0; i < job->event_count; i++)
		event_done(&job->events[i]);
	job->event_count = job->begun_at = 0;
	run_progress_done(&job->progress[RUN_STEP_PROVISION]);
	job->progress[RUN_STEP_PROVISION] = (struct run_progress){.step = RUN_STEP_PROVISION};
	job->run->step = RUN_STEP_TOKEN;
	job_end(job, RUN_END_POLICY, err->msg);
}

static void on_commit_failed(struct job *job, const struct err *err)
{
	uint64_t pause = (uint64_t)RETRY_MS << MIN(job->refusals, 8u);

	job->sent_count = 0;
	if (err->code == ERR_FORBIDDEN && job->add_token) {
		on_no_token(job, err);
		return;
	}
	if (job->refusals++ == 0)
		log_error("the journal of a run cannot be written; trying again",
		          LOG_STR("run", job->run->id.text), LOG_ERR(err));
	loop_timer_in(job->tasks->config.loop, &job->commit_retry,
	              MIN(pause, (uint64_t)RETRY_MOST_MS), on_commit_retry, job);
}

static void drop_sent_events(struct job *job)
{
	for (size_t i = 0; i < job->sent_count; i++)
		event_done(&job->events[i]);
	job->event_count -= job->sent_count;
	memmove(job->events, job->events + job->sent_count,
	        job->event_count * sizeof(*job->events));
	job->begun_at = job->begun_at > job->sent_count ? job->begun_at - job->sent_count : 0;
	job->sent_count = 0;
}

/* Its sandbox is given up, or runs as before. */
static void tell_engine(struct job *job, const struct store_result *result)
{
	struct engine *engine = job->tasks->config.engine;

	if (!job->is_giving_up)
		return;
	job->is_giving_up = false;
	engine->ops->given_up(engine, job->run->sandbox.text, result);
}

static void on_committed(const struct store_result *result, void *ctx)
{
	struct job *job = ctx;
	job_then then;

	job->pending--;
	job->is_committing = false;
	tell_engine(job, result);
	if ((job->creation && !tasks_born(job, result)) || job->tasks->is_shut)
		return;
	if (job->turns)
		turns_committed(job->turns, result->ok);
	if (!result->ok) {
		on_commit_failed(job, &result->err);
		return;
	}
	job->refusals = 0;
	job->add_token = false;
	job->has_output = job->has_output && !job->is_output_sent;
	drop_sent_events(job);
	drive_committed(job);
	if (job->has_more) {
		submit(job);
		return;
	}
	then = take_ptr(job->then);
	if (then)
		then(job);
	else
		let_go(job);
}

/* What goes with the commit of the end. */
static void put_last(struct job *job, struct store_write *write)
{
	struct engine *engine = job->tasks->config.engine;

	if (job->run->keeps)
		resume_put(job, write);
	job->is_giving_up =
		job->gives_up && engine->ops->give_up(engine, job->run->sandbox.text, write);
	job->has_left_it = job->gives_up && !job->is_giving_up;
}

static void submit(struct job *job)
{
	struct store_write *write = take_ptr(job->birth);

	if (!write)
		write = store_write_new(job_store(job));
	loop_timer_stop(&job->commit_soon);
	if (job->add_token)
		token_mint(job, write);
	if (job->has_output) /* one that is over takes none */
		store_set_output(write, job->run->id.text, job->run->output);
	job->is_output_sent = job->has_output;
	store_put_run(write, job->run, job->progress);
	if (job->turns && job->run->end != RUN_END_NONE)
		turns_close(job->turns);
	if (job->turns)
		turns_save(job->turns, write);
	drive_save(job, write);
	git_save(job, write);
	if (job->is_last)
		put_last(job, write); /* its events before that of the end */
	for (size_t i = 0; i < job->event_count; i++)
		store_put_event(write, &job->events[i]);
	if (job->revoke_token && job->run->token.text[0]) {
		store_spend(write, job->run->token.text, job->run->cost);
		store_revoke_credential(write, job->run->token.text, io_real_ms());
	}
	job->sent_count = job->event_count;
	job->has_more = false;
	job->is_committing = true;
	job->pending++;
	store_write_submit(write, on_committed, job);
}

void job_commit(struct job *job, job_then then)
{
	if (then) {
		must(!job->then);
		job->then = then;
	}
	if (job->is_committing || job->refusals > 0)
		job->has_more = true;
	else
		submit(job);
}

static void on_commit_soon(struct loop_timer *timer, void *ctx)
{
	job_commit(ctx, NULL);
}

void job_commit_soon(struct job *job)
{
	loop_timer_in(job->tasks->config.loop, &job->commit_soon, SOON_MS, on_commit_soon, job);
}

/* --- steps --- */

static void on_step_late(struct loop_timer *timer, void *ctx)
{
	struct job *job = ctx;
	struct err err = {0};

	(void)err_set(&err, ERR_TIMEOUT, "the step took too long"); /* always -1 */
	job_step_failed(job, &err);
}

static void run_step(struct job *job)
{
	uint64_t most = run_step_timeout(job->run->step);

	job->serial++;
	if (most > 0)
		loop_timer_in(job->tasks->config.loop, &job->step_timer, most, on_step_late, job);
	step_do(job);
}

/* Whether it may begin before the commit that says so is on disk (see job.h). An agent may not: it
 * would run in a sandbox whose row is on its way, too, and after a crash nobody would know of
 * either.
 */
static bool may_begin(const struct job *job, enum run_step step)
{
	return step_is_harmless(step) ||
	       (step == RUN_STEP_CLEANUP &&
	        (step_gives_up(job) || (!job->is_committing && job->refusals == 0)));
}

/* That it has begun, where it need not be on disk before. */
static void commit_beginning(struct job *job, enum run_step step)
{
	if (step == RUN_STEP_WAIT && !job->turns)
		job_commit_soon(job); /* after a crash its agent is found as well, or its end is */
	else if (step >= RUN_STEP_AGENT && step != RUN_STEP_COLLECT && !step_gives_up(job))
		job_commit(job, NULL);
}

static void begin_step(struct job *job, enum run_step step)
{
	struct tasks *tasks = job->tasks;
	bool has_started = job->run->step <= RUN_STEP_PROVISION && step > RUN_STEP_PROVISION;

	job->run->step = step;
	job->attempts = 1;
	if (step > RUN_STEP_WAIT)
		family_end(job);
	if ((step == RUN_STEP_PROVISION || step == RUN_STEP_AGENT) && !job->run->exec.text[0])
		job->run->exec = id_new("ex");
	job_note_step(job, step, "started", NULL);
	if (may_begin(job, step)) {
		commit_beginning(job, step);
		run_step(job);
	} else {
		job_commit(job, run_step);
	}
	if (has_started) /* it is nobody's turn before this one has what it waits for */
		tasks_serve(tasks);
}

/* Steps of a repository are none for runs that have none: nothing is written about them. */
static enum run_step pass_over(const struct job *job, enum run_step step)
{
	if (step == RUN_STEP_CLONE && !git_choices(job))
		return RUN_STEP_SYNC;
	if (step == RUN_STEP_PUBLISH && (job->run->end != RUN_END_FINISHED || !git_publishes(job)))
		return RUN_STEP_COLLECT;
	return step;
}

/* Whatever is to come is left out when the run is ending: what was made is collected and undone. */
static enum run_step next_step(const struct job *job)
{
	enum run_step step = job->run->step;

	if (job->run->end == RUN_END_NONE || step >= RUN_STEP_WAIT)
		return pass_over(job, step + 1);
	return step == RUN_STEP_AGENT && job->run->sandbox.text[0] ? RUN_STEP_COLLECT
	                                                           : RUN_STEP_CLEANUP;
}

static void leave_step(struct job *job)
{
	loop_timer_stop(&job->step_timer);
	sync_cancel(job);
	inside_cancel(job);
	job->serial++;
}

void job_step_done(struct job *job, const char *status, const char *detail)
{
	leave_step(job);
	job_note_step(job, job->run->step, status, detail);
	if (job->run->step == RUN_STEP_CLEANUP)
		job_finish(job);
	else
		begin_step(job, next_step(job));
}

static void on_again(struct loop_timer *timer, void *ctx)
{
	run_step(ctx);
}

/* No repetition changes the answer. */
static bool is_final(enum err_code code)
{
	static const enum err_code codes[] = {ERR_INVALID,     ERR_FORBIDDEN,   ERR_NOT_FOUND,
	                                      ERR_UNSUPPORTED, ERR_MISSING,     ERR_TOO_LARGE,
	                                      ERR_NO_PROGRAM,  ERR_NOT_PROGRAM, ERR_CONFIG};

	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		if (codes[i] == code)
			return true;
	}
	return false;
}

/* Cleaning up is never given up: the step begins anew, ever more seldom. */
static bool may_repeat(const struct job *job, const struct err *err)
{
	enum run_step step = job->run->step;

	if (step == RUN_STEP_CLEANUP)
		return true;
	/* What came of it is worth keeping however it ended. */
	if (job->run->end != RUN_END_NONE && step != RUN_STEP_COLLECT && step != RUN_STEP_PUBLISH)
		return false;
	return !is_final(err->code) && job->attempts < run_step_attempts(step);
}

/* The sandbox was taken back before anything ran in it: its making could not be recorded, or it was
 * lost at that moment. Another one is as good. */
static bool goes_back(struct job *job, const struct err *err)
{
	enum run_step step = job->run->step;

	if (job->run->end != RUN_END_NONE || job->run->resume_from.text[0] || job_guest(job) ||
	    job->may_have_begun ||
	    (step != RUN_STEP_CLONE && step != RUN_STEP_SYNC && step != RUN_STEP_AGENT) ||
	    (err->code != ERR_CONFLICT && err->code != ERR_NOT_FOUND) ||
	    ++job->sandboxes >= run_step_attempts(RUN_STEP_PROVISION))
		return false;
	log_warn("the sandbox of a run is gone before it began; making another",
	         LOG_STR("run", job->run->id.text), LOG_ERR(err));
	job->run->sandbox = (struct id){0};
	job->run->exec = (struct id){0};
	job->is_resumed = true; /* whatever is left of it is looked for at the end */
	begin_step(job, RUN_STEP_PROVISION);
	return true;
}

void job_step_failed(struct job *job, const struct err *err)
{
	uint64_t pause = (uint64_t)RETRY_MS << MIN(job->attempts, 8u);
	enum run_step step = job->run->step;

	leave_step(job);
	job->err = *err;
	if (goes_back(job, err))
		return;
	if (may_repeat(job, err)) {
		job->attempts++;
		log_warn("a step of a run failed; trying again", LOG_STR("run", job->run->id.text),
		         LOG_STR("step", run_step_name(step)), LOG_ERR(err));
		job_note_step(job, step, "started", err->msg);
		loop_timer_in(job->tasks->config.loop, &job->step_timer,
		              MIN(pause, (uint64_t)RETRY_MOST_MS), on_again, job);
		return;
	}
	job_note_step(job, step, "failed", err->msg);
	if (step == RUN_STEP_COLLECT && !job->run->detail)
		spec_set(&job->run->detail, "its output could not be kept");
	if (step == RUN_STEP_PUBLISH) {
		job->run->end = RUN_END_PUBLISH_FAILED;
		spec_set(&job->run->detail, err->msg);
	}
	if (job->run->end == RUN_END_NONE) {
		job->run->end = err->code == ERR_FORBIDDEN ? RUN_END_POLICY
		                : job->may_have_begun      ? RUN_END_SANDBOX_LOST
		                                           : RUN_END_START_FAILED;
		spec_set(&job->run->detail, err->msg);
	}
	begin_step(job, step >= RUN_STEP_AGENT && step < RUN_STEP_COLLECT ? RUN_STEP_COLLECT
	                                                                  : RUN_STEP_CLEANUP);
}

/* --- the beginning --- */

static void on_started_note(struct job *job)
{
	json_t *data = json_object();

	json_object_set_new(data, "run", json_string(job->run->id.text));
	json_object_set_new(data, "number", json_integer((json_int_t)job->run->number));
	job_note(job, EVENT_TASK_STARTED, data);
}

void job_begin(struct job *job)
{
	struct err err = {0};

	must(run_apply(job->run->state, RUN_EVENT_START, &job->run->state, &err) == 0);
	job->is_started = true;
	job->begun_ms = io_boot_ms();
	job->run->started_ms = io_real_ms();
	on_started_note(job);
	watch_clock(job, job->run->timeout_ms);
	/* The token is a row of the same store: it comes with the commit that says so. */
	job->run->step = RUN_STEP_TOKEN;
	job_note_step(job, RUN_STEP_TOKEN, "started", NULL);
	run_step(job);
}

/* A clock that was set back must not give more time than there was. */
static uint64_t time_left(const struct run *run)
{
	uint64_t now = io_real_ms();
	uint64_t used = now > run->started_ms ? now - run->started_ms : 0;

	return used < run->timeout_ms ? run->timeout_ms - used : 0;
}

void job_resume(struct job *job)
{
	job->is_started = true;
	job->is_resumed = true;
	job->attempts = 1;
	job->serial++;
	ledger_take_up(job);
	git_load(job);
	/* The keeper of an agent that works knows when its time is over, whatever the clock of the
	 * day says by now. */
	if (job->run->step < RUN_STEP_WAIT)
		watch_clock(job, time_left(job->run));
	log_info("a run is taken up again", LOG_STR("run", job->run->id.text),
	         LOG_STR("step", run_step_name(job->run->step)));
	if (job->run->end != RUN_END_NONE && job->run->step < RUN_STEP_WAIT)
		job_step_done(job, "failed", job->run->detail);
	else
		step_take_up(job);
}

/* --- the end --- */

static void end_agent(struct job *job)
{
	bool is_still = job->is_frozen; /* it cannot end its turn, then */

	loop_timer_stop(&job->kill_timer);
	if (job->run->step != RUN_STEP_WAIT)
		return;
	freeze_end(job);
	if (job->run->end != RUN_END_STOPPED || is_still || !drive_stop(job))
		watch_kill(job);
}

static void on_note_late(struct loop_timer *timer, void *ctx)
{
	struct job *job = ctx;

	if (job->then == end_agent)
		job->then = NULL;
	end_agent(job);
}

/* First why, then the end: after a crash between them nobody would know who killed the agent. */
static void end_noted(struct job *job)
{
	if (job->then) {
		job_commit(job, NULL);
		end_agent(job);
		return;
	}
	loop_timer_in(job->tasks->config.loop, &job->kill_timer, NOTE_MS, on_note_late, job);
	job_commit(job, end_agent);
}

void job_wait_over(struct job *job)
{
	const struct tasks_config *config = &job->tasks->config;

	if (config->settle)
		config->settle(job->run->id.text, config->ctx);
	watch_end(job);
	if (job->then == end_agent)
		job->then = NULL; /* it ended by itself */
	freeze_end(job);          /* what follows works inside */
	job_step_done(job, "completed", NULL);
}

static void end_queued(struct job *job)
{
	job->is_started = true;
	job_finish(job);
}

/* Its agent ended well and its work is on the way out: whoever may stop it still can. */
static bool can_unpublish(const struct job *job, enum run_end end)
{
	return job->run->step == RUN_STEP_PUBLISH && job->run->end == RUN_END_FINISHED &&
	       (end == RUN_END_STOPPED || end == RUN_END_POLICY);
}

bool job_can_end(const struct job *job, enum run_end end)
{
	return !job->is_over && (job->run->end == RUN_END_NONE || can_unpublish(job, end));
}

void job_end(struct job *job, enum run_end end, const char *detail)
{
	if (!job_can_end(job, end))
		return;
	job->run->end = end;
	spec_set(&job->run->detail, detail);
	log_info("a run ends", LOG_STR("run", job->run->id.text),
	         LOG_STR("reason", run_end_name(end)));
	family_end(job);
	if (!job->is_started) {
		end_queued(job);
	} else if (job->run->step == RUN_STEP_WAIT) {
		end_noted(job);
	} else if (job->run->step < RUN_STEP_WAIT) {
		/* The step is given up: what it makes too late is removed when it comes. */
		job->then = NULL;
		job_step_done(job, "failed", detail);
	} else if (job->run->step == RUN_STEP_PUBLISH) {
		job->then = NULL;
		publish_stop(job);
		job_step_done(job, "failed", detail);
	}
}

static enum event_kind end_kind(enum run_state state)
{
	return state == RUN_COMPLETED   ? EVENT_TASK_COMPLETED
	       : state == RUN_CANCELLED ? EVENT_TASK_CANCELLED
	                                : EVENT_TASK_FAILED;
}

static void note_end(struct job *job)
{
	const struct run *run = job->run;
	json_t *data = json_object();

	json_object_set_new(data, "run", json_string(run->id.text));
	json_object_set_new(data, "endReason", json_string(run_end_name(run->end)));
	json_object_set_new(data, "exitCode",
	                    run->has_exit && run->signal == 0 ? json_integer(run->exit_code)
	                                                      : json_null());
	json_object_set_new(data, "inputTokens", json_integer((json_int_t)run->input_tokens));
	json_object_set_new(data, "outputTokens", json_integer((json_int_t)run->output_tokens));
	json_object_set_new(data, "cost", json_real(money_to_dollars(run->cost)));
	if (run->detail)
		json_object_set_new(data, "error", json_string(run->detail));
	job_note(job, end_kind(run->state), data);
}

static void on_end_stored(struct job *job)
{
	stop_timers(job);
	if (git_choices(job))
		job->tasks->config.engine->ops->forges.forget(job->tasks->config.engine,
		                                              job->run->id.text);
	if (job->has_left_it)
		step_remove_left(job);
	job->is_over = true;
	tasks_job_over(job);
	let_go(job);
}

void job_finish(struct job *job)
{
	struct run *run = job->run;
	struct err err = {0};

	if (run->end == RUN_END_NONE)
		run->end = RUN_END_SANDBOX_LOST;
	must(run_apply(run->state, run_end_event(run->end), &run->state, &err) == 0);
	run->ended_ms = io_real_ms();
	job->revoke_token = true;
	job->is_last = true;
	collect_clean_text(job->tasks, job->task, &run->detail);
	note_end(job);
	job->then = NULL;
	job_commit(job, on_end_stored);
}
