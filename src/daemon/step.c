#include "daemon/step.h"

#include "base/io.h"
#include "base/log.h"
#include "daemon/notes.h"

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

void step_store(struct member *member, enum event_kind kind, store_on_done on_done)
{
	struct event event;

	member_ref(member);
	note_sandbox(&event, kind, member->row);
	store_sandbox_put(member->fleet->store, member->row, &event, on_done, member);
	event_done(&event);
	log_info("sandbox changes", LOG_STR("sandbox", member->row->id.text),
	         LOG_STR("state", sandbox_state_name(member->row->state)));
}
