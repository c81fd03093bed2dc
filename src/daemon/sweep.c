#include "daemon/sweep.h"

#include "base/io.h"
#include "base/log.h"
#include "daemon/fleet.h"
#include "daemon/lifecycle.h"
#include "daemon/orphan.h"
#include "daemon/reconcile.h"

enum { SWEEP_MS = 5 * 1000, SWEEP_MOST_MS = 60 * 1000 };

/* Counted from the change of state; a stop's grace comes on top. */
static const struct {
	enum sandbox_state state;
	uint64_t deadline_ms;
} states[] = {
	{SANDBOX_CREATING, 90 * 1000},
	{SANDBOX_STOPPING, 30 * 1000},
	{SANDBOX_REMOVING, 60 * 1000},
};

bool sweep_state(size_t index, enum sandbox_state *ret)
{
	if (index >= ARRAY_LEN(states))
		return false;
	*ret = states[index].state;
	return true;
}

/* A parked one is in no state of its own. */
static uint64_t age_ms(const struct member *member, uint64_t now_ms)
{
	return member->shelf || now_ms < member->since_ms ? 0 : now_ms - member->since_ms;
}

static bool is_overdue(const struct member *member, uint64_t now_ms)
{
	const struct fleet *fleet = member->fleet;

	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		uint64_t most = fleet->deadline_ms ? fleet->deadline_ms : states[i].deadline_ms;

		if (member->row->state == SANDBOX_STOPPING)
			most += member->grace_ms;
		if (states[i].state == member->row->state)
			return age_ms(member, now_ms) > most;
	}
	return false;
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

static size_t push_overdue(struct fleet *fleet)
{
	uint64_t now = io_boot_ms();
	struct member *next;
	size_t count = 0;

	for (struct member *member = fleet->members; member; member = next) {
		member_ref(member);
		if (is_overdue(member, now) && lifecycle_push(member)) {
			log_warn("a sandbox is overdue and taken up again",
			         LOG_STR("sandbox", member->row->id.text),
			         LOG_STR("state", sandbox_state_name(member->row->state)));
			count++;
		}
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
