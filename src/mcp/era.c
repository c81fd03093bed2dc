#include "mcp/era.h"

#include <sodium.h>

#include "base/mem.h"
#include "base/str.h"

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"

static const struct {
	const char *text;
	bool is_modern;
} versions[] = {
#define VERSION(text, is_modern) {text, is_modern},
#include "mcp/versions.def"
#undef VERSION
};

/* What a message without a header is of: the last revision that had none. */
static const char unsaid[] = "2025-03-26";

const char *era_version_at(size_t index, bool *ret_modern)
{
	if (index >= ARRAY_LEN(versions))
		return NULL;
	*ret_modern = versions[index].is_modern;
	return versions[index].text;
}

/* NULL: none of ours. */
static const char *known(const char *text, bool *ret_modern)
{
	for (size_t i = 0; text && i < ARRAY_LEN(versions); i++) {
		if (!str_eq(versions[i].text, text))
			continue;
		*ret_modern = versions[i].is_modern;
		return versions[i].text;
	}
	return NULL;
}

static int refuse_version(const char *asked, struct rpc_fault *fault)
{
	json_t *supported = json_array();
	char shown[40];

	str_escape(shown, sizeof(shown), asked, strlen(asked));
	(void)rpc_refuse(fault, 400, RPC_VERSION, "protocol version %s is not supported",
	                 shown); /* always -1 */
	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		json_array_append_new(supported, json_string(versions[i].text));
	fault->data = json_pack("{s:o, s:s}", "supported", supported, "requested", shown);
	return -1;
}

/* What Mcp-Name must say; NULL: nothing. */
static const char *name_of(const struct rpc *rpc)
{
	static const struct {
		const char *method, *member;
	} named[] = {
		{"tools/call", "name"},
		{"resources/read", "uri"},
		{"prompts/get", "name"},
	};

	for (size_t i = 0; i < ARRAY_LEN(named); i++) {
		if (str_eq(named[i].method, rpc->method))
			return json_string_value(json_object_get(rpc->params, named[i].member));
	}
	return NULL;
}

/* A header carries plain ASCII, or "=?base64?…?=" of something else. */
static bool says(const char *header, const char *value)
{
	size_t len = strlen(header);
	auto_free uint8_t *bytes = NULL;
	size_t size = 0;

	if (!str_has_prefix(header, "=?base64?") || !str_has_suffix(header, "?=") || len < 11)
		return str_eq(header, value);
	bytes = mem_zalloc(len);
	return sodium_base642bin(bytes, len, header + 9, len - 11, NULL, &size, NULL,
	                         sodium_base64_VARIANT_ORIGINAL) == 0 &&
	       size == strlen(value) && memcmp(bytes, value, size) == 0;
}

static int check_headers(const struct rpc *rpc, const struct era_headers *headers,
                         const char *version, struct rpc_fault *fault)
{
	const char *name = name_of(rpc);

	if (!headers->version || !str_eq(headers->version, version))
		return rpc_refuse(fault, 400, RPC_HEADERS,
		                  "the header MCP-Protocol-Version must be that of _meta");
	if (!headers->method || !str_eq(headers->method, rpc->method))
		return rpc_refuse(fault, 400, RPC_HEADERS,
		                  "the header Mcp-Method must be the method");
	if (name && (!headers->name || !says(headers->name, name)))
		return rpc_refuse(fault, 400, RPC_HEADERS,
		                  "the header Mcp-Name must be what the message names");
	return 0;
}

static int check_modern(const struct rpc *rpc, const struct era_headers *headers, struct era *era,
                        struct rpc_fault *fault)
{
	const json_t *meta = json_object_get(rpc->params, "_meta");
	const char *version = json_string_value(json_object_get(meta, META_VERSION));
	bool is_modern;

	if (!version || !json_is_object(json_object_get(meta, META_CAPABILITIES)))
		return rpc_refuse(fault, 400, RPC_PARAMS,
		                  "'_meta' must have " META_VERSION " and " META_CAPABILITIES);
	if (headers->version && !str_eq(headers->version, version))
		return check_headers(rpc, headers, version, fault);
	era->version = known(version, &is_modern);
	if (!era->version || !is_modern)
		return refuse_version(version, fault);
	return check_headers(rpc, headers, version, fault);
}

int era_of(const struct rpc *rpc, const struct era_headers *headers, struct era *ret,
           struct rpc_fault *fault)
{
	const json_t *meta = json_object_get(rpc->params, "_meta");
	bool is_modern = false;
	const char *said = known(headers->version, &is_modern);

	*ret = (struct era){.version = unsaid};
	if (json_object_get(meta, META_VERSION) || (said && is_modern)) {
		ret->is_modern = true;
		/* Notifications say less, and nothing hangs on them. */
		return rpc->kind == RPC_REQUEST ? check_modern(rpc, headers, ret, fault) : 0;
	}
	/* The handshake is where versions are talked about. */
	if (rpc->method && str_eq(rpc->method, "initialize"))
		return 0;
	if (headers->version && !said)
		return refuse_version(headers->version, fault);
	if (said)
		ret->version = said;
	return 0;
}

const char *era_negotiate(const json_t *params)
{
	const char *asked = json_string_value(json_object_get(params, "protocolVersion"));
	bool is_modern = false;
	const char *found = known(asked, &is_modern);

	if (found && !is_modern)
		return found;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		if (!versions[i].is_modern)
			return versions[i].text;
	}
	return unsaid;
}
