/*
 * Step `publish`: what the agent left uncommitted becomes a commit, the branch is pushed, and there
 * is one open pull request for it. Everything in it can be done twice: a daemon that dies between
 * the push and the pull request finds nothing to push and asks for the pull request again, which
 * asks the forge first whether there is one.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "task/git.h"
#include "task/inside.h"
#include "task/job.h"

enum { OUTPUT_MOST = 16 * 1024 };

/* dir branch message start */
static const char script[] =
	"set -eu\n"
	"branch=$2 start=$4\n"
	"cd \"$1\"\n"
	"changed=$(git status --porcelain)\n"
	"if [ -n \"$changed\" ]; then\n"
	"	git add -A\n"
	"	git commit -q --no-verify -m \"$3\"\n"
	"fi\n"
	"head=$(git rev-parse -q --verify HEAD || :)\n"
	"there=$(git ls-remote origin \"refs/heads/$branch\" | cut -f1)\n"
	"if [ -z \"$head\" ] || { [ \"$head\" = \"$start\" ] && [ -z \"$there\" ]; }; then\n"
	"	echo none=1\n"
	"	exit 0\n"
	"fi\n"
	"if [ -n \"$start\" ] && [ \"$there\" != \"$head\" ]; then\n"
	"	lfs=$(git diff --name-only --diff-filter=AMT \"$start\" \"$head\" -- |\n"
	"		git check-attr --stdin filter | sed -n 's/: filter: lfs$//p' | head -n 3)\n"
	"	if [ -n \"$lfs\" ]; then\n"
	"		echo \"fatal: rejected: Git LFS is not passed on, and these\" \\\n"
	"			\"files belong to it:\" $lfs >&2\n"
	"		exit 1\n"
	"	fi\n"
	"fi\n"
	"[ \"$there\" = \"$head\" ] || git push -q origin \"HEAD:refs/heads/$branch\"\n"
	"printf 'head=%s\\n' \"$head\"\n";

/* --- the pull request --- */

static void note_event(struct job *job, const char *note)
{
	json_t *data = json_deep_copy(job->git);

	json_object_set_new(data, "run", json_string(job->run->id.text));
	json_object_set_new(data, "repository", json_string(git_text(job, "id")));
	json_object_set_new(data, "branch", json_string(git_text(job, "branch")));
	if (note)
		json_object_set_new(data, "note", json_string(note));
	job_note(job, EVENT_TASK_PULL_REQUEST, data);
}

/* What a client of one-shot tasks looks at, unless the agent gave a result of its own. */
static void put_output(struct job *job)
{
	auto_(run_freep) struct run *row = NULL;
	struct err err = {0};
	json_t *output;

	if (json_object_get(job->choices, "outputSchema") ||
	    store_run_get(job_store(job), job->run->id.text, &row, &err) < 0 || row->output)
		return;
	output = json_pack("{s:s?, s:s?, s:s?}", "prUrl", git_noted(job, "url"), "branch",
	                   git_text(job, "branch"), "commit", git_noted(job, "commit"));
	mem_freep(&job->run->output);
	job->run->output = json_dumps(output, JSON_COMPACT);
	json_decref(output);
	job->has_output = true;
}

/* Nothing to open is an end, too: it is said. */
static void end(struct job *job, const char *note)
{
	git_note(job, "note", note ? json_string(note) : json_null());
	note_event(job, note);
	put_output(job);
	job_step_done(job, "completed", git_noted(job, "url") ? git_noted(job, "url") : note);
}

static void on_pulled(const struct forge_pulled *pulled, const struct err *err, void *ctx)
{
	struct job *job = job_answer(ctx);

	if (!job)
		return;
	if (!pulled) {
		job_step_failed(job, err);
		return;
	}
	if (pulled->url) {
		git_note(job, "url", json_string(pulled->url));
		git_note(job, "number", json_integer((json_int_t)pulled->number));
		git_note(job, "new", json_boolean(pulled->is_new));
	}
	end(job, pulled->note);
}

static void take_labels(const struct job *job, struct strings *ret)
{
	size_t i;
	json_t *label;

	json_array_foreach (json_object_get(git_choices(job), "labels"), i, label)
		strings_add(ret, json_string_value(label));
}

static void open_pull(struct job *job, const struct forge *forge)
{
	struct engine *engine = job->tasks->config.engine;
	const char *title = git_text(job, "title"), *body = git_text(job, "body");
	auto_free char *about =
		mem_printf("%s\n\nMade by task %s (run %s, agent %s).", job->task->title,
	                   job->task->id.text, job->run->id.text, job->task->agent);
	struct strings labels = {0};
	struct forge_pull pull = {
		.grant = {.run = job->run->id.text,
	                  .sandbox = job->run->sandbox.text,
	                  .forge = forge,
	                  .path = git_text(job, "path"),
	                  .may_write = true},
		.branch = git_text(job, "branch"),
		.base = git_noted(job, "base"),
		.title = title ? title : job->task->title,
		.body = body ? body : about,
		.is_draft = json_is_true(json_object_get(git_choices(job), "draft")),
		.labels = &labels,
	};

	take_labels(job, &labels);
	engine->ops->forges.pull(engine, &pull, on_pulled, job_ask(job));
	strings_done(&labels);
}

/* --- the push --- */

static void after_push(struct job *job)
{
	const char *name = git_text(job, "forge");
	const struct forge *forge = forge_find(&job->tasks->config.config->git, name);
	struct err err = {0};

	if (!git_noted(job, "base")) {
		end(job, "the repository was empty: pushed, and no base for a pull request");
	} else if (!forge) {
		(void)err_set(&err, ERR_NOT_FOUND, "forge %.63s is not configured any more",
		              name); /* always -1 */
		job_step_failed(job, &err);
	} else {
		open_pull(job, forge);
	}
}

static void on_pushed(struct job *job, const struct inside_end *result)
{
	auto_free char *head = git_line(result, "head");
	auto_free char *none = git_line(result, "none");
	struct err err = {0};

	if (!result->exec || result->exec->signal || result->exec->exit_code) {
		git_complain(job, "push", result, &err);
		job_step_failed(job, &err);
		return;
	}
	if (none || !head || !str_is_name(head)) {
		end(job, "no commits: nothing was pushed, no pull request");
		return;
	}
	git_note(job, "commit", json_string(head));
	after_push(job);
}

static int run_script(struct job *job, const struct sandbox *sandbox, struct err *err)
{
	auto_free char *dir = git_cwd(job, sandbox);
	const char *start = git_noted(job, "start"), *title = git_text(job, "title");
	const char *words[] = {"/bin/sh",
	                       "-c",
	                       script,
	                       "publish",
	                       dir,
	                       git_text(job, "branch"),
	                       title ? title : job->task->title,
	                       start ? start : ""};
	struct strings argv = {0}, env = {0};
	struct inside_command command = {
		.argv = &argv, .env = &env, .cwd = "/", .most = OUTPUT_MOST};
	int r;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		strings_add(&argv, words[i]);
	git_env(sandbox, &env);
	r = inside_run(job, &command, on_pushed, err);
	strings_done(&argv);
	strings_done(&env);
	return r;
}

void publish_begin(struct job *job)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct err err = {0};

	if (store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, &err) < 0 ||
	    run_script(job, sandbox, &err) < 0)
		job_step_failed(job, &err);
}

/* A request that is on its way may be heard: what cannot be known is said. Whoever goes on with the
 * run finds the branch and the pull request as they are, and makes neither twice. */
void publish_stop(struct job *job)
{
	struct engine *engine = job->tasks->config.engine;
	const char *note = git_noted(job, "commit")
	                           ? "stopped after the push: the pull request may be open"
	                           : "stopped before the end of the push: no pull request";

	job->serial++; /* the answer of what is given up is nobody's */
	engine->ops->forges.forget(engine, job->run->id.text);
	git_note(job, "note", json_string(note));
	note_event(job, note);
}
