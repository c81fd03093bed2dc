#include "model/exec.h"

#include "base/mem.h"
#include "base/str.h"

enum { STATUS_TIMEOUT = 124 };

struct exec *exec_new(const struct id *sandbox)
{
	struct exec *exec = mem_new(struct exec);

	exec->id = id_new("ex");
	exec->sandbox = *sandbox;
	return exec;
}

struct exec *exec_copy(const struct exec *exec)
{
	struct exec *copy = mem_new(struct exec);

	*copy = *exec;
	copy->argv = (struct strings){0};
	strings_copy(&copy->argv, &exec->argv);
	copy->user = exec->user != NULL ? mem_strdup(exec->user) : NULL;
	copy->cwd = exec->cwd != NULL ? mem_strdup(exec->cwd) : NULL;
	copy->reason = exec->reason != NULL ? mem_strdup(exec->reason) : NULL;
	return copy;
}

void exec_free(struct exec *exec)
{
	if (exec == NULL)
		return;
	strings_done(&exec->argv);
	free(exec->user);
	free(exec->cwd);
	free(exec->reason);
	free(exec);
}

void exec_freep(struct exec **exec)
{
	exec_free(*exec);
	*exec = NULL;
}

int exec_status(const struct exec *exec)
{
	if (exec->reason != NULL && str_eq(exec->reason, "timeout"))
		return STATUS_TIMEOUT;
	return exec->signal != 0 ? 128 + exec->signal : exec->exit_code;
}
