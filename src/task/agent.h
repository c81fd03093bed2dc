/*
 * What works on an instruction. A row of agents.def each; the run engine knows them only through
 * this. Pure.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "model/exec.h"
#include "model/strings.h"
#include "model/task.h"

struct agent {
	const char *name;
	const char *about;
	bool has_model;      /* model, reasoningEffort, mcpServers and skills mean something */
	bool is_interactive; /* it takes messages while it works */
	/* Fills the command and adds to its environment. */
	int (*command)(const struct task *task, const json_t *choices, struct exec *exec,
	               struct strings *env, struct err *err);
};

/* NULL when there is none of that name. */
const struct agent *agent_find(const char *name);
/* All there are: NULL after the last. */
const struct agent *agent_at(size_t index);
/* Names with commas between, for messages. */
void agent_names(char *out, size_t size);
