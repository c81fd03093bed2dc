/*
 * JSON-RPC 2.0 as MCP uses it: one message at a time, bytes of a stranger. Pure; the daemon.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"

enum rpc_code {
	RPC_PARSE = -32700,
	RPC_INVALID = -32600,
	RPC_NO_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	RPC_REFUSED = -32001, /* no session, no right */
	RPC_HEADERS = -32020, /* headers and message do not agree */
	RPC_VERSION = -32022, /* a revision we do not speak */
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };

struct rpc {
	enum rpc_kind kind;
	json_t *whole;      /* owned; the others point into it */
	const json_t *id;   /* of a request: a text or a whole number */
	const char *method; /* NULL: a response */
	json_t *params;     /* NULL or an object */
};

/* Why a message is not served. */
struct rpc_fault {
	int status; /* of HTTP */
	int code;
	char text[200];
	json_t *data; /* owned; NULL: none */
};

/* Fills *ret, or *fault and returns -1; what could be read of the id is in *ret even then. */
int rpc_read(const char *bytes, size_t len, struct rpc *ret, struct rpc_fault *fault) NODISCARD;
void rpc_done(struct rpc *rpc);
/* Always -1. */
int rpc_refuse(struct rpc_fault *fault, int status, int code, const char *fmt, ...) PRINTF(4, 5);

/* Messages; id may be NULL (then null). What is given is taken, but id. */
json_t *rpc_result(const json_t *id, json_t *result);
/* Takes fault->data. */
json_t *rpc_error(const json_t *id, struct rpc_fault *fault);
json_t *rpc_notice(const char *method, json_t *params);
