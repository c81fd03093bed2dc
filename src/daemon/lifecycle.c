#include "daemon/lifecycle.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "daemon/leftover.h"
#include "daemon/live.h"
#include "daemon/notes.h"
#include "daemon/pool.h"
#include "runtime/image.h"
#include "runtime/runtime.h"
#include "store/store.h"

enum {
	STOP_ANSWER_MS = 10 * 1000,
	STOP_PATIENCE_MS = 15 * 1000, /* after the grace; then it is taken down */
	REPEATED_GRACE_MS = 2000,
	RECONNECTS = 3,
	RECONNECT_MS = 100,
	CLAIM_MS = 5000,
};

static const struct err no_err;

/* The daemon ends while the broker was asked: what came of it shows at the next start, so the row
 * stays as it is on disk. */
static bool is_cut_off(struct member *member, const struct err *err)
{
	if (!member->fleet->is_shut)
		return false;
	member_answer(&member->start_waiters, NULL, err);
	member_answer(&member->stop_waiters, NULL, err);
	member_answer(&member->removing_waiters, NULL, err);
	member_answer(&member->remove_waiters, NULL, err);
	member_unref(member);
	return true;
}

/* --- storing --- */

/* Moves the row on, or says why not. */
static int apply(struct member *member, enum sandbox_event event, struct err *err)
{
	enum sandbox_state state;

	if (sandbox_apply(member->row->state, event, &state, err) < 0)
		return -1;
	member_set_state(member, state);
	return 0;
}

/* --- the broker --- */

static void reap(struct member *member, bool keep_files, runtime_on_reaped on_reaped)
{
	struct runtime *runtime = member->fleet->runtime;

	member->is_busy = true;
	member->asked_us = io_boot_us();
	runtime->ops->reap(runtime, member->row->id.text, keep_files, on_reaped,
	                   member_ref(member));
}

/* The first thing in every answer of the broker. */
static void answered(struct member *member, enum metrics_span span, const struct err *err)
{
	struct metrics *metrics = &member->fleet->metrics;

	member->is_busy = false;
	metrics_since(metrics, span, member->asked_us);
	if (err->code != ERR_OK)
		metrics_count(metrics, span == METRICS_REAP ? METRICS_REAP_FAILURES
		                                            : METRICS_LAUNCH_FAILURES);
}

static void store_row(struct member *member, enum event_kind kind, store_on_done on_done)
{
	struct event event;

	member_ref(member);
	note_sandbox(&event, kind, member->row);
	store_sandbox_put(member->fleet->store, member->row, &event, on_done, member);
	event_done(&event);
	log_info("sandbox changes", LOG_STR("sandbox", member->row->id.text),
	         LOG_STR("state", sandbox_state_name(member->row->state)));
}

/* --- the end of a start that failed --- */

static void continue_removal(struct member *member);

/* What the caller needs is why it failed; the row's detail and the event are the same sentence. */
static void answer_failure(struct member *member)
{
	struct err err = {0};

	(void)err_set(&err, member->start_err.code, "%s", member->start_err.msg);
	member_answer(&member->start_waiters, NULL, &err);
	member_unref(member);
}

static void on_unborn_deleted(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	if (!result->ok)
		log_error("a sandbox that never ran stays as failed",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(&result->err));
	answer_failure(member);
}

static void on_failure_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;
	struct event event;

	if (!result->ok)
		log_error("a failed start is not recorded; the next start of the daemon does it",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(&result->err));
	/* One that never ran and whose caller is told why is of no use to anybody and would hold
	 * its name. Where nobody is left to be told, the row tells. */
	if (!result->ok || !member->is_undone || member->is_restart || !member->start_waiters) {
		answer_failure(member);
		return;
	}
	note_sandbox(&event, EVENT_SANDBOX_REMOVED, member->row);
	store_sandbox_delete(member->fleet->store, member->row->id.text, &event, on_unborn_deleted,
	                     member);
	event_done(&event);
}

static void on_undone(const struct err *err, void *ctx)
{
	struct member *member = ctx;
	struct err refused = {0};

	answered(member, METRICS_REAP, err);
	member->is_undone = err->code == ERR_OK;
	if (is_cut_off(member, err))
		return;
	if (err->code != ERR_OK && member->row->state != SANDBOX_REMOVING) {
		log_error("a failed start leaves something behind; trying again",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(err));
		leftover_add(member->fleet, member->row->id.text, member->is_restart);
	}
	if (member->row->state == SANDBOX_REMOVING) {
		member_answer(&member->start_waiters, NULL, &member->start_err);
		continue_removal(member);
	} else if (apply(member, SANDBOX_EVENT_START_FAILED, &refused) == 0) {
		member->row->ended_ms = io_real_ms();
		spec_set(&member->row->end_reason, "start_failed");
		spec_set(&member->row->detail, member->start_err.msg);
		store_row(member, EVENT_SANDBOX_FAILED, on_failure_stored);
	} else {
		member_answer(&member->start_waiters, NULL, &member->start_err);
	}
	member_unref(member);
}

/* Takes down what the launch made. Files of an earlier life are kept. */
static void undo_start(struct member *member, const struct err *err)
{
	member->start_err = *err;
	member_disconnect(member);
	reap(member, member->is_restart, on_undone);
}

/* --- create and start --- */

static void on_running_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	if (result->ok)
		member_answer(&member->start_waiters, member->row, &no_err);
	else if (member->fleet->is_shut)
		member_answer(&member->start_waiters, NULL, &result->err);
	else if (member->row->state == SANDBOX_RUNNING) {
		/* A sandbox nobody can find must not run. */
		member_set_state(member, SANDBOX_CREATING);
		undo_start(member, &result->err);
	} else {
		member_answer(&member->start_waiters, NULL, &result->err);
	}
	member_unref(member);
}

static bool has_degraded(const struct strings *mechanisms)
{
	for (size_t i = 0; i < mechanisms->count; i++) {
		if (str_has_prefix(mechanisms->items[i], "degraded="))
			return true;
	}
	return false;
}

static int take_over(struct member *member, const struct strings *mechanisms, struct err *err)
{
	struct sandbox *row = member->row;

	if (member_connect(member, err) < 0)
		return -1;
	if (apply(member, SANDBOX_EVENT_STARTED, err) < 0)
		return -1;
	strings_copy(&row->mechanisms, mechanisms);
	row->is_degraded = has_degraded(mechanisms);
	row->started_ms = io_real_ms();
	row->expires_ms = row->spec.ttl_ms ? row->started_ms + row->spec.ttl_ms : 0;
	if (row->expires_ms)
		member_send_deadline(member);
	return 0;
}

static void on_launched(const struct strings *mechanisms, const struct err *err, void *ctx)
{
	struct member *member = ctx;
	struct err failed = *err;

	answered(member, METRICS_LAUNCH, err);
	if (is_cut_off(member, err))
		return;
	if (member->row->state == SANDBOX_REMOVING) {
		(void)err_set(&failed, ERR_GONE, "the sandbox was removed while it started");
		member_answer(&member->start_waiters, NULL, &failed);
		continue_removal(member);
	} else if (err->code != ERR_OK || take_over(member, mechanisms, &failed) < 0) {
		undo_start(member, &failed);
	} else {
		store_row(member, EVENT_SANDBOX_RUNNING, on_running_stored);
		if (member->row->spec.is_ephemeral)
			member_answer(&member->start_waiters, member->row, &no_err);
	}
	member_unref(member);
}

static int layers_of(struct member *member, struct strings *layers, struct err *err)
{
	auto_(image_freep) struct image *image = NULL;
	const struct sandbox *row = member->row;

	if (!image_is_host(row->spec.image) &&
	    store_image_get(member->fleet->store, row->image_id.text, &image, err) < 0)
		return err_wrap(err, "image %s", row->spec.image);
	image_layers(image, layers);
	return 0;
}

static void on_creation_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;
	struct runtime *runtime = member->fleet->runtime;
	struct strings layers = {0};
	struct err err = {0};

	(void)err_set(&err, ERR_UNAVAILABLE, "the daemon is ending"); /* always -1 */
	if (is_cut_off(member, &err))
		return;
	err = no_err;
	if (!result->ok) {
		/* Nothing was made and no row is there (or it is as it was before). */
		member_set_state(member, SANDBOX_FAILED);
		member_answer(&member->start_waiters, NULL, &result->err);
	} else if (member->row->state == SANDBOX_REMOVING) {
		(void)err_set(&err, ERR_GONE, "the sandbox was removed before it started");
		member_answer(&member->start_waiters, NULL, &err);
		continue_removal(member);
	} else if (layers_of(member, &layers, &err) < 0) {
		undo_start(member, &err);
	} else {
		member->is_busy = true;
		member->asked_us = io_boot_us();
		runtime->ops->launch(runtime, member->row, &layers, false, on_launched,
		                     member_ref(member));
	}
	strings_done(&layers);
	member_unref(member);
}

struct refusal {
	struct loop_timer timer;
	struct member_waiter *waiter;
	struct err err;
};

static void on_refusal(struct loop_timer *timer, void *ctx)
{
	auto_free struct refusal *refusal = ctx;

	member_answer(&refusal->waiter, NULL, &refusal->err);
}

void lifecycle_refuse(struct fleet *fleet, const struct err *err, engine_on_sandbox on_sandbox,
                      engine_on_done on_done, void *ctx)
{
	struct refusal *refusal = mem_new(struct refusal);

	refusal->err = *err;
	member_wait(&refusal->waiter, on_sandbox, on_done, ctx);
	loop_timer_in(fleet->loop, &refusal->timer, 0, on_refusal, refusal);
}

/* --- create from the pool --- */

static void create_anew(struct fleet *fleet, struct sandbox *row, struct member_waiter *waiters)
{
	struct member *member = fleet_add(fleet, row);

	member->start_waiters = waiters;
	store_row(member, EVENT_SANDBOX_CREATED, on_creation_stored);
	member_unref(member);
}

/* Created and running in one commit: there was no time between. */
static void store_claimed(struct member *member)
{
	static const enum event_kind kinds[] = {EVENT_SANDBOX_CREATED, EVENT_SANDBOX_RUNNING};
	struct store_write *write = store_write_new(member->fleet->store);

	store_put_sandbox(write, member->row);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct event event;

		note_sandbox(&event, kinds[i], member->row);
		store_put_event(write, &event);
		event_done(&event);
	}
	store_write_submit(write, on_running_stored, member_ref(member));
	log_info("sandbox changes", LOG_STR("sandbox", member->row->id.text),
	         LOG_STR("state", sandbox_state_name(member->row->state)));
}

static void on_claimed(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct member *member = ctx;
	struct sandbox *row = member->row;
	struct err refused = {0};

	metrics_since(&member->fleet->metrics, METRICS_CLAIM, member->asked_us);
	if (is_cut_off(member, err))
		return;
	if (!msg || apply(member, SANDBOX_EVENT_STARTED, &refused) < 0) {
		log_warn("a parked sandbox could not be claimed; another is made",
		         LOG_STR("sandbox", row->id.text), LOG_ERR(msg ? &refused : err));
		struct sandbox *again = sandbox_new(&row->spec, io_real_ms());

		metrics_count(&member->fleet->metrics, METRICS_CLAIM_FAILURES);
		again->image_id = row->image_id;
		create_anew(member->fleet, again, take_ptr(member->start_waiters));
		pool_discard(member);
		return;
	}
	row->started_ms = io_real_ms();
	row->expires_ms = row->spec.ttl_ms ? row->started_ms + row->spec.ttl_ms : 0;
	store_claimed(member);
	if (row->spec.is_ephemeral)
		member_answer(&member->start_waiters, row, &no_err);
	member_unref(member);
}

/* Takes the pool's reference. */
static void claim(struct member *member, const struct spec *spec, struct member_waiter *waiters)
{
	struct sandbox *row = member->row;
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(member->peer, &out, WIRE_K_CLAIM);

	spec_done(&row->spec);
	spec_copy(&row->spec, spec);
	row->created_ms = io_real_ms();
	member->since_ms = io_boot_ms();
	member->asked_us = io_boot_us();
	member->start_waiters = waiters;
	wire_put_u64(&out, FIELD_OUTPUT_RATE, spec->limits.output_rate);
	if (spec->ttl_ms)
		wire_put_u64(&out, FIELD_DEADLINE_MS, io_boot_ms() + spec->ttl_ms);
	peer_call(member->peer, number, &out, CLAIM_MS, on_claimed, member);
}

void lifecycle_create(struct fleet *fleet, const struct spec *spec, engine_on_sandbox on_sandbox,
                      void *ctx)
{
	auto_(image_freep) struct image *image = NULL;
	struct member_waiter *waiters = NULL;
	struct spec final;
	struct sandbox *row;
	struct member *member;
	struct err err = {0};

	if (fleet->is_shut)
		(void)err_set(&err, ERR_UNAVAILABLE, "the daemon is ending"); /* always -1 */
	if (err.code != ERR_OK || (!image_is_host(spec->image) &&
	                           store_image_get(fleet->store, spec->image, &image, &err) < 0)) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
		return;
	}
	member_wait(&waiters, on_sandbox, NULL, ctx);
	member = fleet->pool ? pool_take(fleet->pool, spec, image ? image->id.text : "") : NULL;
	spec_copy(&final, spec);
	image_apply(image, &final);
	if (member) {
		claim(member, &final, waiters);
	} else {
		row = sandbox_new(&final, io_real_ms());
		if (image)
			row->image_id = image->id;
		create_anew(fleet, row, waiters);
	}
	spec_done(&final);
}

void lifecycle_start(struct fleet *fleet, const char *id, engine_on_sandbox on_sandbox, void *ctx)
{
	struct member *member;
	struct err err = {0};

	if (fleet_get(fleet, id, &member, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
		return;
	}
	if (apply(member, SANDBOX_EVENT_START, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
	} else {
		leftover_forget(fleet, id);
		member->is_restart = true;
		member->row->ended_ms = 0;
		member->row->meters = (struct meters){0};
		member->ended_ms = 0;
		spec_set(&member->row->end_reason, NULL);
		spec_set(&member->row->detail, NULL);
		member_wait(&member->start_waiters, on_sandbox, NULL, ctx);
		store_row(member, EVENT_SANDBOX_CREATED, on_creation_stored);
	}
	member_unref(member);
}

void lifecycle_undo_creation(struct member *member)
{
	struct err err = {0};

	(void)err_set(&err, ERR_UNAVAILABLE,
	              "the daemon ended while this sandbox was being made"); /* always -1 */
	member->is_restart = member->row->started_ms != 0;
	undo_start(member, &err);
}

/* --- the end --- */

static void on_end_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	member->is_ending = false;
	if (result->ok) {
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

	answered(member, METRICS_REAP, err);
	if (is_cut_off(member, err))
		return;
	if (err->code != ERR_OK && row->state != SANDBOX_REMOVING) {
		log_error("an ended sandbox leaves something behind; trying again",
		          LOG_STR("sandbox", row->id.text), LOG_ERR(err));
		leftover_add(member->fleet, row->id.text, true);
	}
	if (row->state == SANDBOX_REMOVING) {
		member->is_ending = false;
		continue_removal(member);
	} else if (apply(member, member->is_lost ? SANDBOX_EVENT_LOST : SANDBOX_EVENT_ENDED,
	                 &refused) == 0) {
		row->ended_ms = member->ended_ms ? member->ended_ms : io_real_ms();
		store_row(member,
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
	reap(member, true, on_end_reaped);
}

static void send_stop(struct member *member);

static void on_reconnect(struct loop_timer *timer, void *ctx)
{
	struct member *member = ctx;
	struct err err = {0};

	if (member_adopt(member, NULL, NULL, &err) == 0) {
		log_info("keeper is back", LOG_STR("sandbox", member->row->id.text));
		if (member->row->state == SANDBOX_STOPPING)
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
	if (apply(member, SANDBOX_EVENT_STOP, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
	} else {
		member->grace_ms = grace_ms;
		member_wait(&member->stop_waiters, on_sandbox, NULL, ctx);
		if (again)
			send_stop(member);
		else
			store_row(member, EVENT_SANDBOX_STOPPING, on_stopping_stored);
	}
	member_unref(member);
}

void lifecycle_repeat_stop(struct member *member)
{
	member->grace_ms = REPEATED_GRACE_MS;
	send_stop(member);
}

/* --- remove --- */

static void on_removal_due(struct loop_timer *timer, void *ctx)
{
	struct member *member = ctx;

	member->is_retrying = false;
	metrics_count(&member->fleet->metrics, METRICS_REPEATS);
	continue_removal(member);
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

	answered(member, METRICS_REAP, err);
	if (is_cut_off(member, err))
		return;
	if (err->code != ERR_OK) {
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

/* Once the removal is on disk and the broker does nothing else with it. */
static void continue_removal(struct member *member)
{
	if (!member->is_removal_stored || member->is_busy || member->fleet->is_shut)
		return;
	loop_timer_stop(&member->timer);
	member_disconnect(member);
	live_end_all(member, "stopped");
	member_answer(&member->stop_waiters, member->row, &no_err);
	reap(member, false, on_removal_reaped);
}

static void on_removal_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	if (result->ok) {
		member->is_removal_stored = true;
		member->attempts = 0;
		member_answer(&member->removing_waiters, NULL, &no_err);
		continue_removal(member);
	} else {
		/* As it is on disk; what runs of it runs on. */
		member_set_state(member, member->state_before);
		member_answer(&member->removing_waiters, NULL, &result->err);
		member_answer(&member->remove_waiters, NULL, &result->err);
	}
	member_unref(member);
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
	if (apply(member,
	          how & ENGINE_REMOVE_FORCE ? SANDBOX_EVENT_REMOVE_FORCE : SANDBOX_EVENT_REMOVE,
	          &err) < 0 ||
	    (how & ENGINE_REMOVE_DETACH && member->is_removal_stored)) {
		lifecycle_refuse(fleet, &err, NULL, on_done, ctx); /* or it is certain already */
	} else {
		bool is_first = !member->remove_waiters && !member->removing_waiters &&
		                !member->is_removal_stored;

		member_wait(how & ENGINE_REMOVE_DETACH ? &member->removing_waiters
		                                       : &member->remove_waiters,
		            NULL, on_done, ctx);
		if (is_first) {
			member->state_before = before;
			store_row(member, EVENT_SANDBOX_REMOVING, on_removal_stored);
		} else if (member->is_retrying) {
			loop_timer_in(fleet->loop, &member->timer, 0, on_removal_due, member);
		}
	}
	member_unref(member);
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
	continue_removal(member);
}
