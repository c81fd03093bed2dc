/*
 * What works on an instruction: a row of agents.def each, and those that config.toml adds as
 * [agents.NAME]. The run engine knows them only through this. Pure.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "model/exec.h"
#include "model/strings.h"
#include "model/task.h"

struct config;

enum agent_protocol { AGENT_PLAIN, AGENT_ACP };

struct agent {
	const char *name;
	const char *about;
	enum agent_protocol protocol;
	bool has_model;          /* model, reasoningEffort, mcpServers and skills mean something */
	const char *mode;        /* of the protocol, to be set; NULL: as it is */
	const char *const *argv; /* ends with NULL */
	const char *const *env;  /* NAME=value; ends with NULL */
	const char *packages;    /* see agents.def; NULL: of config.toml */
	const char *manifest;    /* path; NULL: it has none, and is trusted as the operator's own */
};

/* The name of the model gateway inside. */
#define AGENT_GATEWAY "http://llm.cloche.internal"
/* Where agents that were installed are, and the image that has one. */
#define AGENT_ROOT  "/opt/cloche/agents"
#define AGENT_IMAGE "agent-"
#define AGENT_HOME  "/home/agent"
/* What a provider makes of it is its default_model; the word "default" alone means something of
 * their own to some agents. */
#define AGENT_MODEL "cloche-default"

/* false when there is none of that name. *ret refers to config. */
bool agent_find(const struct config *config, const char *name, struct agent *ret) NODISCARD;
/* All there are; false after the last. */
bool agent_at(const struct config *config, size_t index, struct agent *ret) NODISCARD;
/* Names with commas between, for messages. */
void agent_names(const struct config *config, char *out, size_t size);
/* Whether it comes with Cloche itself and needs nothing in the image. */
bool agent_is_built_in(const struct agent *agent);

/* Whether it can be told how hard to think; whether it takes servers of MCP. */
bool agent_has_effort(const struct agent *agent);
bool agent_takes_servers(const struct agent *agent);
/* A level it can be told. */
bool agent_is_effort(const char *level);

struct agent_start {
	const struct task *task;
	const char *model;  /* NULL: the default one */
	const char *effort; /* NULL: as it thinks best */
	const char *token;
	bool is_interactive; /* it takes commands after its instruction */
};
/* Of what a task was asked for. */
bool task_is_interactive(const json_t *choices);
/* Fills the command and adds to its environment. */
void agent_command(const struct agent *agent, const struct agent_start *start, struct exec *exec,
                   struct strings *env);
/* Its files, as `inputs` of a task: appended to the list. */
void agent_files(const struct agent *agent, const struct agent_start *start, json_t *inputs);
