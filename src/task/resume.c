#include "task/resume.h"

#include <sodium.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "store/resume.h"
#include "task/job.h"

enum {
	SWEEP_MS = 60 * 1000,
	SWEEP_AGAIN_MS = 1000,
	SWEEP_PAGE = 256,
	DROP_PAGE = 1000,
	DIGEST = 16
};

static struct engine *engine_of(const struct job *job)
{
	return job->tasks->config.engine;
}

/* --- the record --- */

static const char *disk_of(const struct sandbox *sandbox)
{
	const char *disk = strings_value(&sandbox->mechanisms, "disk");

	return disk ? disk : "";
}

char *resume_fingerprint(const struct sandbox *sandbox)
{
	auto_free char *text =
		mem_printf("%s\n%s\n%s\n%s", sandbox->spec.runtime, sandbox->spec.image,
	                   sandbox->image_id.text, disk_of(sandbox));
	uint8_t digest[DIGEST];
	char *hex = mem_zalloc(2 * DIGEST + 1);

	(void)crypto_generichash(digest, DIGEST, (const uint8_t *)text, strlen(text), NULL, 0);
	return sodium_bin2hex(hex, 2 * DIGEST + 1, digest, DIGEST);
}

bool resume_is_in_memory(const struct sandbox *sandbox)
{
	return str_eq(disk_of(sandbox), "tmpfs");
}

/* A disk in memory is kept with what keeps it: the sandbox goes on, empty. */
void resume_decide(struct job *job, const struct sandbox *sandbox)
{
	struct run *run = job->run;
	bool has_files = run->resume_from.text[0] || !run->meters.files_same;

	run->keeps = sandbox && run->exec.text[0] && has_files &&
	             job->tasks->config.config->tasks.resume_most > 0 &&
	             (!resume_is_in_memory(sandbox) || sandbox->state == SANDBOX_RUNNING);
}

void resume_put(struct job *job, struct store_write *write)
{
	const struct run *run = job->run;
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	const char *branch = json_string_value(json_object_get(job->choices, "branch"));
	uint64_t now = io_real_ms();
	struct err err = {0};

	if (store_sandbox_get(job_store(job), run->sandbox.text, &sandbox, &err) < 0) {
		log_warn("the files of a run are not kept", LOG_STR("run", run->id.text),
		         LOG_ERR(&err));
		return;
	}
	auto_(resume_done) struct resume resume = {
		.run = run->id,
		.team = job->task->team,
		.sandbox = run->sandbox,
		.parent = run->resume_from,
		.runtime = mem_strdup(sandbox->spec.runtime),
		.image = mem_strdup(sandbox->spec.image),
		.branch = branch ? mem_strdup(branch) : NULL,
		.fingerprint = resume_fingerprint(sandbox),
		.bytes = run->meters.disk_bytes,
		.created_ms = now,
		.expires_ms = now + job->tasks->config.config->tasks.resume_ttl_ms,
	};
	store_put_resume(write, &resume);
}

/* --- provision --- */

/* Its time and its label were those of the run before. */
static void on_labelled(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job)
		return;
	if (sandbox)
		job_step_done(job, "completed", "with the files of an earlier run");
	else
		job_step_failed(job, err);
}

static void make_own(struct job *job, const struct sandbox *sandbox)
{
	struct engine *engine = engine_of(job);
	auto_free char *made_by = token_chain(job);
	struct strings labels = {0};
	struct sandbox_change change = {.labels = &labels,
	                                .made_by = made_by,
	                                .has_ttl = true,
	                                .ttl_ms = job->run->timeout_ms + JOB_TTL_MARGIN_MS};

	strings_copy(&labels, &sandbox->spec.labels);
	strings_set(&labels, JOB_LABEL, job->run->id.text);
	engine->ops->change(engine, sandbox->id.text, &change, on_labelled, job_ask(job));
	strings_done(&labels);
}

/* A start that was given up is waited for nevertheless: until it is over the files are nobody's. */
static void on_back(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct job *any;
	struct job *job = job_answer_any(ctx, &any);

	any->is_starting = false;
	if (any->tasks->is_shut)
		return;
	if (!job && any->awaits_start == any->serial)
		step_do(any);
	if (!job)
		return;
	if (sandbox)
		make_own(job, sandbox);
	else
		job_step_failed(job, err);
}

static void start(struct job *job, const char *id)
{
	struct engine *engine = engine_of(job);

	job->is_starting = true;
	engine->ops->start(engine, id, on_back, job_ask(job));
}

static void on_rested(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job)
		return;
	if (sandbox)
		start(job, sandbox->id.text);
	else
		job_step_failed(job, err);
}

/* Of a sandbox that nothing can be started in: whether it will be another moment by itself. */
static void fail_provision(struct job *job, const struct sandbox *sandbox)
{
	struct err err = {0};

	if (sandbox && sandbox->state == SANDBOX_CREATING) {
		job->attempts = 0; /* its own deadline ends that state: no attempt is lost */
		(void)err_set(&err, ERR_UNAVAILABLE, "the sandbox of the earlier run is %s",
		              sandbox_state_name(sandbox->state)); /* always -1 */
	} else {
		(void)err_set(&err, ERR_NOT_FOUND, "the files of run %s %s",
		              job->run->resume_from.text,
		              sandbox && resume_is_in_memory(sandbox)
		                      ? "were in memory and went with their sandbox"
		                      : "are gone"); /* always -1 */
	}
	job_step_failed(job, &err);
}

void resume_provision(struct job *job)
{
	struct engine *engine = engine_of(job);
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct err err = {0};

	if (job->is_starting) {
		job->awaits_start = job->serial;
		return;
	}
	if (store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, &err) < 0 &&
	    err.code != ERR_NOT_FOUND)
		job_step_failed(job, &err);
	else if (sandbox && sandbox->state == SANDBOX_RUNNING)
		make_own(job, sandbox);
	else if (!sandbox || resume_is_in_memory(sandbox))
		fail_provision(job, sandbox);
	else if (sandbox->state == SANDBOX_STOPPED || sandbox->state == SANDBOX_FAILED)
		start(job, sandbox->id.text);
	else if (sandbox->state == SANDBOX_STOPPING)
		/* Asking for its stop again is waiting for it. */
		engine->ops->stop(engine, sandbox->id.text, 0, on_rested, job_ask(job));
	else
		fail_provision(job, sandbox);
}

/* --- cleanup --- */

static void on_stopped(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job)
		return;
	if (err->code == ERR_NOT_FOUND)
		job->run->keeps = false;
	if (sandbox || err->code == ERR_NOT_FOUND)
		job_step_done(job, "completed", NULL);
	else
		job_step_failed(job, err); /* a state that ends by itself: asked again */
}

static void on_stays(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job)
		return;
	job->run->keeps = sandbox != NULL;
	if (sandbox || err->code == ERR_NOT_FOUND)
		job_step_done(job, "completed", NULL);
	else
		job_step_failed(job, err);
}

/* Nothing of the run is left in it but files: it waits for the next, or for its time to be over. */
static void on_emptied(const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);
	struct sandbox_change change = {.has_ttl = true};
	struct engine *engine;

	if (!job)
		return;
	if (err->code != ERR_OK && err->code != ERR_CONFLICT) { /* nothing was left in it */
		job_step_failed(job, err);
		return;
	}
	engine = engine_of(job);
	change.ttl_ms = job->tasks->config.config->tasks.resume_ttl_ms;
	engine->ops->change(engine, job->run->sandbox.text, &change, on_stays, job_ask(job));
}

void resume_cleanup(struct job *job)
{
	struct engine *engine = engine_of(job);
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct err err = {0};
	bool is_there;

	if (job->is_starting) { /* the store does not say so yet, maybe */
		job->awaits_start = job->serial;
		return;
	}
	is_there = store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, &err) == 0;
	if (!is_there && err.code != ERR_NOT_FOUND) {
		job_step_failed(job, &err);
	} else if (!is_there || sandbox->state == SANDBOX_REMOVING) {
		job->run->keeps = false;
		job_step_done(job, "completed", NULL);
	} else if (sandbox->state == SANDBOX_STOPPED || sandbox->state == SANDBOX_FAILED) {
		job->run->keeps = !resume_is_in_memory(sandbox);
		if (job->run->keeps)
			job_step_done(job, "completed", NULL);
		else
			step_do(job); /* what is left of it goes */
	} else if (resume_is_in_memory(sandbox) && sandbox->state == SANDBOX_RUNNING) {
		engine->ops->kill(engine, sandbox->id.text, job->run->exec.text, on_emptied,
		                  job_ask(job));
	} else {
		engine->ops->stop(engine, sandbox->id.text, 0, on_stopped, job_ask(job));
	}
}

/* --- what is kept no longer --- */

/* Several removals that somebody waits for. */
struct dropping {
	size_t left;
	void (*done)(void *ctx);
	void *ctx;
};

struct removal {
	struct tasks *tasks;
	struct id run;
	struct dropping *dropping; /* NULL: nobody waits */
};

static void dropped(struct dropping *dropping)
{
	if (!dropping || --dropping->left > 0)
		return;
	dropping->done(dropping->ctx);
	mem_freep(&dropping);
}

static void on_forgotten(const struct store_result *result, void *ctx)
{
	if (!result->ok)
		log_warn("a resume record stays for now", LOG_ERR(&result->err));
}

static void forget(struct tasks *tasks, const char *run)
{
	struct store_write *write = store_write_new(tasks->config.store);

	store_delete_resume(write, run);
	store_write_submit(write, on_forgotten, NULL);
}

/* The record goes after the files: as long as they are there, somebody knows of them. */
static void on_removed(const struct err *err, void *ctx)
{
	auto_free struct removal *removal = ctx;

	dropped(removal->dropping);
	if (removal->tasks->is_shut)
		return;
	if (err->code == ERR_OK || err->code == ERR_NOT_FOUND)
		forget(removal->tasks, removal->run.text);
	else
		log_warn("the files of a run cannot be removed; trying again",
		         LOG_STR("run", removal->run.text), LOG_ERR(err));
}

static void remove_files(struct tasks *tasks, const struct resume *resume,
                         struct dropping *dropping)
{
	struct engine *engine = tasks->config.engine;
	struct removal *removal = mem_new(struct removal);

	*removal = (struct removal){tasks, resume->run, dropping};
	engine->ops->remove(engine, resume->sandbox.text,
	                    ENGINE_REMOVE_FORCE | ENGINE_REMOVE_DETACH, on_removed, removal);
}

static void remove_one(struct tasks *tasks, const struct resume *resume)
{
	if (resume->used_by.text[0])
		forget(tasks, resume->run.text);
	else
		remove_files(tasks, resume, NULL);
}

void tasks_drop_kept(struct tasks *tasks, const char *image, void (*done)(void *ctx), void *ctx)
{
	struct resume_bounds all = {.now_ms = INT64_MAX};
	struct dropping *dropping = mem_new(struct dropping);
	struct resume_page page = {0};
	struct err err = {0};

	*dropping = (struct dropping){1, done, ctx}; /* itself, until all are asked for */
	if (store_resume_due(tasks->config.store, &all, DROP_PAGE, &page, &err) < 0)
		log_warn("cannot look for files of an image", LOG_ERR(&err));
	for (size_t i = 0; i < page.count; i++) {
		if (page.items[i].used_by.text[0] || !str_eq(page.items[i].image, image))
			continue;
		dropping->left++;
		remove_files(tasks, &page.items[i], dropping);
	}
	resume_page_done(&page);
	dropped(dropping);
}

static void on_sweep(struct loop_timer *timer, void *ctx)
{
	resume_sweep(ctx);
}

void resume_sweep(struct tasks *tasks)
{
	const struct config_tasks *config = &tasks->config.config->tasks;
	struct resume_bounds bounds = {io_real_ms(), config->resume_most, config->resume_bytes};
	struct resume_page page = {0};
	struct err err = {0};
	bool has_more;

	if (store_resume_due(tasks->config.store, &bounds, SWEEP_PAGE, &page, &err) < 0)
		log_warn("cannot look for files that are kept no longer", LOG_ERR(&err));
	for (size_t i = 0; i < page.count; i++)
		remove_one(tasks, &page.items[i]);
	has_more = page.count == SWEEP_PAGE;
	has_more = artifacts_sweep(tasks) || has_more;
	resume_page_done(&page);
	loop_timer_in(tasks->config.loop, &tasks->sweep, has_more ? SWEEP_AGAIN_MS : SWEEP_MS,
	              on_sweep, tasks);
}

void resume_sweep_stop(struct tasks *tasks)
{
	loop_timer_stop(&tasks->sweep);
}
