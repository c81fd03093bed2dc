/*
 * Which revision of MCP a message is of, and whether headers and message agree about it. Up to
 * 2025-11-25 a client shakes hands and has a session; from 2026-07-28 on every request says
 * everything. Pure.
 */
#pragma once

#include "base/base.h"
#include "mcp/rpc.h"

/* Of HTTP; NULL: absent. */
struct era_headers {
	const char *version; /* MCP-Protocol-Version */
	const char *method;  /* Mcp-Method */
	const char *name;    /* Mcp-Name */
};

struct era {
	bool is_modern;
	const char *version; /* one of versions.def */
};

/* NULL after the last. */
const char *era_version_at(size_t index, bool *ret_modern);
/* ERR in fault: 400 with the code of the revision. */
int era_of(const struct rpc *rpc, const struct era_headers *headers, struct era *ret,
           struct rpc_fault *fault) NODISCARD;
/* What the answer to `initialize` says: the client's own revision if it has a handshake and we
 * speak it, else our newest that has. */
const char *era_negotiate(const json_t *params);
