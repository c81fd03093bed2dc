#include "task/sessions.h"

#include "acp/client.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/turn.h"
#include "task/drive.h"
#include "task/job.h"
#include "task/turns_impl.h"

static const struct err no_err;

/* An answer that comes as every other: after the call has returned. */
struct saying {
	tasks_on_done on_done;
	void *ctx;
	struct loop_timer timer;
	struct err err;
};

static void on_say(struct loop_timer *timer, void *ctx)
{
	auto_free struct saying *saying = ctx;

	saying->on_done(&saying->err, saying->ctx);
}

static void say(struct tasks *tasks, const struct err *err, tasks_on_done on_done, void *ctx)
{
	struct saying *saying = mem_new(struct saying);

	*saying = (struct saying){.on_done = on_done, .ctx = ctx, .err = *err};
	loop_timer_in(tasks->config.loop, &saying->timer, 0, on_say, saying);
}

static struct job *find(struct tasks *tasks, const char *run)
{
	struct job *job = tasks_find_job(tasks, run);

	return job && job->turns && !job->is_over ? job : NULL;
}

/* --- turns that come --- */

struct adding {
	struct tasks *tasks;
	struct id run, turn;
	tasks_on_done on_done;
	void *ctx;
};

static void steer(struct turns *turns, struct turn_item *item)
{
	if (!item || !item->turn->is_steer)
		return;
	for (struct turn_item *at = turns->first; at; at = at->next) {
		if (at->turn->state == TURN_RUNNING) {
			turns_ask_stop(turns, at, TURN_END_STEERED);
			return;
		}
	}
}

static void on_added(const struct store_result *result, void *ctx)
{
	auto_free struct adding *adding = ctx;
	struct job *job = adding->tasks->is_shut ? NULL : find(adding->tasks, adding->run.text);

	if (job) {
		turns_stored(job->turns, adding->turn.text, result->ok);
		steer(job->turns, turns_find(job->turns, adding->turn.text));
		drive_next(job);
	}
	adding->on_done(result->ok ? &no_err : &result->err, adding->ctx);
}

static int check(const struct job *job, struct err *err)
{
	size_t open = 0;

	if (!job || job->run->end != RUN_END_NONE)
		return err_set(err, ERR_CONFLICT, "the session is over%s%s",
		               job && job->run->detail ? ": " : "",
		               job && job->run->detail ? job->run->detail : "");
	for (const struct turn_item *item = job->turns->first; item; item = item->next)
		open++;
	if (open >= SESSION_OPEN_MOST)
		return err_set(err, ERR_CONFLICT, "%d turns of this session wait already",
		               SESSION_OPEN_MOST);
	return 0;
}

void turns_note_queued(struct store_write *write, const struct turn *turn)
{
	struct event event = {
		.kind = EVENT_SESSION_TURN, .time_ms = turn->created_ms, .sandbox = turn->session};
	json_t *data = json_pack("{s:s, s:s, s:I, s:s}", "run", turn->run.text, "turn",
	                         turn->id.text, "number", (json_int_t)turn->number, "status",
	                         turn_state_name(turn->state));

	if (turn->label)
		json_object_set_new(data, "label", json_string(turn->label));
	event.data = json_dumps(data, JSON_COMPACT);
	json_decref(data);
	store_put_event(write, &event);
	event_done(&event);
}

void sessions_add(struct tasks *tasks, const char *run, struct turn *turn, tasks_on_done on_done,
                  void *ctx)
{
	struct job *job = find(tasks, run);
	struct store_write *write;
	struct adding *adding;
	struct err err = {0};

	if (check(job, &err) < 0) {
		turn_free(turn);
		say(tasks, &err, on_done, ctx);
		return;
	}
	turn->session = job->task->id;
	turn->run = job->run->id;
	turn->number = job->turns->last + 1;
	turn->created_ms = io_real_ms();
	adding = mem_new(struct adding);
	*adding = (struct adding){tasks, job->run->id, turn->id, on_done, ctx};
	write = store_write_new(tasks->config.store);
	store_add_turn(write, turn);
	turns_note_queued(write, turn);
	turns_arrive(job->turns, turn);
	store_write_submit(write, on_added, adding);
}

const struct turn *sessions_message(struct tasks *tasks, const char *run, const char *message)
{
	struct job *job = find(tasks, run);

	for (struct turn_item *item = job ? job->turns->first : NULL; item; item = item->next) {
		if (item->turn->message_id && str_eq(item->turn->message_id, message))
			return item->turn;
	}
	return NULL;
}

/* --- what ends them --- */

void sessions_cancel(struct tasks *tasks, const char *run, const char *turn, tasks_on_done on_done,
                     void *ctx)
{
	struct job *job = find(tasks, run);
	struct turn_item *item = job ? turns_find(job->turns, turn) : NULL;
	struct err err = {0};

	if (!item || turn_is_over(item->turn)) {
		(void)err_set(&err, ERR_CONFLICT, "the turn is over"); /* always -1 */
	} else if (item->turn->state == TURN_RUNNING) {
		turns_ask_stop(job->turns, item, TURN_END_CANCELLED);
	} else {
		turns_drop(job->turns, turn);
		job_commit(job, NULL);
	}
	say(tasks, &err, on_done, ctx);
}

void sessions_end(struct tasks *tasks, const char *run, enum run_end end, const char *detail,
                  tasks_on_done on_done, void *ctx)
{
	struct job *job = find(tasks, run);

	/* An agent that is there may leave by itself, which is tidier. */
	if (job && job->run->end == RUN_END_NONE && !drive_leave(job, end, detail))
		job_end(job, end, detail);
	tasks_say(tasks, run, on_done, ctx);
}

/* --- looking --- */

bool sessions_wait(struct tasks *tasks, const char *run, const char *turn,
                   struct session_waiter *waiter)
{
	struct job *job = find(tasks, run);
	struct turn_item *item = job ? turns_find(job->turns, turn) : NULL;

	if (!item)
		return false;
	waiter->at = item;
	waiter->next = item->waiters;
	item->waiters = waiter;
	return true;
}

void sessions_unwait(struct session_waiter *waiter)
{
	struct turn_item *item = waiter->at;

	if (!item)
		return;
	for (struct session_waiter **at = &item->waiters; *at; at = &(*at)->next) {
		if (*at == waiter) {
			*at = waiter->next;
			break;
		}
	}
	waiter->at = NULL;
}

void sessions_look(struct tasks *tasks, const char *run, struct session_now *ret)
{
	const struct job *job = find(tasks, run);

	*ret = (struct session_now){.phase = SESSION_OVER};
	if (!job)
		return;
	ret->phase = !job->is_started                                      ? SESSION_WAITING
	             : drive_is_ready(job, ret->agent, sizeof(ret->agent)) ? SESSION_IDLE
	                                                                   : SESSION_STARTING;
	for (const struct turn_item *item = job->turns->first; item; item = item->next) {
		ret->queued += item->turn->state == TURN_QUEUED;
		if (item->turn->state == TURN_RUNNING) {
			ret->turn = item->turn->id;
			ret->phase = SESSION_BUSY;
		}
	}
}

bool sessions_in(const struct tasks *tasks, const char *sandbox, struct id *ret)
{
	struct job *const lists[] = {tasks->jobs, tasks->queue, tasks->arriving};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		for (const struct job *job = lists[i]; job; job = job->next) {
			const char *guest = job_guest(job);

			if (!job->is_over && guest && str_eq(guest, sandbox)) {
				*ret = job->task->id;
				return true;
			}
		}
	}
	return false;
}
