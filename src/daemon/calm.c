#include "daemon/calm.h"

#include "base/io.h"

void calm_init(struct calm *calm, struct loop *loop, size_t room)
{
	*calm = (struct calm){.loop = loop, .room = room};
}

static struct calm_job *take_first(struct calm *calm)
{
	struct calm_job *job = calm->first;

	calm->first = job->next;
	calm->count--;
	job->next = NULL;
	job->is_waiting = false;
	return job;
}

void calm_done(struct calm *calm)
{
	while (calm->first)
		(void)take_first(calm);
	loop_timer_stop(&calm->timer);
}

void calm_disturb(struct calm *calm)
{
	calm->asked_ms = io_boot_ms();
}

bool calm_is_reached(const struct calm *calm)
{
	return calm->asked_ms == 0 || io_boot_ms() - calm->asked_ms >= CALM_MS;
}

static uint64_t due_ms(const struct calm *calm)
{
	uint64_t calm_at = calm->asked_ms ? calm->asked_ms + CALM_MS : 0;

	if (calm->count > calm->room)
		return 0;
	return MIN(calm_at, calm->first->since_ms + CALM_MOST_MS);
}

/* What one brings about may disturb or add: looked at anew before each, but only those that waited
 * at the beginning, so that the loop has its turn. */
static void on_timer(struct loop_timer *timer, void *ctx)
{
	struct calm *calm = ctx;

	for (size_t left = calm->count; left > 0 && calm->first; left--) {
		if (due_ms(calm) > io_boot_ms())
			break;
		struct calm_job *job = take_first(calm);

		job->run(job, job->ctx);
	}
	if (calm->first)
		loop_timer_at(calm->loop, &calm->timer, due_ms(calm), on_timer, calm);
}

void calm_wait(struct calm *calm, struct calm_job *job,
               void (*run)(struct calm_job *job, void *ctx), void *ctx)
{
	struct calm_job **at = &calm->first;

	if (job->is_waiting)
		return;
	while (*at)
		at = &(*at)->next;
	*job = (struct calm_job){
		.is_waiting = true, .since_ms = io_boot_ms(), .run = run, .ctx = ctx};
	*at = job;
	calm->count++;
	if (calm->count == 1 || calm->count > calm->room)
		loop_timer_at(calm->loop, &calm->timer, due_ms(calm), on_timer, calm);
}

bool calm_forget(struct calm *calm, struct calm_job *job)
{
	for (struct calm_job **at = &calm->first; *at; at = &(*at)->next) {
		if (*at != job)
			continue;
		*at = job->next;
		calm->count--;
		job->is_waiting = false;
		return true;
	}
	return false;
}

void calm_flush(struct calm *calm)
{
	for (size_t left = calm->count; left > 0 && calm->first; left--) {
		struct calm_job *job = take_first(calm);

		job->run(job, job->ctx);
	}
}
