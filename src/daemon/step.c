#include "daemon/step.h"

#include "base/io.h"
#include "base/log.h"
#include "daemon/notes.h"
#include "task/meter.h"

bool step_is_cut_off(struct member *member, const struct err *err)
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

int step_apply(struct member *member, enum sandbox_event event, struct err *err)
{
	enum sandbox_state state;

	if (sandbox_apply(member->row->state, event, &state, err) < 0)
		return -1;
	member_set_state(member, state);
	return 0;
}

void step_reap(struct member *member, bool keep_files, runtime_on_reaped on_reaped)
{
	struct runtime *runtime = member->fleet->runtime;

	member->is_busy = true;
	member->asked_us = io_boot_us();
	runtime->ops->reap(runtime, member->row->id.text, keep_files, on_reaped,
	                   member_ref(member));
}

void step_answered(struct member *member, enum metrics_span span, const struct err *err)
{
	struct metrics *metrics = &member->fleet->metrics;

	member->is_busy = false;
	metrics_since(metrics, span, member->asked_us);
	if (err->code != ERR_OK)
		metrics_count(metrics, span == METRICS_REAP ? METRICS_REAP_FAILURES
		                                            : METRICS_LAUNCH_FAILURES);
}

void step_put(struct member *member, enum event_kind kind, struct store_write *write)
{
	struct event event;

	note_sandbox(&event, kind, member->row);
	if (!sandbox_is_alive(member->row->state))
		meter_put_end(member->fleet->tasks, write, member->row);
	if (kind == EVENT_SANDBOX_CREATED)
		store_put_sandbox(write, member->row);
	else
		store_set_sandbox(write, member->row);
	store_put_event(write, &event);
	event_done(&event);
	log_info("sandbox changes", LOG_STR("sandbox", member->row->id.text),
	         LOG_STR("state", sandbox_state_name(member->row->state)));
}

static struct store_write *new_write(struct member *member, enum event_kind kind)
{
	struct store_write *write = store_write_new(member->fleet->store);

	member_ref(member);
	step_put(member, kind, write);
	return write;
}

void step_store(struct member *member, enum event_kind kind, store_on_done on_done)
{
	store_write_submit(new_write(member, kind), on_done, member);
}

void step_store_soon(struct member *member, enum event_kind kind, store_on_done on_done)
{
	fleet_submit_soon(member->fleet, new_write(member, kind), on_done, member);
}
