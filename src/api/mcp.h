/*
 * MCP at /mcp: the API's own routes as tools. mcp.c speaks the protocol, mcp_schema.c describes
 * tools, mcp_call.c calls them: as requests of the same caller, so that there is one place that
 * says who may what. The daemon's loop.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"

struct api;
struct call;
struct command;
struct era;
struct request;
struct route;
struct rpc;
struct stream;
struct tool;

struct mcp *mcp_new(void);
void mcp_free(struct mcp *mcp);

/* --- mcp_schema.c --- */
/* The route behind a tool; there is one. */
const struct route *mcp_route(const struct tool *tool);
/* Whether this caller has the scope, and a run the tool. */
bool mcp_may(struct call *call, const struct tool *tool);
/* What tools/list says of a tool. */
json_t *mcp_describe(const struct tool *tool);
/* … and of a command of a manifest. */
json_t *mcp_describe_command(const struct command *command);

/* --- mcp_call.c --- */
/* Calls a tool; the answer comes on the stream, which then ends. Whatever goes wrong with the call
 * is part of the answer. The arguments (taken) are those of the tool's route. */
void mcp_call(struct call *call, const struct tool *tool, json_t *arguments, const struct rpc *rpc,
              const struct era *era, struct stream *stream);

/* --- for whoever refuses a caller of /mcp --- */
/* "http://HOST" as the client knows us; the caller frees. */
char *mcp_base(const struct api *api, const struct request *request);
/* What WWW-Authenticate says; error and scope may be NULL. The caller frees. */
char *mcp_challenge(const struct api *api, const struct request *request, const char *error,
                    const char *scope);
