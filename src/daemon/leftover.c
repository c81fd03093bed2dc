#include "daemon/leftover.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/fleet.h"
#include "runtime/runtime.h"

struct leftover {
	struct leftover *next;
	struct fleet *fleet;
	struct loop_timer timer;
	char *id;
	bool keep_files;
	bool is_asked;     /* the broker is at it */
	bool is_forgotten; /* to be freed when the broker has answered */
	unsigned attempts;
};

static void leftover_free(struct leftover *leftover)
{
	for (struct leftover **at = &leftover->fleet->leftovers; *at; at = &(*at)->next) {
		if (*at == leftover) {
			*at = leftover->next;
			break;
		}
	}
	loop_timer_stop(&leftover->timer);
	mem_freep(&leftover->id);
	mem_freep(&leftover);
}

static void ask_later(struct leftover *leftover);

static void on_reaped(const struct err *err, void *ctx)
{
	struct leftover *leftover = ctx;
	struct metrics *metrics = &leftover->fleet->metrics;

	leftover->is_asked = false;
	if (err->code == ERR_OK)
		log_info("what was left of a sandbox is gone", LOG_STR("sandbox", leftover->id));
	else
		metrics_count(metrics, METRICS_REAP_FAILURES);
	if (err->code == ERR_OK || leftover->is_forgotten || leftover->fleet->is_shut)
		leftover_free(leftover);
	else
		ask_later(leftover);
}

/* Somebody else has it by now: that way it ends as well. */
static bool is_taken_up(const struct leftover *leftover)
{
	const struct member *member = fleet_find(leftover->fleet, leftover->id);

	return member && (member->is_busy || sandbox_is_alive(member->row->state) ||
	                  member->row->state == SANDBOX_REMOVING);
}

static void on_due(struct loop_timer *timer, void *ctx)
{
	struct leftover *leftover = ctx;
	struct runtime *runtime = leftover->fleet->runtime;

	if (is_taken_up(leftover)) {
		leftover_free(leftover);
		return;
	}
	leftover->is_asked = true;
	metrics_count(&leftover->fleet->metrics, METRICS_REPEATS);
	runtime->ops->reap(runtime, leftover->id, leftover->keep_files, on_reaped, leftover);
}

static void ask_later(struct leftover *leftover)
{
	struct fleet *fleet = leftover->fleet;

	loop_timer_in(fleet->loop, &leftover->timer, fleet_retry_ms(fleet, leftover->attempts++),
	              on_due, leftover);
}

static struct leftover *find(const struct fleet *fleet, const char *id)
{
	struct leftover *leftover = fleet->leftovers;

	while (leftover && (leftover->is_forgotten || !str_eq(leftover->id, id)))
		leftover = leftover->next;
	return leftover;
}

void leftover_add(struct fleet *fleet, const char *id, bool keep_files)
{
	struct leftover *leftover;

	if (fleet->is_shut || find(fleet, id))
		return;
	leftover = mem_new(struct leftover);
	*leftover = (struct leftover){.next = fleet->leftovers,
	                              .fleet = fleet,
	                              .id = mem_strdup(id),
	                              .keep_files = keep_files};
	fleet->leftovers = leftover;
	ask_later(leftover);
}

void leftover_forget(struct fleet *fleet, const char *id)
{
	struct leftover *leftover = find(fleet, id);

	if (leftover && leftover->is_asked)
		leftover->is_forgotten = true;
	else if (leftover)
		leftover_free(leftover);
}

size_t leftover_count(const struct fleet *fleet)
{
	size_t count = 0;

	for (const struct leftover *at = fleet->leftovers; at; at = at->next)
		count++;
	return count;
}

void leftover_free_all(struct fleet *fleet)
{
	while (fleet->leftovers)
		leftover_free(fleet->leftovers);
}
