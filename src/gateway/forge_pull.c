/*
 * One pull request: is it there, else make it, then its labels. Whoever asks again, after a crash
 * too, finds what is there: a branch has one open pull request to a base.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "gateway/forge_impl.h"

enum { LABELS_PAGE = 50 };

struct forge_job {
	struct forge_job *next;
	struct forgeway *forgeway;
	struct forge_grant grant; /* run, sandbox and path are ours */
	char *branch, *base, *title, *body;
	bool is_draft;
	struct strings labels;
	struct forge_waiter waiter;
	char *auth;
	struct forge_call *call;
	struct loop_timer late; /* an end that was there at once */
	char *url;
	uint64_t number;
	bool is_new, was_refused;
	size_t label; /* of a forge that wants numbers: the next to be made */
	json_t *ids;
	char *note;
	struct err err;
	forge_on_pulled on_pulled;
	void *ctx;
};

static void find(struct forge_job *job);

static void job_free(struct forge_job *job)
{
	struct forge_job **at = &job->forgeway->jobs;

	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	forge_token_unwait(&job->waiter);
	forge_call_drop(job->call);
	loop_timer_stop(&job->late);
	forge_wipe(&job->auth);
	char *texts[] = {job->branch,
	                 job->base,
	                 job->title,
	                 job->body,
	                 job->url,
	                 job->note,
	                 (char *)job->grant.run,
	                 (char *)job->grant.path};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		mem_freep(&texts[i]);
	strings_done(&job->labels);
	json_decref(job->ids);
	mem_freep(&job);
}

void forge_pull_drop_all(struct forgeway *forgeway)
{
	while (forgeway->jobs)
		job_free(forgeway->jobs);
}

static void end(struct forge_job *job)
{
	struct forge_pulled pulled = {
		.url = job->url, .number = job->number, .is_new = job->is_new, .note = job->note};

	job->on_pulled(job->err.code == ERR_OK ? &pulled : NULL, &job->err, job->ctx);
	job_free(job);
}

static void fail(struct forge_job *job, const struct err *err)
{
	job->err = *err;
	end(job);
}

void forge_pull_forget(struct forgeway *forgeway, const char *run)
{
	struct forge_job *job = forgeway->jobs, *next;

	for (; job; job = next) {
		next = job->next;
		if (str_eq(job->grant.run, run)) {
			(void)err_set(&job->err, ERR_GONE, "the run is over"); /* always -1 */
			end(job);
			return; /* a run has one at a time */
		}
	}
}

static void ask(struct forge_job *job, const char *method, const char *path, json_t *body,
                forge_on_answer on_answer)
{
	struct forge_ask how = {.forge = job->grant.forge,
	                        .method = method,
	                        .path = path,
	                        .auth = job->auth,
	                        .body = body};

	job->call = forge_call_start(job->forgeway, &how, on_answer, job);
	json_decref(body);
}

/* Everything but letters, digits and -._~ as %XX. */
static char *encode(const char *text)
{
	char *out = mem_zalloc(3 * strlen(text) + 1), *to = out;

	for (; *text; text++) {
		if (isalnum((unsigned char)*text) || strchr("-._~", *text))
			*to++ = *text;
		else
			to += snprintf(to, 4, "%%%02X", (unsigned char)*text);
	}
	return out;
}

/* --- labels --- */

static void note_labels(struct forge_job *job, int status, const json_t *body,
                        const struct err *err)
{
	struct err failed = *err;

	if (status > 0)
		(void)!forge_complain(job->grant.forge, "labels", status, body, &failed);
	mem_freep(&job->note);
	job->note = mem_printf("%s", failed.msg);
}

static void on_labelled(int status, const json_t *body, const struct err *err, void *ctx)
{
	struct forge_job *job = ctx;

	job->call = NULL;
	if (status < 200 || status >= 300)
		note_labels(job, status, body, err);
	end(job);
}

static void put_labels(struct forge_job *job, json_t *labels)
{
	auto_free char *path = mem_printf("/repos/%s/issues/%llu/labels", job->grant.path,
	                                  (unsigned long long)job->number);

	ask(job, "POST", path, json_pack("{s:o}", "labels", labels), on_labelled);
}

static void next_label(struct forge_job *job);

static void on_label_made(int status, const json_t *body, const struct err *err, void *ctx)
{
	struct forge_job *job = ctx;
	json_t *id = json_object_get(body, "id");

	job->call = NULL;
	if (status != 201 || !json_is_integer(id)) {
		note_labels(job, status, body, err);
		end(job);
		return;
	}
	json_object_set(job->ids, job->labels.items[job->label - 1], id);
	next_label(job);
}

static void next_label(struct forge_job *job)
{
	auto_free char *path = mem_printf("/repos/%s/labels", job->grant.path);
	json_t *numbers = json_array();

	while (job->label < job->labels.count &&
	       json_object_get(job->ids, job->labels.items[job->label]))
		job->label++;
	if (job->label < job->labels.count) {
		json_decref(numbers);
		ask(job, "POST", path,
		    json_pack("{s:s, s:s}", "name", job->labels.items[job->label++], "color",
		              "#ededed"),
		    on_label_made);
		return;
	}
	for (size_t i = 0; i < job->labels.count; i++)
		json_array_append(numbers, json_object_get(job->ids, job->labels.items[i]));
	put_labels(job, numbers);
}

static void on_labels(int status, const json_t *body, const struct err *err, void *ctx)
{
	struct forge_job *job = ctx;
	size_t i;
	json_t *item;

	job->call = NULL;
	if (status != 200) {
		note_labels(job, status, body, err);
		end(job);
		return;
	}
	job->ids = json_object();
	json_array_foreach (body, i, item) {
		const char *name = json_string_value(json_object_get(item, "name"));

		if (name)
			json_object_set(job->ids, name, json_object_get(item, "id"));
	}
	next_label(job);
}

static void label(struct forge_job *job)
{
	auto_free char *path =
		mem_printf("/repos/%s/labels?limit=%d", job->grant.path, LABELS_PAGE);

	if (job->labels.count == 0) {
		end(job);
	} else if (job->grant.forge->kind == FORGE_GITEA) {
		ask(job, "GET", path, NULL, on_labels);
	} else {
		json_t *names = json_array();

		for (size_t i = 0; i < job->labels.count; i++)
			json_array_append_new(names, json_string(job->labels.items[i]));
		put_labels(job, names);
	}
}

/* --- the request itself --- */

static bool take(struct forge_job *job, const json_t *pull)
{
	const char *url = json_string_value(json_object_get(pull, "html_url"));
	json_int_t number = json_integer_value(json_object_get(pull, "number"));

	if (!url || number <= 0 || strlen(url) > SERVICE_URL || !service_is_value(url))
		return false;
	job->url = mem_strdup(url);
	job->number = (uint64_t)number;
	return true;
}

static bool says_no_commits(const json_t *body)
{
	auto_free char *text = json_dumps(body, JSON_ENCODE_ANY);

	return text && strcasestr(text, "no commits between");
}

static void on_made(int status, const json_t *body, const struct err *err, void *ctx)
{
	struct forge_job *job = ctx;
	struct err failed = *err;

	job->call = NULL;
	if (status == 201 && take(job, body)) {
		job->is_new = true;
		label(job);
	} else if (status == 422 && says_no_commits(body)) {
		job->note = mem_strdup("no commits that are not in the base: no pull request");
		end(job);
	} else if ((status == 422 || status == 409) && !job->was_refused) {
		/* Somebody was faster, perhaps we ourselves before a crash. */
		job->was_refused = true;
		find(job);
	} else {
		if (status > 0)
			(void)!forge_complain(job->grant.forge, "the pull request", status, body,
			                      &failed);
		fail(job, &failed);
	}
}

static void make(struct forge_job *job)
{
	auto_free char *path = mem_printf("/repos/%s/pulls", job->grant.path);
	bool is_gitea = job->grant.forge->kind == FORGE_GITEA;
	auto_free char *title =
		mem_printf("%s%s", is_gitea && job->is_draft ? "WIP: " : "", job->title);
	json_t *body = json_pack("{s:s, s:s, s:s, s:s}", "title", title, "body", job->body, "head",
	                         job->branch, "base", job->base);

	if (!is_gitea)
		json_object_set_new(body, "draft", json_boolean(job->is_draft));
	ask(job, "POST", path, body, on_made);
}

static const json_t *open_one(const struct forge_job *job, const json_t *body)
{
	const char *state = json_string_value(json_object_get(body, "state"));
	size_t i;
	json_t *item;

	if (job->grant.forge->kind == FORGE_GITEA)
		return state && str_eq(state, "open") ? body : NULL;
	json_array_foreach (body, i, item) {
		const char *ref =
			json_string_value(json_object_get(json_object_get(item, "head"), "ref"));

		if (ref && str_eq(ref, job->branch))
			return item;
	}
	return NULL;
}

static void on_found(int status, const json_t *body, const struct err *err, void *ctx)
{
	struct forge_job *job = ctx;
	struct err failed = *err;
	bool is_none = status == 404 && job->grant.forge->kind == FORGE_GITEA;
	const json_t *pull = status == 200 ? open_one(job, body) : NULL;

	job->call = NULL;
	if (pull && take(job, pull)) {
		label(job);
	} else if (status == 200 || is_none) {
		make(job);
	} else {
		if (status > 0)
			(void)!forge_complain(job->grant.forge, "pull requests", status, body,
			                      &failed);
		fail(job, &failed);
	}
}

static void find(struct forge_job *job)
{
	auto_free char *branch = encode(job->branch);
	auto_free char *base = encode(job->base);
	auto_free char *path = NULL;

	if (job->grant.forge->kind == FORGE_GITEA)
		path = mem_printf("/repos/%s/pulls/%s/%s", job->grant.path, base, branch);
	else
		path = mem_printf("/repos/%s/pulls?state=open&head=%.*s:%s&base=%s",
		                  job->grant.path, (int)strcspn(job->grant.path, "/"),
		                  job->grant.path, branch, base);
	ask(job, "GET", path, NULL, on_found);
}

static void on_late(struct loop_timer *timer, void *ctx)
{
	end(ctx);
}

static void on_token(const char *token, const struct err *err, void *ctx)
{
	struct forge_job *job = ctx;

	if (token) {
		job->auth = forge_auth(job->grant.forge, token, job->grant.forge->app_id != NULL);
		find(job);
		return;
	}
	job->err = *err;
	loop_timer_in(job->forgeway->config.loop, &job->late, 0, on_late, job);
}

void forgeway_pull(struct forgeway *forgeway, const struct forge_pull *pull,
                   forge_on_pulled on_pulled, void *ctx)
{
	struct forge_job *job = mem_new(struct forge_job);

	*job = (struct forge_job){.next = forgeway->jobs,
	                          .forgeway = forgeway,
	                          .grant = pull->grant,
	                          .branch = mem_strdup(pull->branch),
	                          .base = mem_strdup(pull->base),
	                          .title = mem_strdup(pull->title),
	                          .body = mem_strdup(pull->body),
	                          .is_draft = pull->is_draft,
	                          .waiter = {.on_token = on_token, .ctx = job},
	                          .on_pulled = on_pulled,
	                          .ctx = ctx};
	job->grant.run = mem_strdup(pull->grant.run);
	job->grant.path = mem_strdup(pull->grant.path);
	job->grant.sandbox = "";
	if (pull->labels)
		strings_copy(&job->labels, pull->labels);
	forgeway->jobs = job;
	forge_token_get(forgeway, &job->grant, &job->waiter);
}
