#include "task/agent.h"

#include <stdio.h>

#include "base/str.h"

static int command_shell(const struct task *task, const json_t *choices, struct exec *exec,
                         struct strings *env, struct err *err)
{
	strings_add(&exec->argv, "/bin/sh");
	strings_add(&exec->argv, "-c");
	strings_add(&exec->argv, task->instruction);
	return 0;
}

static const struct agent agents[] = {
#define AGENT(id, name, model, interactive, about) {name, about, model, interactive, command_##id},
#include "task/agents.def"
#undef AGENT
};

const struct agent *agent_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(agents); i++) {
		if (str_eq(agents[i].name, name))
			return &agents[i];
	}
	return NULL;
}

const struct agent *agent_at(size_t index)
{
	return index < ARRAY_LEN(agents) ? &agents[index] : NULL;
}

void agent_names(char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(agents) && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "",
		                         agents[i].name);
}
