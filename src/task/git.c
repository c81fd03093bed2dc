#include "task/git.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/rights.h"
#include "task/collect.h"
#include "task/inside.h"
#include "task/job.h"
#include "task/redact.h"

const json_t *git_choices(const struct job *job)
{
	return json_object_get(job->choices, "git");
}

const char *git_text(const struct job *job, const char *name)
{
	return json_string_value(json_object_get(git_choices(job), name));
}

static bool may_write(const struct job *job)
{
	struct rights rights = {0};
	struct err err = {0};
	bool may = rights_load(&job->run->rights, &rights, &err) == 0 &&
	           scopes_has(&rights.scopes, SCOPE_REPOSITORIES_WRITE);

	rights_done(&rights);
	return may;
}

bool git_publishes(const struct job *job)
{
	return git_choices(job) && json_is_true(json_object_get(git_choices(job), "createPr")) &&
	       may_write(job);
}

char *git_cwd(const struct job *job, const struct sandbox *sandbox)
{
	const char *path = git_text(job, "path"), *name = path ? strchr(path, '/') : NULL;
	const char *cwd = sandbox->spec.cwd ? sandbox->spec.cwd : "/";

	if (!name)
		return mem_strdup(cwd);
	return mem_printf("%s%s", str_eq(cwd, "/") ? "" : cwd, name);
}

void git_env(const struct sandbox *sandbox, struct strings *env)
{
	strings_copy(env, &sandbox->spec.env);
	if (!strings_value(env, "PATH"))
		strings_set(env, "PATH",
		            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	strings_set(env, "GIT_TERMINAL_PROMPT", "0");
	strings_set(env, "GIT_LFS_SKIP_SMUDGE", "1");
	strings_set(env, "LC_ALL", "C");
}

/* --- what is known --- */

void git_note(struct job *job, const char *name, json_t *value)
{
	if (!job->git)
		job->git = json_object();
	json_object_set_new(job->git, name, value);
	job->has_git = true;
}

const char *git_noted(const struct job *job, const char *name)
{
	return json_string_value(json_object_get(job->git, name));
}

void git_save(struct job *job, struct store_write *write)
{
	auto_free char *text = job->has_git ? json_dumps(job->git, JSON_COMPACT) : NULL;

	if (text)
		store_put_run_git(write, job->run->id.text, text);
}

void git_load(struct job *job)
{
	auto_free char *text = NULL;
	struct err err = {0};

	if (!git_choices(job))
		return;
	if (store_run_git_get(job_store(job), job->run->id.text, &text, &err) == 0)
		job->git = json_loads(text, 0, NULL);
	else if (err.code != ERR_NOT_FOUND)
		log_error("what a run did with its repository cannot be read",
		          LOG_STR("run", job->run->id.text), LOG_ERR(&err));
}

/* --- what git says --- */

char *git_line(const struct inside_end *end, const char *name)
{
	const char *text = (const char *)buf_head(end->out);
	const char *stop = text ? text + buf_len(end->out) : text;
	size_t len = strlen(name);

	while (text && text < stop) {
		const char *next = memchr(text, '\n', (size_t)(stop - text));
		size_t line = (size_t)((next ? next : stop) - text);

		if (line > len && memcmp(text, name, len) == 0 && text[len] == '=')
			return mem_strndup(text + len + 1, line - len - 1);
		text = next ? next + 1 : stop;
	}
	return NULL;
}

/* Most of what git prints is about its way; what ended it stands last. */
static const char *last_words(const char *text)
{
	const char *fatal = strstr(text, "fatal: "), *remote = strstr(text, "remote: ");

	if (remote && (!fatal || remote < fatal))
		return remote;
	return fatal ? fatal : text;
}

void git_complain(struct job *job, const char *what, const struct inside_end *end, struct err *err)
{
	struct redact *redact = collect_redact(job->tasks, job->task);
	char text[1024];
	auto_free char *clean = NULL;
	bool is_missing = end->exec && end->exec->exit_code == 127;

	inside_complaint(end, text, sizeof(text));
	clean = redact_text(redact, last_words(text));
	redact_free(redact);
	/* A forge that is away may come back; one that says no means it. */
	bool is_said = strstr(text, "not found") || strstr(text, "error: 40") ||
	               strstr(text, "remote: ") || strstr(text, "rejected");

	(void)err_set(err,
	              !end->exec   ? end->err->code
	              : is_missing ? ERR_MISSING
	              : is_said    ? ERR_INVALID
	                           : ERR_UNAVAILABLE,
	              "%s: %s", what, clean); /* always -1 */
}
