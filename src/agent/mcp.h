/*
 * Servers of the Model Context Protocol that a client of cloche-agent brings: programs inside, by
 * their standard input and output, and addresses, by Streamable HTTP (revision 2025-06-18). Their
 * tools become tools of the model, called SERVER_TOOL. What they say is data: bounded in length and
 * time. Blocking, but a turn that is cancelled is heard.
 */
#pragma once

#include <jansson.h>

#include "agent/tools.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"

struct mcp;
struct mcp_tool;

/* servers: as session/new has them. Starts and greets each, asks for its tools. One that does not
 * answer fails all: err names it and why. */
int mcp_open(const json_t *servers, const struct tools_call *how, struct mcp **ret,
             struct err *err) NODISCARD;
/* Ends the programs. Accepts NULL. */
void mcp_free(struct mcp *mcp);
/* Appends them to a list as of tools_describe. mcp may be NULL. */
void mcp_describe(const struct mcp *mcp, json_t *list);
/* NULL: there is none. mcp may be NULL. */
const struct mcp_tool *mcp_find(const struct mcp *mcp, const char *name);
/* Appends the answer. <0: it failed, and the answer says why. */
int mcp_call(struct mcp *mcp, const struct mcp_tool *tool, const struct tools_call *how,
             json_t *arguments, struct buf *answer);
