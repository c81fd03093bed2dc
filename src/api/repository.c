#include "api/repository.h"

#include <string.h>

#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "model/forge.h"
#include "model/scope.h"
#include "model/service.h"
#include "model/task.h"
#include "store/identity.h"
#include "store/task.h"

enum { LABELS_MOST = 20, LABEL_MOST = 50, BODY_MOST = 32 * 1024 };

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static bool is_given(const json_t *body, const char *name)
{
	const json_t *value = json_object_get(body, name);

	return value && !json_is_null(value);
}

/* --- what belongs to a repository --- */

static int check_alone(const json_t *body, struct err *err)
{
	static const char *const names[] = {"branch", "createPr", "pullRequest", "commitAs"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (is_given(body, names[i]) && !json_is_false(json_object_get(body, names[i])))
			return err_set(err, ERR_INVALID, "'%s' needs a repository", names[i]);
	}
	return 0;
}

static int take_author(const json_t *body, json_t *git, struct err *err)
{
	json_t *author = json_object_get(body, "commitAs");

	if (!is_given(body, "commitAs"))
		return 0;
	if (author_check("commitAs.name", text_of(author, "name"), err) < 0 ||
	    author_check("commitAs.email", text_of(author, "email"), err) < 0)
		return -1;
	json_object_set(git, "author", author);
	return 0;
}

static int check_labels(const json_t *labels, struct err *err)
{
	size_t i;
	json_t *label;

	if (json_array_size(labels) > LABELS_MOST)
		return err_set(err, ERR_INVALID, "'pullRequest.labels' has more than %d entries",
		               LABELS_MOST);
	json_array_foreach (labels, i, label) {
		const char *text = json_string_value(label);

		if (!text || !*text || strlen(text) > LABEL_MOST || !service_is_value(text))
			return err_set(err, ERR_INVALID, "'pullRequest.labels' %zu is no label",
			               i + 1);
	}
	return 0;
}

static int take_pull(const json_t *body, json_t *git, struct err *err)
{
	static const char *const kept[] = {"draft", "labels", "title", "body", "base"};
	const json_t *pull = json_object_get(body, "pullRequest");
	const char *title = text_of(pull, "title"), *text = text_of(pull, "body");
	const char *base = text_of(pull, "base");

	if (title && (!*title || strlen(title) > TASK_TITLE_BYTES || !service_is_value(title)))
		return err_set(err, ERR_INVALID,
		               "'pullRequest.title' is one line of at most %d "
		               "bytes",
		               TASK_TITLE_BYTES);
	if (text && strlen(text) > BODY_MOST)
		return err_set(err, ERR_INVALID, "'pullRequest.body' has more than %d bytes",
		               BODY_MOST);
	if (base && branch_check(base, err) < 0)
		return err_wrap(err, "'pullRequest.base'");
	if (check_labels(json_object_get(pull, "labels"), err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		if (is_given(pull, kept[i]))
			json_object_set(git, kept[i], json_object_get(pull, kept[i]));
	}
	return 0;
}

/* --- the repository --- */

static int check_team(struct call *call, const struct task *task,
                      const struct repository *repository, struct err *err)
{
	struct team team = {0};
	int r;

	if (store_team_get(call->api->store, task->team.text, &team, err) < 0)
		return -1;
	r = repository_allows(repository, team.name, err);
	team_done(&team);
	return r;
}

static int take_branch(struct call *call, const struct task *task, json_t *git, struct err *err)
{
	const char *branch = text_of(call->body, "branch");
	auto_free char *made = mem_printf(
		"%s%s",
		call->api->config->git.branch_prefix ? call->api->config->git.branch_prefix : "",
		task->id.text);

	if (branch && branch_check(branch, err) < 0)
		return -1;
	json_object_set_new(git, "branch", json_string(branch ? branch : made));
	return 0;
}

static int take_new(struct call *call, const struct task *task, json_t *git, struct err *err)
{
	struct repository repository;
	auto_free char *id = NULL;

	if (repository_parse(&call->api->config->git, text_of(call->body, "repository"),
	                     &repository, err) < 0 ||
	    check_team(call, task, &repository, err) < 0 || take_branch(call, task, git, err) < 0)
		return -1;
	id = repository_id(&repository);
	json_object_set_new(git, "forge", json_string(repository.forge->name));
	json_object_set_new(git, "path", json_string(repository.path));
	json_object_set_new(git, "id", json_string(id));
	return 0;
}

/* The files are those of a clone: another repository or branch would not fit them. */
static int take_same(struct call *call, const json_t *old, json_t *git, struct err *err)
{
	const char *branch = text_of(call->body, "branch");
	struct repository repository;
	auto_free char *id = NULL;

	if (branch && !str_eq(branch, text_of(old, "branch")))
		return err_set(err, ERR_INVALID,
		               "'resumeFrom': the run before has branch %.100s: leave it out",
		               text_of(old, "branch"));
	if (is_given(call->body, "repository")) {
		if (repository_parse(&call->api->config->git, text_of(call->body, "repository"),
		                     &repository, err) < 0)
			return -1;
		id = repository_id(&repository);
		if (!str_eq(id, text_of(old, "id")))
			return err_set(err, ERR_INVALID,
			               "'resumeFrom': the run before has "
			               "another repository: leave it out");
	}
	json_object_update(git, (json_t *)old);
	return 0;
}

int repository_take(struct call *call, const struct task *task, const json_t *before,
                    json_t *choices, struct err *err)
{
	const json_t *old = json_object_get(before, "git");
	json_t *create = json_object_get(call->body, "createPr");
	json_t *git;
	int r;

	if (!is_given(call->body, "repository") && !old)
		return check_alone(call->body, err);
	if (before && !old)
		return err_set(err, ERR_INVALID,
		               "'resumeFrom': the run before has no repository: leave it out");
	git = json_object();
	json_object_set_new(choices, "git", git);
	r = old ? take_same(call, old, git, err) : take_new(call, task, git, err);
	if (r < 0 || take_author(call->body, git, err) < 0 || take_pull(call->body, git, err) < 0)
		return -1;
	json_object_set_new(git, "isAsked", json_boolean(json_is_true(create)));
	if (create && !json_is_null(create))
		json_object_set(git, "createPr", create);
	else if (!old)
		json_object_set_new(git, "createPr", json_true());
	json_object_set(choices, "branch", json_object_get(git, "branch"));
	json_object_set(choices, "repository", json_object_get(git, "id"));
	return 0;
}

/* --- what its credential may do --- */

int repository_check_scopes(const struct task *task, const struct scopes *scopes, struct err *err)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	const json_t *git = json_object_get(choices, "git");
	const char *id = text_of(git, "id");
	int r = 0;

	if (id && !scopes_has(scopes, SCOPE_REPOSITORIES_READ))
		r = err_set(err, ERR_FORBIDDEN, "'repository' needs the scope %s",
		            scope_name(SCOPE_REPOSITORIES_READ));
	else if (json_is_true(json_object_get(git, "isAsked")) &&
	         !scopes_has(scopes, SCOPE_REPOSITORIES_WRITE))
		r = err_set(err, ERR_FORBIDDEN, "'createPr' needs the scope %s",
		            scope_name(SCOPE_REPOSITORIES_WRITE));
	json_decref(choices);
	return r;
}

/* --- what is shown --- */

void repository_encode(json_t *object, const struct task *task)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	const json_t *git = json_object_get(choices, "git");
	const json_t *create = json_object_get(git, "createPr");

	json_object_set_new(object, "repository", encode_text(text_of(git, "id")));
	json_object_set_new(object, "branch", encode_text(text_of(git, "branch")));
	json_object_set_new(object, "createPr", json_boolean(json_is_true(create)));
	json_decref(choices);
}

json_t *repository_encode_pull(struct api *api, const char *run)
{
	auto_free char *text = NULL;
	struct err err = {0};
	json_t *state, *object;

	if (store_run_git_get(api->store, run, &text, &err) < 0)
		return json_null();
	state = json_loads(text, 0, NULL);
	object = json_object();
	json_object_set_new(object, "url", encode_text(text_of(state, "url")));
	json_object_set(object, "number", json_object_get(state, "number"));
	if (!json_object_get(object, "number"))
		json_object_set_new(object, "number", json_null());
	json_object_set_new(object, "base", encode_text(text_of(state, "base")));
	json_object_set_new(object, "commit", encode_text(text_of(state, "commit")));
	json_object_set_new(object, "note", encode_text(text_of(state, "note")));
	json_decref(state);
	return object;
}
