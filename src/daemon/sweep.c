#include "daemon/sweep.h"

#include "base/io.h"
#include "base/log.h"
#include "daemon/fleet.h"
#include "daemon/lifecycle.h"
#include "daemon/orphan.h"
#include "daemon/reconcile.h"

enum { SWEEP_MS = 5 * 1000, SWEEP_MOST_MS = 60 * 1000 };

static const struct sweep_transition transitions[] = {
#define TRANSITION(name, ms, by, then)                                                             \
	{.state = SANDBOX_##name, .deadline_ms = (ms), .owner = (by), .compensation = (then)},
#include "daemon/transitions.def"
#undef TRANSITION
};

const struct sweep_transition *sweep_transition(size_t index)
{
	return index < ARRAY_LEN(transitions) ? &transitions[index] : NULL;
}

static const struct sweep_transition *transition_of(enum sandbox_state state)
{
	for (size_t i = 0; i < ARRAY_LEN(transitions); i++) {
		if (transitions[i].state == state)
			return &transitions[i];
	}
	return NULL;
}

/* A parked one is in no state of its own. */
static uint64_t age_ms(const struct member *member, uint64_t now_ms)
{
	return member->shelf || now_ms < member->since_ms ? 0 : now_ms - member->since_ms;
}

static bool is_overdue(const struct member *member, uint64_t now_ms)
{
	const struct sweep_transition *transition = transition_of(member->row->state);
	uint64_t most;

	if (!transition)
		return false;
	most = member->fleet->deadline_ms ? member->fleet->deadline_ms : transition->deadline_ms;
	if (transition->state == SANDBOX_STOPPING)
		most += member->grace_ms;
	return age_ms(member, now_ms) > most;
}

uint64_t sweep_oldest_ms(const struct fleet *fleet, enum sandbox_state state)
{
	uint64_t now = io_boot_ms();
	uint64_t oldest = 0;

	for (const struct member *at = fleet->members; at; at = at->next) {
		if (at->row->state == state)
			oldest = MAX(oldest, age_ms(at, now));
	}
	return oldest;
}

size_t sweep_stuck(const struct fleet *fleet)
{
	uint64_t now = io_boot_ms();
	size_t count = 0;

	for (const struct member *at = fleet->members; at; at = at->next)
		count += is_overdue(at, now);
	return count;
}

/* --- looking around --- */

/* Whom it waits for, and what is done about it. */
static void say_overdue(const struct member *member)
{
	const struct sweep_transition *transition = transition_of(member->row->state);

	log_warn("a sandbox is overdue", LOG_STR("sandbox", member->row->id.text),
	         LOG_STR("state", sandbox_state_name(member->row->state)),
	         LOG_STR("owner", transition ? transition->owner : ""),
	         LOG_STR("compensation", transition ? transition->compensation : ""));
}

static size_t push_overdue(struct fleet *fleet)
{
	uint64_t now = io_boot_ms();
	struct member *next;
	size_t count = 0;

	for (struct member *member = fleet->members; member; member = next) {
		member_ref(member);
		if (is_overdue(member, now) && !member->is_late) {
			member->is_late = true;
			say_overdue(member);
		}
		if (is_overdue(member, now) && lifecycle_push(member))
			count++;
		if (member->has_unknown_execs && member_list_execs(member))
			count++;
		next = member->next;
		member_unref(member);
	}
	return count;
}

static void on_sweep(struct loop_timer *timer, void *ctx)
{
	struct fleet *fleet = ctx;
	uint64_t first = fleet->sweep_ms ? fleet->sweep_ms : (uint64_t)SWEEP_MS;
	struct err err = {0};
	size_t count = 0;
	/* What cannot be stored now may need somebody to make room: ever more seldom. */
	bool in_vain = fleet->has_swept && fleet->has_refused_end && !fleet->has_stored_end;
	size_t pushed = push_overdue(fleet);

	orphan_sweep(fleet);
	if (reconcile_rows(fleet, &count, &err) < 0)
		log_warn("cannot look for what is unfinished; looking again later", LOG_ERR(&err));
	count += pushed;
	fleet->metrics.counters[METRICS_REPEATS] += count;
	fleet->sweep_next_ms =
		in_vain ? MIN(fleet->sweep_next_ms * 2, (uint64_t)SWEEP_MOST_MS) : first;
	fleet->has_swept = count > 0;
	fleet->has_stored_end = fleet->has_refused_end = false;
	loop_timer_in(fleet->loop, &fleet->sweep, fleet->sweep_next_ms, on_sweep, fleet);
}

void sweep_start(struct fleet *fleet)
{
	fleet->sweep_next_ms = fleet->sweep_ms ? fleet->sweep_ms : (uint64_t)SWEEP_MS;
	loop_timer_in(fleet->loop, &fleet->sweep, fleet->sweep_next_ms, on_sweep, fleet);
}

void sweep_stop(struct fleet *fleet)
{
	loop_timer_stop(&fleet->sweep);
}
