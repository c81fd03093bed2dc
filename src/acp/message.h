/*
 * Messages of the Agent Client Protocol: JSON-RPC 2.0, one object a line, either side asks. Pure:
 * bytes in, a message or a reason out. What comes from an agent is hostile: bounded in length and
 * depth, members of a wrong type are an error, unknown ones are ignored.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"

enum {
	ACP_LINE_MOST = 8 * 1024 * 1024,
	ACP_VERSION = 1, /* the stable one */
};

/* Error codes of JSON-RPC and of the protocol. */
enum {
	ACP_ERR_PARSE = -32700,
	ACP_ERR_REQUEST = -32600,
	ACP_ERR_METHOD = -32601,
	ACP_ERR_PARAMS = -32602,
	ACP_ERR_INTERNAL = -32603,
	ACP_ERR_NOT_FOUND = -32002,
	ACP_ERR_CANCELLED = -32800,
};

enum acp_kind { ACP_REQUEST, ACP_NOTIFICATION, ACP_RESPONSE };

struct acp_message {
	enum acp_kind kind;
	const json_t *id;     /* of a request or response: a number, a string or null */
	const char *method;   /* of a request or notification */
	const json_t *params; /* may be NULL */
	const json_t *result; /* of a response that succeeded, else NULL */
	const json_t *error;  /* of one that failed: an object, else NULL */
	json_t *root;         /* owns all of these */
};

/* One line without its end. ERR_PROTOCOL. */
int acp_parse(const char *line, size_t len, struct acp_message *ret, struct err *err) NODISCARD;
void acp_message_done(struct acp_message *message);

/* Lines with their end; the caller frees. All take params, result; NULL: an empty object. */
char *acp_request(uint64_t id, const char *method, json_t *params) NODISCARD;
char *acp_notification(const char *method, json_t *params) NODISCARD;
char *acp_result(const json_t *id, json_t *result) NODISCARD;
char *acp_error(const json_t *id, int code, const char *text) NODISCARD;

/* Text of a member, or "". */
const char *acp_text(const json_t *object, const char *name);

/* Bytes of a stream to lines. Each line is told with the place in the stream where it began. */
struct acp_lines {
	struct buf rest; /* of the line that is not whole yet */
	uint64_t start;  /* where that began; valid while there is a rest */
};

typedef void (*acp_on_line)(const char *line, size_t len, void *ctx);

void acp_lines_init(struct acp_lines *lines);
void acp_lines_done(struct acp_lines *lines);
/* `offset` is the place of the first byte. Blank lines are skipped. -EMSGSIZE: the line is longer
 * than any may be. */
int acp_lines_feed(struct acp_lines *lines, uint64_t offset, const void *bytes, size_t len,
                   acp_on_line on_line, void *ctx) NODISCARD;
