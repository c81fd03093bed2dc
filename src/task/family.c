/*
 * Runs that were started from inside of others: what ends one ends all below it, at once and not
 * one after another, and a credential that is revoked ends the runs that live on it.
 */
#include "base/log.h"
#include "base/str.h"
#include "store/identity.h"
#include "task/job.h"

static void end_below(struct job *list, const char *token, const char *why)
{
	struct job *next;

	for (struct job *job = list; job; job = next) {
		next = job->next; /* one that waited may leave the list */
		if (strings_has(&job->chain, token))
			job_end(job, RUN_END_STOPPED, why);
	}
}

void family_end(struct job *job)
{
	const char *token = job->run->token.text;
	char text[96];

	if (!token[0] || job->tasks->is_shut)
		return;
	(void)snprintf(text, sizeof(text), "run %s, which it was started from, ended",
	               job->run->id.text);
	/* Ending one calls this again for it: all below are ending by then. */
	end_below(job->tasks->queue, token, text);
	end_below(job->tasks->jobs, token, text);
}

/* Its own credential, or before it has one the one it will be made with. */
static bool is_revoked(const struct job *job)
{
	const char *id = job->run->token.text[0] ? job->run->token.text : job->run->parent.text;
	auto_(credential_freep) struct credential *credential = NULL;
	struct err err = {0};

	return id[0] && store_credential_get(job_store(job), id, &credential, &err) == 0 &&
	       credential->revoked_ms != 0;
}

static void recheck(struct job *list)
{
	struct job *next;

	for (struct job *job = list; job; job = next) {
		next = job->next;
		if (job_can_end(job, RUN_END_POLICY) && is_revoked(job))
			job_end(job, RUN_END_POLICY, "the key it was started with was revoked");
	}
}

void tasks_recheck(struct tasks *tasks)
{
	if (tasks->is_shut)
		return;
	recheck(tasks->queue);
	recheck(tasks->jobs);
}
