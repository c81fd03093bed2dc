/*
 * Git inside a sandbox (git.cloche.internal): whose run it is decides about the repository, the
 * scopes of its credential about reading and writing. Whatever git sends as a credential counts
 * for nothing.
 */
#include "api/call.h"
#include "api/record.h"
#include "base/io.h"
#include "base/mem.h"
#include "http/request.h"
#include "model/config.h"
#include "model/scope.h"
#include "store/identity.h"
#include "task/tasks.h"

static int fill(const struct api *api, const struct request *request, struct tasks_git *git,
                struct forge_grant *ret, struct err *err)
{
	auto_(credential_freep) struct credential *token = NULL;
	const char *sandbox = request_guest(request);

	if (!api->tasks || !tasks_git_in(api->tasks, sandbox, request_target(request), git))
		return err_set(err, ERR_FORBIDDEN,
		               "no run with a repository is under way in this sandbox");
	if (store_credential_of_run(api->store, git->run.text, &token, err) < 0 ||
	    !credential_is_live(token, io_real_ms()) ||
	    !scopes_has(&token->scopes, SCOPE_REPOSITORIES_READ))
		return err_set(err, ERR_FORBIDDEN, "this run has no scope %s",
		               scope_name(SCOPE_REPOSITORIES_READ));
	*ret = (struct forge_grant){.run = git->run.text,
	                            .sandbox = sandbox,
	                            .forge = forge_find(&api->config->git, git->forge),
	                            .path = git->path,
	                            .branch = git->branch ? git->branch : "",
	                            .may_write =
	                                    scopes_has(&token->scopes, SCOPE_REPOSITORIES_WRITE)};
	if (!ret->forge)
		return err_set(err, ERR_UNAVAILABLE, "forge %.63s is not configured any more",
		               git->forge);
	return 0;
}

void api_on_git(struct request *request, void *ctx)
{
	struct api *api = ctx;
	struct forge_grant grant;
	struct tasks_git git;
	struct err err = {0};
	bool may = fill(api, request, &git, &grant, &err) == 0;

	if (!may)
		record_denial(api, request, NULL, "git", NULL, "run");
	api->engine->ops->forges.serve(api->engine, request, may ? &grant : NULL, &err);
}
