/*
 * The second half of lifecycle.h: how sandboxes end, by themselves, by a stop, by a removal.
 */
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/leftover.h"
#include "daemon/lifecycle.h"
#include "daemon/live.h"
#include "daemon/notes.h"
#include "daemon/pool.h"
#include "daemon/step.h"
#include "store/later.h"
#include "task/meter.h"

enum {
	STOP_ANSWER_MS = 10 * 1000,
	STOP_PATIENCE_MS = 15 * 1000, /* after the grace; then it is taken down */
	REPEATED_GRACE_MS = 2000,
	RECONNECTS = 3,
	RECONNECT_MS = 100,
};

static const struct err no_err;

/* --- the end --- */

static void on_end_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	member->is_ending = false;
	fleet_note_end(member->fleet, result->ok);
	if (result->ok) {
		meter_ended(member->fleet->tasks, member->row->id.text);
		member_answer(&member->stop_waiters, member->row, &no_err);
	} else {
		log_error("the end of a sandbox is not recorded; it is looked at again",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(&result->err));
		member->fleet->has_unknown_ends = true;
		member_answer(&member->stop_waiters, NULL, &result->err);
	}
	member_unref(member);
}

static void on_end_reaped(const struct err *err, void *ctx)
{
	struct member *member = ctx;
	struct sandbox *row = member->row;
	struct err refused = {0};

	step_answered(member, METRICS_REAP, err);
	if (step_is_cut_off(member, err))
		return;
	if (err->code != ERR_OK && row->state != SANDBOX_REMOVING) {
		log_error("an ended sandbox leaves something behind; trying again",
		          LOG_STR("sandbox", row->id.text), LOG_ERR(err));
		leftover_add(member->fleet, row->id.text, true);
	}
	if (row->state == SANDBOX_REMOVING) {
		member->is_ending = false;
		lifecycle_continue_removal(member);
	} else if (step_apply(member, member->is_lost ? SANDBOX_EVENT_LOST : SANDBOX_EVENT_ENDED,
	                      &refused) == 0) {
		row->ended_ms = member->ended_ms ? member->ended_ms : io_real_ms();
		if (member->cut_why && row->state == SANDBOX_STOPPED) {
			spec_set(&row->end_reason, "budget");
			spec_set(&row->detail, member->cut_why);
		}
		step_store(member,
		           row->state == SANDBOX_STOPPED ? EVENT_SANDBOX_STOPPED
		                                         : EVENT_SANDBOX_FAILED,
		           on_end_stored);
	} else {
		member->is_ending = false;
	}
	member_unref(member);
}

/* The keeper is gone for good: says so of its execs, tidies up, records it. */
static void end(struct member *member)
{
	struct sandbox *row = member->row;

	if (member->is_ending || row->state == SANDBOX_REMOVING || member->fleet->is_shut)
		return;
	member->is_ending = true;
	row->meters.frozen = 0;
	loop_timer_stop(&member->timer);
	member_disconnect(member);
	member->is_lost = !member->has_said_gone && !member_read_exit(member);
	if (member->is_lost) {
		spec_set(&row->end_reason, "lost");
		spec_set(&row->detail, "its keeper vanished without a word");
	} else if (row->state == SANDBOX_CREATING || str_eq(row->end_reason, "lost")) {
		member->is_lost = true;
		spec_set(&row->detail, "its init ended unexpectedly");
	}
	live_end_all(member, row->end_reason);
	step_reap(member, true, on_end_reaped);
}

static void send_stop(struct member *member);

static void on_reconnect(struct loop_timer *timer, void *ctx)
{
	struct member *member = ctx;
	struct err err = {0};

	if (member_adopt(member, NULL, NULL, &err) == 0) {
		log_info("keeper is back", LOG_STR("sandbox", member->row->id.text));
		if (member->row->state == SANDBOX_STOPPING && member->is_stop_stored)
			send_stop(member); /* it may never have got the first one */
		return;
	}
	if (++member->attempts < RECONNECTS)
		loop_timer_in(member->fleet->loop, timer, RECONNECT_MS, on_reconnect, member);
	else
		end(member);
}

void lifecycle_keeper_gone(struct member *member)
{
	if (member->shelf) {
		if (!member->fleet->is_shut)
			pool_lost(member);
		return;
	}
	if (member->fleet->is_shut || member->is_ending || member->is_busy ||
	    !sandbox_is_alive(member->row->state))
		return;
	if (member->has_said_gone || member_read_exit(member)) {
		end(member);
		return;
	}
	/* It may have dropped a connection that did not take its messages. */
	member->attempts = 0;
	loop_timer_in(member->fleet->loop, &member->timer, 0, on_reconnect, member);
}

/* --- stop --- */

/* We end it ourselves: it is stopped, not lost. */
static void take_down(struct member *member)
{
	if (!member->row->end_reason)
		spec_set(&member->row->end_reason, "stopped");
	member->has_said_gone = true;
	end(member);
}

static void on_stop_answer(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct member *member = ctx;

	/* Without a connection the way of a keeper that is gone goes on by itself. */
	if (!msg && err->code != ERR_UNAVAILABLE && member->row->state == SANDBOX_STOPPING &&
	    !member->is_busy) {
		log_warn("a keeper does not stop its sandbox; it is taken down",
		         LOG_STR("sandbox", member->row->id.text), LOG_ERR(err));
		take_down(member);
	}
	member_unref(member);
}

static void on_patience_over(struct loop_timer *timer, void *ctx)
{
	struct member *member = ctx;

	log_warn("a sandbox did not stop in time; it is taken down",
	         LOG_STR("sandbox", member->row->id.text));
	take_down(member);
}

static void send_stop(struct member *member)
{
	auto_wire_out struct wire_out out = {0};
	uint64_t number;

	if (!member->peer)
		return; /* it is reconnecting or ending; either way goes on by itself */
	number = peer_begin(member->peer, &out, WIRE_K_STOP);
	wire_put_u64(&out, FIELD_GRACE_MS, member->grace_ms);
	peer_call(member->peer, number, &out, STOP_ANSWER_MS, on_stop_answer, member_ref(member));
	loop_timer_in(member->fleet->loop, &member->timer, member->grace_ms + STOP_PATIENCE_MS,
	              on_patience_over, member);
}

static void on_stopping_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	if (!result->ok)
		member_answer(&member->stop_waiters, NULL, &result->err);
	if (member->row->state == SANDBOX_STOPPING) {
		member->is_stop_stored = result->ok;
		if (result->ok)
			send_stop(member);
		else
			member_set_state(member, SANDBOX_RUNNING); /* as it is on disk */
	}
	member_unref(member);
}

void lifecycle_stop(struct fleet *fleet, const char *id, uint64_t grace_ms,
                    engine_on_sandbox on_sandbox, void *ctx)
{
	struct member *member;
	struct err err = {0};
	bool again;

	if (fleet_get(fleet, id, &member, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
		return;
	}
	again = member->row->state == SANDBOX_STOPPING;
	if (step_apply(member, SANDBOX_EVENT_STOP, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
	} else {
		member->grace_ms = grace_ms;
		member_wait(&member->stop_waiters, on_sandbox, NULL, ctx);
		if (!again) {
			member->is_stop_stored = false;
			step_store(member, EVENT_SANDBOX_STOPPING, on_stopping_stored);
		} else if (member->is_stop_stored) {
			send_stop(member);
		}
	}
	member_unref(member);
}

static void on_cut(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	if (!sandbox)
		log_warn("a sandbox that nobody pays for does not stop; trying again",
		         LOG_ERR(err));
}

void lifecycle_cut(struct fleet *fleet, const char *id, const char *why)
{
	struct member *member = fleet_find(fleet, id);

	if (!member || member->row->state != SANDBOX_RUNNING)
		return;
	spec_set(&member->cut_why, why);
	lifecycle_stop(fleet, id, 0, on_cut, NULL);
}

void lifecycle_repeat_stop(struct member *member)
{
	member->grace_ms = REPEATED_GRACE_MS;
	member->is_stop_stored = true;
	send_stop(member);
}

/* --- remove --- */

static void on_removal_due(struct loop_timer *timer, void *ctx)
{
	struct member *member = ctx;

	member->is_retrying = false;
	metrics_count(&member->fleet->metrics, METRICS_REPEATS);
	lifecycle_continue_removal(member);
	member_unref(member);
}

/* Whoever waited was told; what is stored is done, however long it takes. */
static void repeat_removal(struct member *member)
{
	struct fleet *fleet = member->fleet;

	if (fleet->is_shut)
		return;
	member->is_retrying = true;
	loop_timer_in(fleet->loop, &member->timer, fleet_retry_ms(fleet, member->attempts++),
	              on_removal_due, member_ref(member));
}

static void on_removed_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	member_answer(&member->remove_waiters, NULL, result->ok ? &no_err : &result->err);
	if (result->ok) {
		member_leave_state(member);
	} else {
		log_error("a removal is not recorded; trying again",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(&result->err));
		repeat_removal(member);
	}
	member_unref(member);
}

static void on_removal_reaped(const struct err *err, void *ctx)
{
	struct member *member = ctx;
	struct event event;

	step_answered(member, METRICS_REAP, err);
	if (step_is_cut_off(member, err))
		return;
	if (err->code == ERR_CONFLICT) {
		/* What a daemon before us asked for is still being done, and that has an end. */
		log_warn("a removal waits for what is under way",
		         LOG_STR("sandbox", member->row->id.text));
		repeat_removal(member);
	} else if (err->code != ERR_OK) {
		log_error("a sandbox cannot be removed; trying again",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(err));
		member_answer(&member->remove_waiters, NULL, err);
		repeat_removal(member);
	} else {
		note_sandbox(&event, EVENT_SANDBOX_REMOVED, member->row);
		store_sandbox_delete(member->fleet->store, member->row->id.text, &event,
		                     on_removed_stored, member_ref(member));
		event_done(&event);
	}
	member_unref(member);
}

void lifecycle_continue_removal(struct member *member)
{
	if (!member->is_removal_stored || member->is_busy || member->fleet->is_shut)
		return;
	if (calm_forget(&member->fleet->calm, &member->removal))
		member_unref(member); /* the caller has one, too */
	loop_timer_stop(&member->timer);
	member_disconnect(member);
	live_end_all(member, "stopped");
	member_answer(&member->stop_waiters, member->row, &no_err);
	step_reap(member, false, on_removal_reaped);
}

static void on_calm(struct calm_job *job, void *ctx)
{
	struct member *member = ctx;

	lifecycle_continue_removal(member);
	member_unref(member);
}

/* Of one whose command ended: whoever asks for the next one goes first. */
static void remove_when_calm(struct member *member)
{
	if (member->fleet->is_shut || member->removal.is_waiting)
		return;
	calm_wait(&member->fleet->calm, &member->removal, on_calm, member_ref(member));
}

static void on_removal_stored(const struct store_result *result, void *ctx);

static void on_store_due(struct loop_timer *timer, void *ctx)
{
	struct member *member = ctx;

	member->is_retrying = false;
	metrics_count(&member->fleet->metrics, METRICS_REPEATS);
	member->fleet->told_early++;
	step_store_soon(member, EVENT_SANDBOX_REMOVING, on_removal_stored);
	member_unref(member);
}

/* Whoever it was made for has left, and what the store refused may be that it ever was: nobody but
 * us would know of it. */
static void store_removal_again(struct member *member)
{
	struct fleet *fleet = member->fleet;

	member->is_retrying = true;
	loop_timer_in(fleet->loop, &member->timer, fleet_retry_ms(fleet, member->attempts++),
	              on_store_due, member_ref(member));
}

static void on_removal_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;
	bool is_given_up = member->is_given_up;

	if (member->row->spec.is_ephemeral && --member->fleet->told_early == 0)
		member_answer(&member->fleet->settle_waiters, NULL, &no_err);
	member->is_given_up = false;
	if (result->ok) {
		meter_ended(member->fleet->tasks, member->row->id.text);
		member->is_removal_stored = true;
		member->attempts = 0;
		member_answer(&member->removing_waiters, NULL, &no_err);
		if (member->row->spec.is_ephemeral && !member->remove_waiters)
			remove_when_calm(member);
		else
			lifecycle_continue_removal(member);
	} else if (member->row->spec.is_ephemeral && !member->remove_waiters &&
	           !member->fleet->is_shut && !is_given_up) {
		member_answer(&member->removing_waiters, NULL, &result->err);
		store_removal_again(member);
	} else {
		/* As it is on disk; what runs of it runs on. */
		member_set_state(member, member->state_before);
		member_answer(&member->removing_waiters, NULL, &result->err);
		member_answer(&member->remove_waiters, NULL, &result->err);
	}
	member_unref(member);
}

static void store_removal(struct member *member)
{
	if (member->is_told_early)
		step_store_soon(member, EVENT_SANDBOX_REMOVING, on_removal_stored);
	else
		step_store(member, EVENT_SANDBOX_REMOVING, on_removal_stored);
}

static void on_last_meters(const struct err *err, void *ctx)
{
	struct member *member = ctx;

	store_removal(member); /* with what is known, if its keeper did not answer */
	member_unref(member);
}

/* What one that runs used up to now goes with the commit that says that it goes. */
static void begin_removal(struct member *member)
{
	if (sandbox_is_alive(member->state_before) && peer_is_open(member->peer) &&
	    meter_counts(member->fleet->tasks, member->row->id.text))
		member_meter(member, on_last_meters, member_ref(member));
	else
		store_removal(member);
}

void lifecycle_remove(struct fleet *fleet, const char *id, unsigned how, engine_on_done on_done,
                      void *ctx)
{
	struct member *member;
	enum sandbox_state before;
	struct err err = {0};

	if (fleet_get(fleet, id, &member, &err) < 0) {
		lifecycle_refuse(fleet, &err, NULL, on_done, ctx);
		return;
	}
	before = member->row->state;
	if (step_apply(member,
	               how & ENGINE_REMOVE_FORCE ? SANDBOX_EVENT_REMOVE_FORCE
	                                         : SANDBOX_EVENT_REMOVE,
	               &err) < 0 ||
	    (how & ENGINE_REMOVE_DETACH && member->is_removal_stored)) {
		lifecycle_refuse(fleet, &err, NULL, on_done, ctx); /* or it is certain already */
	} else {
		bool is_first = !member->remove_waiters && !member->removing_waiters &&
		                !member->is_removal_stored && !member->is_given_up;

		member_wait(how & ENGINE_REMOVE_DETACH ? &member->removing_waiters
		                                       : &member->remove_waiters,
		            NULL, on_done, ctx);
		if (is_first) {
			if (member->is_retrying) {
				loop_timer_stop(&member->timer);
				member->is_retrying = false;
				member_unref(member); /* fleet_get gave another */
			} else {
				member->state_before = before;
			}
			fleet->told_early += member->row->spec.is_ephemeral;
			member->is_told_early =
				member->row->spec.is_ephemeral && how & ENGINE_REMOVE_DETACH;
			begin_removal(member);
		} else if (member->is_retrying) {
			loop_timer_in(fleet->loop, &member->timer, 0, on_removal_due, member);
		} else if (member->removal.is_waiting && !(how & ENGINE_REMOVE_DETACH)) {
			lifecycle_continue_removal(member);
		}
	}
	member_unref(member);
}

/* Nobody else ends it or waits for that. */
static bool can_give_up(const struct fleet *fleet, const struct member *member)
{
	return !fleet->is_shut && member->row->spec.is_ephemeral &&
	       member->row->state == SANDBOX_RUNNING && !member->is_ending &&
	       !member->is_retrying && !member->stop_waiters && !member->removing_waiters &&
	       !member->remove_waiters;
}

bool lifecycle_give_up(struct fleet *fleet, const char *id, struct store_write *write)
{
	struct member *member = fleet_find(fleet, id);
	struct err err = {0};

	if (!member || !can_give_up(fleet, member))
		return false;
	if (!write)
		return true;
	member->state_before = member->row->state;
	if (step_apply(member, SANDBOX_EVENT_REMOVE_FORCE, &err) < 0)
		return false;
	fleet->told_early++;
	member->is_told_early = true;
	member->is_given_up = true;
	step_put(member, EVENT_SANDBOX_REMOVING, write);
	member_ref(member);
	return true;
}

void lifecycle_given_up(struct fleet *fleet, const char *id, const struct store_result *result)
{
	struct member *member = fleet_find(fleet, id);

	if (member && member->is_given_up)
		on_removal_stored(result, member);
}

void lifecycle_settle(struct fleet *fleet, engine_on_done on_done, void *ctx)
{
	if (fleet->told_early > 0) {
		member_wait(&fleet->settle_waiters, NULL, on_done, ctx);
		store_hurry(fleet->store);
	} else {
		on_done(&no_err, ctx);
	}
}

bool lifecycle_push(struct member *member)
{
	if (member->row->state != SANDBOX_STOPPING || member->is_busy || member->is_ending)
		return false; /* an answer with a time limit is under way */
	take_down(member);
	return true;
}

void lifecycle_repeat_removal(struct member *member)
{
	member->is_removal_stored = true;
	lifecycle_continue_removal(member);
}
