#include "task/tasks.h"
#include "task/fetch.h"

#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "store/load.h"
#include "store/resume.h"
#include "store/turn.h"
#include "task/account.h"
#include "task/git.h"
#include "task/job.h"
#include "task/keep.h"
#include "task/ledger.h"
#include "task/outside.h"
#include "task/resume.h"
#include "task/turns.h"

static const struct err no_err;

struct store *job_store(const struct job *job)
{
	return job->tasks->config.store;
}

/* Making a sandbox takes processors, not patience: a hundred at once come late all together, and
 * whoever asks after them is served before. So only some are begun at a time, in the order of the
 * queue: enough for every processor while others wait for the disk (with fewer, processors stood
 * still a seventh of the time), and no more (with twice as many the last come much later than the
 * first). One that takes long is in nobody's way. */
enum { STARTING_LEAST = 4, STARTING_PER_PROCESSOR = 8, STARTING_MS = 2000 };

static size_t starting_most(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	return MAX((size_t)STARTING_LEAST,
	           processors > 0 ? (size_t)processors * STARTING_PER_PROCESSOR : 0);
}

struct tasks *tasks_new(const struct tasks_config *config)
{
	struct tasks *tasks = mem_new(struct tasks);

	tasks->config = *config;
	tasks->starting_most = starting_most();
	return tasks;
}

/* --- who there is --- */

static void link_job(struct job **list, struct job *job)
{
	struct job **at = list;

	while (*at)
		at = &(*at)->next;
	job->next = NULL;
	*at = job;
}

static void unlink_job(struct job **list, struct job *job)
{
	for (struct job **at = list; *at; at = &(*at)->next) {
		if (*at == job) {
			*at = job->next;
			job->next = NULL;
			return;
		}
	}
}

static struct job *find_in(struct job *list, const char *run)
{
	for (struct job *job = list; job; job = job->next) {
		if (str_eq(job->run->id.text, run))
			return job;
	}
	return NULL;
}

struct job *tasks_find_job(const struct tasks *tasks, const char *run)
{
	struct job *job = find_in(tasks->jobs, run);

	return job ? job : find_in(tasks->queue, run);
}

/* How many are about to write: those that wait for their turn, too. */
static void tell_store(struct tasks *tasks)
{
	store_set_company(tasks->config.store, tasks->running + tasks->queued);
}

/* --- the queue: teams take turns, in a team the more urgent comes first --- */

/* Counted level by level: a run that waits for its child must not be in the child's way. */
static bool has_room(const struct tasks *tasks, const struct job *waiting)
{
	const struct config_tasks *most = &tasks->config.config->tasks;
	const struct config_sessions *sessions = &tasks->config.config->sessions;
	size_t all = 0, of_team = 0;

	/* Sessions wait for people most of the time: they are not in the way of tasks. */
	for (const struct job *job = tasks->jobs; job; job = job->next) {
		if (job->depth != waiting->depth || !job->turns != !waiting->turns)
			continue;
		all++;
		of_team += str_eq(job->run->team.text, waiting->run->team.text);
	}
	if (waiting->turns)
		return all < sessions->concurrency && of_team < sessions->team_concurrency;
	return all < most->concurrency && of_team < most->team_concurrency;
}

/* Teams in the order of their ids, beginning after the one that was served last. */
static bool is_sooner(const struct tasks *tasks, const struct job *a, const struct job *b)
{
	int order = strcmp(a->run->team.text, b->run->team.text);
	bool a_wraps = strcmp(a->run->team.text, tasks->turn) <= 0;
	bool b_wraps = strcmp(b->run->team.text, tasks->turn) <= 0;

	if (order == 0)
		return a->run->priority > b->run->priority;
	return a_wraps != b_wraps ? b_wraps : order < 0;
}

static bool has_many_starting(const struct tasks *tasks)
{
	uint64_t now = io_boot_ms();
	size_t count = 0;

	for (const struct job *job = tasks->jobs; job; job = job->next)
		count += job->run->step <= RUN_STEP_PROVISION && now < job->begun_ms + STARTING_MS;
	return count >= tasks->starting_most;
}

static struct job *pick(const struct tasks *tasks)
{
	struct job *best = NULL;

	for (struct job *job = tasks->queue; job; job = job->next) {
		/* One that was ended while it waited leaves when that is stored. */
		if (job->is_started || (best && !is_sooner(tasks, job, best)))
			continue;
		if (has_room(tasks, job))
			best = job;
	}
	return best;
}

static void on_again(struct loop_timer *timer, void *ctx)
{
	tasks_serve(ctx);
}

/* Takes one that is in no list. */
static void begin(struct tasks *tasks, struct job *job)
{
	link_job(&tasks->jobs, job);
	tasks->running++;
	tell_store(tasks);
	tasks->started++;
	memcpy(tasks->turn, job->run->team.text, sizeof(tasks->turn));
	job_begin(job);
}

void tasks_serve(struct tasks *tasks)
{
	struct job *job;

	while (!tasks->is_shut && tasks->queue) {
		if (has_many_starting(tasks)) {
			loop_timer_in(tasks->config.loop, &tasks->again, STARTING_MS, on_again,
			              tasks);
			return;
		}
		job = pick(tasks);
		if (!job)
			return;
		unlink_job(&tasks->queue, job);
		tasks->queued--;
		begin(tasks, job);
	}
}

/* Whoever came before it is not kept waiting by it. */
static bool is_its_turn(const struct tasks *tasks, const struct job *job)
{
	return !tasks->is_shut && !tasks->queue && !tasks->arriving && !has_many_starting(tasks) &&
	       has_room(tasks, job);
}

static void enqueue(struct tasks *tasks, struct job *job)
{
	link_job(&tasks->queue, job);
	tasks->queued++;
	tell_store(tasks);
	tasks_serve(tasks);
}

static void tell_waiters(struct job *job)
{
	while (job->waiters) {
		struct tasks_waiter *waiter = job->waiters;

		job->waiters = waiter->next;
		waiter->job = NULL;
		waiter->on_over(waiter, waiter->ctx);
	}
}

/* One may leave in its own callback, and no other may. */
void tasks_job_speaks(struct job *job)
{
	struct tasks_waiter *next;

	for (struct tasks_waiter *waiter = job->waiters; waiter; waiter = next) {
		next = waiter->next;
		if (waiter->on_output)
			waiter->on_output(waiter, waiter->ctx);
	}
}

void tasks_job_over(struct job *job)
{
	struct tasks *tasks = job->tasks;

	if (find_in(tasks->queue, job->run->id.text)) {
		unlink_job(&tasks->queue, job);
		tasks->queued--;
	} else {
		unlink_job(&tasks->jobs, job);
		tasks->running--;
		tell_store(tasks);
	}
	tasks->finished++;
	ledger_settle(job);
	if (job->run->keeps)
		resume_sweep(tasks);
	tell_waiters(job);
	tasks_serve(tasks);
}

/* --- from outside --- */

struct creation {
	struct tasks *tasks;
	struct job *job; /* NULL: no run yet */
	bool is_new;     /* the task is made, too */
	tasks_on_done on_done;
	void *ctx;
};

static void on_created(const struct store_result *result, void *ctx)
{
	auto_free struct creation *creation = ctx;
	struct tasks *tasks = creation->tasks;

	if (creation->job)
		unlink_job(&tasks->arriving, creation->job);
	/* In the queue first: whoever is answered may ask for it. */
	if (creation->job && result->ok && !tasks->is_shut)
		enqueue(tasks, creation->job);
	else if (creation->job)
		job_free(creation->job);
	creation->on_done(result->ok ? &no_err : &result->err, creation->ctx);
}

static void put_event(struct store_write *write, const struct task *task, const struct run *run)
{
	struct event event = {
		.kind = EVENT_TASK_CREATED, .time_ms = io_real_ms(), .sandbox = task->id};
	json_t *data = json_object();

	if (run)
		json_object_set_new(data, "run", json_string(run->id.text));
	json_object_set_new(data, "agent", json_string(task->agent));
	event.data = json_dumps(data, JSON_COMPACT);
	json_decref(data);
	store_put_event(write, &event);
	event_done(&event);
}

static void put_first(struct store_write *write, struct job *job, struct turn *turn)
{
	turn->session = job->task->id;
	turn->run = job->run->id;
	turn->number = 1;
	turn->created_ms = io_real_ms();
	store_add_turn(write, turn);
	turns_note_queued(write, turn);
	turns_arrive(job->turns, turn);
	turns_stored(job->turns, turn->id.text, true); /* it goes with the run, or both do not */
}

void tasks_create(struct tasks *tasks, struct task *task, struct run *run, tasks_on_done on_done,
                  void *ctx)
{
	sessions_create(tasks, task, run, NULL, on_done, ctx);
}

static struct store_write *new_creation(struct creation *creation, const struct task *task,
                                        const struct run *run)
{
	struct store_write *write = store_write_new(creation->tasks->config.store);

	if (creation->is_new)
		store_add_task(write, task);
	if (run)
		store_add_run(write, run);
	if (run && run->resume_from.text[0])
		store_use_resume(write, run->resume_from.text, run->id.text);
	put_event(write, task, run);
	return write;
}

/* It waits for its turn when it is stored. */
static void create_waiting(struct creation *creation, struct store_write *write)
{
	link_job(&creation->tasks->arriving, creation->job);
	store_write_submit(write, on_created, creation);
}

/* The store refuses the token of its run: it is created all the same, and ends for that. */
static void create_again(struct job *job, struct creation *creation)
{
	struct run *run = take_ptr(job->run);
	struct task *task = take_ptr(job->task);

	job_free(job);
	run->state = RUN_PENDING;
	run->step = RUN_STEP_TOKEN;
	run->end = RUN_END_NONE;
	spec_set(&run->detail, NULL);
	run->started_ms = 0;
	run->exec = run->token = (struct id){0};
	creation->job = job_new(creation->tasks, run, task);
	create_waiting(creation, new_creation(creation, task, run));
}

bool tasks_born(struct job *job, const struct store_result *result)
{
	struct creation *creation = take_ptr(job->creation);
	struct tasks *tasks = job->tasks;

	if (result->ok || tasks->is_shut) {
		creation->on_done(result->ok ? &no_err : &result->err, creation->ctx);
		mem_freep(&creation);
		return true;
	}
	unlink_job(&tasks->jobs, job);
	tasks->running--;
	tasks->started--;
	tell_store(tasks);
	if (result->err.code == ERR_FORBIDDEN) {
		create_again(job, creation);
		return false;
	}
	job_free(job);
	creation->on_done(&result->err, creation->ctx);
	mem_freep(&creation);
	return false;
}

void sessions_create(struct tasks *tasks, struct task *task, struct run *run, struct turn *first,
                     tasks_on_done on_done, void *ctx)
{
	struct creation *creation = mem_new(struct creation);
	struct store_write *write;
	struct job *job;

	*creation = (struct creation){.tasks = tasks, .on_done = on_done, .ctx = ctx};
	creation->is_new = task->run_count == 0 && task->created_ms == 0;
	if (creation->is_new)
		task->created_ms = io_real_ms();
	write = new_creation(creation, task, run);
	if (!run) {
		task_free(task);
		store_write_submit(write, on_created, creation);
		return;
	}
	job = creation->job = job_new(tasks, run, task);
	if (first) {
		put_first(write, job, first);
	} else if (is_its_turn(tasks, job)) {
		job->creation = creation;
		job->birth = write;
		begin(tasks, job);
		return;
	}
	create_waiting(creation, write);
}

struct stop {
	tasks_on_done on_done;
	void *ctx;
	struct loop_timer timer;
	struct err err;
};

static void on_stop_said(struct loop_timer *timer, void *ctx)
{
	auto_free struct stop *stop = ctx;

	stop->on_done(&stop->err, stop->ctx);
}

static void on_stop_stored(const struct store_result *result, void *ctx)
{
	auto_free struct stop *stop = ctx;

	stop->on_done(result->ok ? &no_err : &result->err, stop->ctx);
}

void tasks_stop(struct tasks *tasks, const char *run, const char *why, tasks_on_done on_done,
                void *ctx)
{
	struct job *job = tasks_find_job(tasks, run);

	if (job)
		job_end(job, RUN_END_STOPPED, why ? why : "somebody stopped it");
	tasks_say(tasks, run, on_done, ctx);
}

/* What was noted is in the queue of the store: an empty write behind it is answered later. */
void tasks_say(struct tasks *tasks, const char *run, tasks_on_done on_done, void *ctx)
{
	struct stop *stop = mem_new(struct stop);

	stop->on_done = on_done;
	stop->ctx = ctx;
	if (!tasks_find_job(tasks, run)) {
		struct run *row = NULL;

		if (store_run_get(tasks->config.store, run, &row, &stop->err) == 0)
			run_free(row);
		loop_timer_in(tasks->config.loop, &stop->timer, 0, on_stop_said, stop);
		return;
	}
	store_write_submit(store_write_new(tasks->config.store), on_stop_stored, stop);
}

bool tasks_wait(struct tasks *tasks, const char *run, struct tasks_waiter *waiter)
{
	struct job *job = tasks_find_job(tasks, run);

	if (!job || job->is_over)
		return false;
	waiter->job = job;
	waiter->next = job->waiters;
	job->waiters = waiter;
	return true;
}

void tasks_unwait(struct tasks_waiter *waiter)
{
	if (!waiter->job)
		return;
	for (struct tasks_waiter **at = &waiter->job->waiters; *at; at = &(*at)->next) {
		if (*at == waiter) {
			*at = waiter->next;
			break;
		}
	}
	waiter->job = NULL;
}

bool tasks_output(struct tasks *tasks, const char *run, struct tasks_place *ret)
{
	const struct job *job = find_in(tasks->jobs, run);

	if (!job || !job->watch.live)
		return false;
	*ret = (struct tasks_place){job->run->sandbox, job->run->exec};
	return true;
}

bool tasks_run_in(const struct tasks *tasks, const char *sandbox, struct id *ret)
{
	for (const struct job *job = tasks->jobs; job; job = job->next) {
		if (job->run->step <= RUN_STEP_WAIT && str_eq(job->run->sandbox.text, sandbox)) {
			*ret = job->run->id;
			return true;
		}
	}
	return false;
}

bool tasks_git_in(const struct tasks *tasks, const char *sandbox, const char *target,
                  struct tasks_git *ret)
{
	*ret = (struct tasks_git){0};
	for (const struct job *job = tasks->jobs; job; job = job->next) {
		const char *forge = git_text(job, "forge"), *path = git_text(job, "path");
		size_t len = path ? strlen(path) : 0;

		if (!forge || !path || job->run->step > RUN_STEP_PUBLISH ||
		    !str_eq(job->run->sandbox.text, sandbox))
			continue;
		*ret = (struct tasks_git){job->run->id, forge, path, git_text(job, "branch")};
		if (target[0] == '/' && strncmp(target + 1, path, len) == 0 &&
		    str_has_prefix(target + 1 + len, ".git/"))
			break;
	}
	return ret->path != NULL;
}

void tasks_note_maker(struct tasks *tasks, const char *run)
{
	struct job *job = find_in(tasks->jobs, run);

	if (job)
		job->has_made = true;
}

int tasks_files_fd(const struct tasks *tasks)
{
	return tasks->config.files_fd;
}

void tasks_get_stats(const struct tasks *tasks, struct tasks_stats *ret)
{
	*ret = (struct tasks_stats){tasks->queued, tasks->running, tasks->started, tasks->finished};
}

/* --- the beginning and the end --- */

/* Takes the run. */
static int take_up(struct tasks *tasks, struct run *run, struct err *err)
{
	struct progress_list steps = {0};
	struct task *task = NULL;
	struct job *job;

	if (store_task_get(tasks->config.store, run->task.text, &task, err) < 0 ||
	    store_run_steps(tasks->config.store, run->id.text, &steps, err) < 0) {
		task_free(task);
		run_free(run);
		return -1;
	}
	job = job_new(tasks, run, task);
	if (job->turns && turns_load(job->turns, err) < 0) {
		progress_list_done(&steps);
		job_free(job);
		return -1;
	}
	for (size_t i = 0; i < steps.count; i++)
		job->progress[steps.items[i].step] = steps.items[i];
	if (run->state == RUN_PENDING) {
		link_job(&tasks->queue, job);
		tasks->queued++;
		return 0;
	}
	link_job(&tasks->jobs, job);
	tasks->running++;
	tell_store(tasks);
	job_resume(job);
	return 0;
}

int tasks_start(struct tasks *tasks, struct err *err)
{
	auto_free char *after = mem_strdup("");

	while (after) {
		struct run_page page = {0};

		if (store_run_unfinished(tasks->config.store, after, LIMIT_PAGE, &page, err) < 0)
			return -1;
		mem_freep(&after);
		after = take_ptr(page.next_cursor);
		for (size_t i = 0; i < page.count; i++) {
			struct run *run = page.items[i];

			page.items[i] = NULL;
			if (take_up(tasks, run, err) < 0) {
				run_page_done(&page);
				return -1;
			}
		}
		run_page_done(&page);
	}
	if (account_load(tasks, err) < 0)
		return -1;
	/* What was revoked, or ended above, when nobody was there to see to it. */
	tasks_recheck(tasks);
	tasks_serve(tasks);
	resume_sweep(tasks);
	return 0;
}

static void shut_all(struct job *list)
{
	for (struct job *job = list; job; job = job->next) {
		watch_end(job);
		loop_timer_stop(&job->step_timer);
		loop_timer_stop(&job->commit_retry);
		loop_timer_stop(&job->frozen);
		tell_waiters(job);
		if (job->turns)
			turns_shut(job->turns);
	}
}

void tasks_shut(struct tasks *tasks)
{
	resume_sweep_stop(tasks);
	shut_all(tasks->jobs);
	shut_all(tasks->queue);
	tasks->is_shut = true;
	loop_timer_stop(&tasks->reload);
	loop_timer_stop(&tasks->again);
	meter_shut(tasks);
	fetch_shut(tasks);
}

static void free_all(struct job *list)
{
	struct job *next;

	for (struct job *job = list; job; job = next) {
		next = job->next;
		job_free(job);
	}
}

void tasks_free(struct tasks *tasks)
{
	if (!tasks)
		return;
	keep_shut(tasks);
	free_all(tasks->jobs);
	free_all(tasks->queue);
	free_all(tasks->arriving);
	account_done(tasks);
	outside_done(tasks);
	tenant_done(tasks);
	fd_closep(&tasks->config.files_fd);
	mem_freep(&tasks);
}
