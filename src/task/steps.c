/*
 * What each step does, how it is taken up after a crash, and how it is undone. The undos run in
 * `cleanup`, backwards: whatever a step may have made is looked for by the run's id or by the ids
 * that the journal had before it was made.
 */
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "store/identity.h"
#include "store/later.h"
#include "task/agent.h"
#include "task/drive.h"
#include "task/git.h"
#include "task/job.h"
#include "task/keep.h"
#include "task/ledger.h"
#include "task/output.h"
#include "task/resume.h"
#include "task/workspace.h"

static const char BEGAN_UNKNOWN[] =
	"the sandbox was lost, and with it whether its agent had begun: it is not begun again";

/* The keeper's own timeout is a safety net behind ours. */
enum { EXEC_MARGIN_MS = 2000 };

/* --- token --- */

static void do_token(struct job *job)
{
	job->add_token = true;
	job_step_done(job, "completed", NULL);
}

static void take_up_token(struct job *job)
{
	auto_(credential_freep) struct credential *token = NULL;
	struct err err = {0};

	if (store_credential_of_run(job_store(job), job->run->id.text, &token, &err) == 0) {
		job->run->token = token->id;
		job_step_done(job, "completed", NULL);
	} else {
		do_token(job);
	}
}

/* --- provision --- */

static struct engine *engine_of(const struct job *job)
{
	return job->tasks->config.engine;
}

static void on_late_removed(const struct err *err, void *ctx)
{
	if (err->code != ERR_OK && err->code != ERR_NOT_FOUND)
		log_warn("a sandbox that came too late for its run stays for now", LOG_ERR(err));
}

static void remove_late(struct tasks *tasks, const char *sandbox)
{
	if (!tasks->is_shut)
		tasks->config.engine->ops->remove(tasks->config.engine, sandbox,
		                                  ENGINE_REMOVE_FORCE | ENGINE_REMOVE_DETACH,
		                                  on_late_removed, NULL);
}

static void on_created(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct job_call *call = ctx;
	struct tasks *tasks = call->job->tasks;
	struct job *any;
	struct job *job = job_answer_any(call, &any);

	if (!job && sandbox)
		remove_late(tasks, sandbox->id.text);
	if (!job)
		return;
	if (!sandbox) {
		job_step_failed(job, err);
		return;
	}
	job->run->sandbox = sandbox->id;
	sandbox_free(job->made);
	job->made = sandbox_copy(sandbox);
	job_step_done(job, "completed", NULL);
}

/* An agent that is in no image of the user's choice is in the one that was made for it. */
static void choose_image(const struct job *job, struct spec *spec)
{
	const struct config *config = job->tasks->config.config;
	auto_(image_freep) struct image *image = NULL;
	auto_free char *name = NULL;
	struct err err = {0};
	struct agent agent;

	if (!str_eq(spec->image, "host"))
		return;
	if (config->tasks.image) {
		spec_set(&spec->image, config->tasks.image);
		return;
	}
	if (step_agent(job, &agent, &err) < 0 || agent_is_built_in(&agent))
		return;
	name = mem_printf(AGENT_IMAGE "%s", agent.name);
	if (store_image_get(job_store(job), name, &image, &err) == 0)
		spec_set(&spec->image, name);
}

/* A script and nothing around it: what it says is in the store before its sandbox goes. */
static bool is_one_command(const struct job *job)
{
	struct err err = {0};
	struct agent agent;

	return step_agent(job, &agent, &err) == 0 && agent.protocol != AGENT_ACP &&
	       !task_is_interactive(job->choices) && !workspace_is_there(job) &&
	       !json_object_get(job->choices, "outputSchema");
}

static int make_spec(struct job *job, struct spec *ret, struct err *err)
{
	const struct tasks_config *config = &job->tasks->config;
	const struct task *task = job->task;

	if (config->make_spec(json_object_get(job->choices, "sandbox"), config->config, ret, err) <
	    0)
		return -1;
	choose_image(job, ret);
	strings_set(&ret->labels, JOB_LABEL, job->run->id.text);
	spec_set(&ret->owner, task->owner.text);
	spec_set(&ret->team, task->team.text);
	ret->visibility = task->visibility;
	ret->made_by = token_chain(job);
	ret->ttl_ms = job->run->timeout_ms + JOB_TTL_MARGIN_MS;
	ret->is_ephemeral = true; /* its row is in the queue of the store before ours */
	ret->is_single = is_one_command(job);
	return 0;
}

/* A sandbox that is somebody else's, and stays. */
static void take_guest(struct job *job)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct err err = {0};

	if (store_sandbox_get(job_store(job), job_guest(job), &sandbox, &err) == 0 &&
	    sandbox->state != SANDBOX_RUNNING)
		(void)err_set(&err, ERR_NOT_FOUND, "the sandbox does not run any more");
	if (err.code != ERR_OK) {
		job_step_failed(job, &err);
		return;
	}
	job->run->sandbox = sandbox->id;
	job_step_done(job, "completed", NULL);
}

static int add_skills(const struct job *job, struct spec *spec, struct err *err)
{
	const struct tasks_config *config = &job->tasks->config;
	struct strings names = {0};
	json_t *name;
	size_t i;
	int r = 0;

	json_array_foreach (json_object_get(job->choices, "skills"), i, name) {
		const char *text = json_string_value(name);

		if (text && !strings_has(&names, text))
			strings_add(&names, text);
	}
	struct tasks_skills asked = {.team = job->task->team.text,
	                             .run = workspace_is_there(job) ? job->run->id.text : NULL,
	                             .names = &names};

	if ((names.count > 0 || asked.run) && config->show_skills)
		r = config->show_skills(&asked, spec, config->ctx, err);
	strings_done(&names);
	return r;
}

static void do_provision(struct job *job)
{
	struct engine *engine = engine_of(job);
	struct err err = {0};
	struct spec spec;

	if (job_guest(job)) {
		take_guest(job);
		return;
	}
	if (job->run->resume_from.text[0]) {
		resume_provision(job);
		return;
	}
	if (make_spec(job, &spec, &err) < 0) {
		job_step_failed(job, &err);
		return;
	}
	if (add_skills(job, &spec, &err) < 0) {
		spec_done(&spec);
		job_step_failed(job, &err);
		return;
	}
	engine->ops->create(engine, &spec, on_created, job_ask(job));
	spec_done(&spec);
}

/* Those that carry the run's label. */
static int find_labelled(struct job *job, struct sandbox_page *ret, struct err *err)
{
	struct strings labels = {0};
	struct sandbox_filter filter = {.labels = &labels, .limit = 10};
	int r;

	strings_set(&labels, JOB_LABEL, job->run->id.text);
	r = store_sandbox_list(job_store(job), &filter, ret, err);
	strings_done(&labels);
	return r;
}

/* One that runs is taken; one that never did is not in the way of another. In one that ran and
 * ended with the daemon the agent may have begun: it is not begun again. */
static void take_up_provision(struct job *job)
{
	struct sandbox_page page = {0};
	bool has_gone = false;
	struct err err = {0};

	if (job_guest(job)) {
		take_guest(job);
		return;
	}
	if (job->run->resume_from.text[0]) {
		resume_provision(job);
		return;
	}
	if (find_labelled(job, &page, &err) < 0) {
		job_step_failed(job, &err);
		return;
	}
	for (size_t i = 0; i < page.count; i++) {
		const struct sandbox *sandbox = page.items[i];

		if (sandbox->state == SANDBOX_RUNNING && !job->run->sandbox.text[0])
			job->run->sandbox = sandbox->id;
		else if (sandbox->state != SANDBOX_CREATING)
			remove_late(job->tasks, sandbox->id.text);
		has_gone = has_gone || (sandbox->started_ms && sandbox->state != SANDBOX_RUNNING);
	}
	sandbox_page_done(&page);
	if (job->run->sandbox.text[0])
		job_step_done(job, "completed", NULL);
	else if (has_gone)
		job_end(job, RUN_END_SANDBOX_LOST, BEGAN_UNKNOWN);
	else
		do_provision(job);
}

/* --- sync --- */

static void do_sync(struct job *job)
{
	struct agent_start start = {
		.task = job->task,
		.model = json_string_value(json_object_get(job->choices, "model")),
		.effort = json_string_value(json_object_get(job->choices, "reasoningEffort")),
		.token = job->run->id.text};
	struct agent agent;
	struct err err = {0};

	if (!job->files) {
		job->files = json_array();
		if (step_agent(job, &agent, &err) == 0)
			agent_files(&agent, &start, job->files);
		json_array_extend(job->files, json_object_get(job->choices, "inputs"));
	}
	if (json_array_size(job->files) == 0)
		workspace_begin(job, "skipped");
	else
		sync_begin(job);
}

/* --- agent --- */

static void on_agent_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job)
		return;
	if (exec) {
		job_step_done(job, "completed", NULL);
	} else if (err->code == ERR_IO || err->code == ERR_NO_SPACE || err->code == ERR_INTERNAL) {
		/* What cannot be recorded was killed, and may have begun: it is not begun again. */
		job_end(job, RUN_END_START_FAILED, err->msg);
	} else {
		/* A keeper that is there again says whether it began; one that is gone cannot. */
		job->may_have_begun = job->may_have_begun || err->code == ERR_UNAVAILABLE ||
		                      err->code == ERR_TIMEOUT || err->code == ERR_PROTOCOL;
		job_step_failed(job, err);
	}
}

/* The sandbox's programs and ours: `cloche` inside is always the one of this version. */
static void set_env(const struct job *job, const struct sandbox *sandbox, struct strings *env)
{
	const char *path = strings_value(&sandbox->spec.env, "PATH");
	auto_free char *full = mem_printf(
		"%s:/run/cloche",
		path ? path : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

	strings_copy(env, &sandbox->spec.env);
	strings_set(env, "PATH", full);
	strings_set(env, "CLOCHE_TASK", job->task->id.text);
	strings_set(env, "CLOCHE_RUN", job->run->id.text);
	if (git_choices(job)) {
		strings_set(env, "GIT_TERMINAL_PROMPT", "0");
		strings_set(env, "CLOCHE_BRANCH", git_text(job, "branch"));
	}
	if (json_object_get(job->choices, "outputSchema")) {
		auto_free char *output = output_path(job);

		strings_set(env, OUTPUT_VARIABLE, output);
	}
}

int step_agent(const struct job *job, struct agent *ret, struct err *err)
{
	if (agent_find(job->tasks->config.config, job->task->agent, ret))
		return 0;
	return err_set(err, ERR_NOT_FOUND, "no agent '%s'", job->task->agent);
}

/* What it says must not be lost, and nobody else talks to it. */
static void prepare_drive(struct job *job, struct exec_start *start, const char *cwd)
{
	start->has_stdin = true;
	start->is_attached = true;
	job->watch.is_holder = true;
	job->watch.is_writer = true;
	job->watch.acked = 0;
	drive_begin(job, cwd);
}

static int start_agent(struct job *job, struct err *err)
{
	const char *model = json_string_value(json_object_get(job->choices, "model"));
	const char *effort = json_string_value(json_object_get(job->choices, "reasoningEffort"));
	struct agent_start how = {.task = job->task,
	                          .model = model,
	                          .effort = effort,
	                          .token = job->run->id.text,
	                          .is_interactive = task_is_interactive(job->choices)};
	struct agent agent;
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct engine *engine = engine_of(job);
	struct strings env = {0};
	struct exec_start start = {.env = &env, .watch = &job->watch, .is_noted = true};
	uint64_t now = io_boot_ms();

	if (step_agent(job, &agent, err) < 0)
		return -1;
	sandbox = take_ptr(job->made); /* its row may be on its way to the store */
	if (!sandbox &&
	    store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, err) < 0)
		return -1;
	exec = exec_new(&sandbox->id);
	exec->id = job->run->exec;
	spec_set(&exec->user, sandbox->spec.user);
	exec->cwd = git_cwd(job, sandbox);
	exec->background = true;
	set_env(job, sandbox, &env);
	agent_command(&agent, &how, exec, &env);
	if (agent.protocol == AGENT_ACP)
		prepare_drive(job, &start, exec->cwd);
	start.exec = exec;
	start.has_stdin = start.has_stdin || how.is_interactive; /* of whoever attaches to it */
	start.timeout_ms = (job->deadline_ms > now ? job->deadline_ms - now : 1) + EXEC_MARGIN_MS;
	engine->ops->exec(engine, &start, on_agent_started, job_ask(job));
	strings_done(&env);
	return 0;
}

static void do_agent(struct job *job)
{
	struct err err = {0};

	if (start_agent(job, &err) < 0)
		job_step_failed(job, &err);
}

/* An agent that runs, or ran, since before this daemon began. */
static void resume_drive(struct job *job)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_free char *cwd = NULL;
	struct err err = {0};
	struct agent agent;

	if (job->drive || step_agent(job, &agent, &err) < 0 || agent.protocol != AGENT_ACP)
		return;
	(void)!store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, &err);
	cwd = sandbox ? git_cwd(job, sandbox) : mem_strdup("/");
	drive_resume(job, cwd);
}

/* To watch it as its start would have. */
static int watch_agent(struct job *job, struct err *err)
{
	struct engine *engine = engine_of(job);
	struct agent agent;

	if (step_agent(job, &agent, err) < 0)
		return -1;
	job->watch.is_holder = job->watch.is_writer = agent.protocol == AGENT_ACP;
	return engine->ops->watch(engine, job->run->sandbox.text, job->run->exec.text, &job->watch,
	                          err);
}

/* The id was noted before the start: it runs, it ran, or nobody ever saw it. */
static void take_up_agent(struct job *job)
{
	auto_(exec_freep) struct exec *exec = NULL;
	struct err err = {0};

	if (job->made) { /* this moment: nothing was ever asked of it */
		do_agent(job);
		return;
	}
	if (watch_agent(job, &err) == 0) {
		job_step_done(job, "completed", NULL);
		return;
	}
	err = (struct err){0};
	if (store_exec_get(job_store(job), job->run->exec.text, &exec, &err) == 0)
		job_step_done(job, "completed", NULL); /* the next step reads how it ended */
	else if (job->is_resumed && job->attempts == 1 &&
	         watch_sandbox_state(job) != SANDBOX_RUNNING)
		job_end(job, RUN_END_SANDBOX_LOST, BEGAN_UNKNOWN);
	else
		do_agent(job);
}

/* --- wait --- */

static void begin_talk(struct job *job)
{
	if (!job->drive)
		resume_drive(job);
	drive_room(job);
	drive_output(job);
}

static void do_wait(struct job *job)
{
	auto_(exec_freep) struct exec *exec = NULL;
	struct err err = {0};

	if (job->run->has_exit) { /* it was over before its start was answered */
		job_wait_over(job);
		return;
	}
	if (job->watch.live || watch_agent(job, &err) == 0) {
		watch_begin(job);
		tasks_job_speaks(job);
		if (job->run->end != RUN_END_NONE)
			watch_kill(job);
		else
			begin_talk(job);
		return;
	}
	if (store_exec_get(job_store(job), job->run->exec.text, &exec, &err) == 0 &&
	    exec->ended_ms) {
		resume_drive(job);
		drive_over(job, exec);
		watch_take_exec(job, exec);
	}
	if (job->run->end == RUN_END_NONE) {
		job->run->end = RUN_END_SANDBOX_LOST;
		spec_set(&job->run->detail, "the sandbox ended before the agent did");
	}
	job_wait_over(job);
}

/* --- collect --- */

static void on_output(struct job *job)
{
	job_step_done(job, "completed", NULL);
}

static void on_kept(struct job *job, const struct err *err)
{
	if (err->code != ERR_OK)
		job_step_failed(job, err);
	else
		output_collect(job, on_output);
}

static void on_meters(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	static const struct err none = {0};
	struct job *job = job_answer(ctx);

	if (!job)
		return;
	if (sandbox && !job_guest(job)) {
		ledger_measured(job, &sandbox->meters);
		resume_decide(job, sandbox);
	}
	if (job->run->exec.text[0])
		keep_log(job, on_kept);
	else
		on_kept(job, &none);
}

/* What it used first: the log of a sandbox that is gone is gone, too. */
static void do_collect(struct job *job)
{
	struct engine *engine = engine_of(job);

	if (!job->run->sandbox.text[0])
		job_step_done(job, "skipped", NULL);
	else if (watch_sandbox_state(job) == SANDBOX_STOPPING)
		/* Its last words have the sums; asking for its stop again is waiting for them. */
		engine->ops->stop(engine, job->run->sandbox.text, 0, on_meters, job_ask(job));
	else
		engine->ops->meters(engine, job->run->sandbox.text, on_meters, job_ask(job));
}

/* --- cleanup --- */

static void on_removed(const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job)
		return;
	if (err->code == ERR_OK || err->code == ERR_NOT_FOUND)
		job_step_done(job, "completed", NULL);
	else
		job_step_failed(job, err);
}

/* Whatever else was made on its credential. What children made goes with these. */
static void remove_made(struct job *job)
{
	struct sandbox_filter filter = {.made_by = job->run->token.text, .limit = LIMIT_PAGE};
	struct sandbox_page page = {0};
	struct err err = {0};

	if (!job->run->token.text[0] ||
	    store_sandbox_list(job_store(job), &filter, &page, &err) < 0)
		return;
	for (size_t i = 0; i < page.count; i++) {
		if (!str_eq(page.items[i]->id.text, job->run->sandbox.text))
			remove_late(job->tasks, page.items[i]->id.text);
	}
	sandbox_page_done(&page);
}

bool step_gives_up(const struct job *job)
{
	struct engine *engine = engine_of(job);

	return job->run->step == RUN_STEP_CLEANUP && job->run->sandbox.text[0] && !job_guest(job) &&
	       !job->run->keeps && engine->ops->give_up(engine, job->run->sandbox.text, NULL);
}

void step_remove_left(struct job *job)
{
	remove_late(job->tasks, job->run->sandbox.text);
}

static void remove_own(struct job *job)
{
	struct engine *engine = engine_of(job);

	if (step_gives_up(job)) {
		job->gives_up = true;
		job_step_done(job, "completed", NULL);
		return;
	}
	engine->ops->remove(engine, job->run->sandbox.text,
	                    ENGINE_REMOVE_FORCE | ENGINE_REMOVE_DETACH, on_removed, job_ask(job));
	store_hurry(job_store(job)); /* whoever waits for the run waits for this */
}

/* The token goes with the commit of the end (job_finish). A sandbox whose creation was given up is
 * removed when it comes; one that a crash interrupted is found by its label. */
static void do_cleanup(struct job *job)
{
	struct engine *engine = engine_of(job);
	struct sandbox_page page = {0};
	struct err err = {0};

	if ((job->is_resumed || !job->run->sandbox.text[0]) &&
	    find_labelled(job, &page, &err) == 0) {
		for (size_t i = 0; i < page.count; i++) {
			if (!str_eq(page.items[i]->id.text, job->run->sandbox.text))
				remove_late(job->tasks, page.items[i]->id.text);
		}
		sandbox_page_done(&page);
	}
	if (job->has_made || job->is_resumed)
		remove_made(job);
	if (job_guest(job) && job->run->exec.text[0]) /* its sandbox stays, its agent does not */
		engine->ops->abandon(engine, job_guest(job), job->run->exec.text);
	if (!job->run->sandbox.text[0] || job_guest(job))
		job_step_done(job, "completed", NULL);
	else if (job->run->keeps)
		resume_cleanup(job);
	else
		remove_own(job);
}

static const struct {
	void (*run)(struct job *job);
	void (*take_up)(struct job *job);
	bool is_harmless;
} steps[] = {
	[RUN_STEP_TOKEN] = {do_token, take_up_token, true},
	[RUN_STEP_PROVISION] = {do_provision, take_up_provision, false},
	[RUN_STEP_CLONE] = {clone_begin, clone_begin, false},
	[RUN_STEP_SYNC] = {do_sync, do_sync, true},
	[RUN_STEP_AGENT] = {take_up_agent, take_up_agent, false},
	[RUN_STEP_WAIT] = {do_wait, do_wait, true},
	[RUN_STEP_PUBLISH] = {publish_begin, publish_begin, false},
	[RUN_STEP_COLLECT] = {do_collect, do_collect, true},
	[RUN_STEP_CLEANUP] = {do_cleanup, do_cleanup, false},
};
static_assert(ARRAY_LEN(steps) == RUN_STEP_COUNT_, "a row a step");

bool step_is_harmless(enum run_step step)
{
	return steps[step].is_harmless;
}

void step_do(struct job *job)
{
	steps[job->run->step].run(job);
}

void step_take_up(struct job *job)
{
	steps[job->run->step].take_up(job);
}
