/*
 * Servers of MCP that a task brings for its agent: `mcpServers` as people write it, and as
 * session/new of the Agent Client Protocol has it. Whatever stands in it is readable inside, so
 * headers that carry credentials are refused: a service has them (docs/services.md). Pure.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"

/* An object of servers by name, or a list of them. ERR_INVALID says which and why.
 * ret NULL: only to be looked at; otherwise the caller frees. */
int servers_parse(const json_t *wish, json_t **ret, struct err *err) NODISCARD;
