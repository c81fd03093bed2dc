/*
 * A message of an MCP client, with its headers before it: three lines, then the body. Whatever the
 * bytes, it is a message of one kind or a fault with a text, and what is answered is valid JSON.
 */
#include "base/mem.h"
#include "base/must.h"
#include "mcp/era.h"
#include "mcp/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* The next line; NULL for an empty one. The caller frees. */
static char *line(const uint8_t **bytes, size_t *len)
{
	const uint8_t *end = *len > 0 ? memchr(*bytes, '\n', *len) : NULL;
	size_t size = end ? (size_t)(end - *bytes) : 0;
	char *text = size > 0 ? mem_strndup((const char *)*bytes, size) : NULL;

	if (end) {
		*bytes = end + 1;
		*len -= size + 1;
	}
	return text;
}

static void refuse(const struct rpc *rpc, struct rpc_fault *fault)
{
	json_t *message;
	char *text;

	must(fault->status >= 400 && fault->code != 0 && fault->text[0]);
	message = rpc_error(rpc->id, fault);
	text = json_dumps(message, JSON_COMPACT);
	must(text);
	free(text);
	json_decref(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_free char *version = line(&bytes, &len);
	auto_free char *method = line(&bytes, &len);
	auto_free char *name = line(&bytes, &len);
	struct era_headers headers = {version, method, name};
	struct rpc_fault fault = {0};
	struct era era;
	struct rpc rpc;

	if (rpc_read((const char *)bytes, len, &rpc, &fault) < 0) {
		refuse(&rpc, &fault);
	} else if (rpc.kind != RPC_RESPONSE) {
		must(rpc.method && (rpc.kind == RPC_REQUEST) == (rpc.id != NULL));
		if (era_of(&rpc, &headers, &era, &fault) < 0)
			refuse(&rpc, &fault);
		must(era_negotiate(rpc.params));
	}
	rpc_done(&rpc);
	return 0;
}
