/*
 * Commands of manifests (model/command.h) as routes: who may call which, their arguments, what
 * comes of a call. MCP offers them as tools by way of the same route. The daemon's loop.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"

struct api;
struct call;
struct command;

/* NULL: there is none. Keep a reference. */
struct command *command_find(struct api *api, const char *noun, const char *verb);
struct command *command_find_tool(struct api *api, const char *tool);
/* Whether this caller has its scope, and a run the tool. */
bool command_may(struct call *call, const struct command *command);
/* The schema of its arguments. */
json_t *command_schema(const struct command *command);
