#include "task/freeze.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "task/account.h"
#include "task/job.h"

static void on_late(struct loop_timer *timer, void *ctx)
{
	struct job *job = ctx;
	auto_free char *text = mem_printf(
		"it was frozen for %llu s and nobody raised the budget",
		(unsigned long long)(job->tasks->config.config->budgets.freeze_ms / 1000));

	job_end(job, RUN_END_BUDGET, text);
}

static void stands_still(struct job *job)
{
	job->is_frozen = true;
	job->frozen_ms = io_real_ms();
	loop_timer_in(job->tasks->config.loop, &job->frozen,
	              job->tasks->config.config->budgets.freeze_ms, on_late, job);
}

static void note(struct job *job, enum event_kind kind, const char *why)
{
	job_note(job, kind, json_pack("{s:s, s:s}", "run", job->run->id.text, "reason", why));
	job_commit(job, NULL);
}

static void on_frozen(const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job || !job->is_freezing)
		return; /* it ends: it was thawed since */
	job->is_freezing = false;
	if (err->code != ERR_OK) {
		log_warn("a run cannot be frozen; it ends", LOG_STR("run", job->run->id.text),
		         LOG_ERR(err));
		job_end(job, RUN_END_BUDGET, job->frozen_why);
		return;
	}
	stands_still(job);
	log_info("a run stands still", LOG_STR("run", job->run->id.text));
	note(job, EVENT_TASK_FROZEN, job->frozen_why);
}

void freeze_job(struct job *job, const char *why)
{
	struct engine *engine = job->tasks->config.engine;

	if (job->is_frozen || job->is_freezing || job->run->end != RUN_END_NONE)
		return;
	/* Its sandbox is somebody else's: that one goes on. */
	if (job_guest(job)) {
		job_end(job, RUN_END_BUDGET, why);
		return;
	}
	if (job->run->step != RUN_STEP_WAIT)
		return; /* the first look at its agent comes back here, or it is done */
	job->is_freezing = true;
	spec_set(&job->frozen_why, why);
	engine->ops->freeze(engine, job->run->sandbox.text, true, why, on_frozen, job_ask(job));
}

static void on_thawed(const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job || !job->is_freezing)
		return;
	job->is_freezing = false;
	if (err->code != ERR_OK) { /* the next look tries again */
		log_warn("a run cannot be thawed", LOG_STR("run", job->run->id.text), LOG_ERR(err));
		return;
	}
	job->is_frozen = false;
	loop_timer_stop(&job->frozen);
	note(job, EVENT_TASK_THAWED, "there is money for it again");
}

void freeze_look(struct job *job, const struct meters *meters)
{
	struct engine *engine = job->tasks->config.engine;

	if (job->is_freezing || job->run->end != RUN_END_NONE)
		return;
	if (meters->frozen && !job->is_frozen)
		stands_still(job); /* a daemon before this one did it */
	if (!job->is_frozen || account_freezes(job))
		return;
	job->is_freezing = true;
	engine->ops->freeze(engine, job->run->sandbox.text, false, "there is money for it again",
	                    on_thawed, job_ask(job));
}

uint64_t tasks_frozen_ms(const struct tasks *tasks, const char *run)
{
	const struct job *job = tasks_find_job(tasks, run);

	return job && job->is_frozen ? job->frozen_ms : 0;
}

static void on_end_thawed(const struct err *err, void *ctx)
{
	(void)job_answer(
		ctx); /* its end is under way, and the sandbox's own end thaws it as well */
}

void freeze_end(struct job *job)
{
	struct engine *engine = job->tasks->config.engine;

	loop_timer_stop(&job->frozen);
	if (!job->is_frozen && !job->is_freezing)
		return;
	job->is_frozen = job->is_freezing = false;
	engine->ops->freeze(engine, job->run->sandbox.text, false, "its run ends", on_end_thawed,
	                    job_ask(job));
}
