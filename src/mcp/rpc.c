#include "mcp/rpc.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/must.h"
#include "base/str.h"

int rpc_refuse(struct rpc_fault *fault, int status, int code, const char *fmt, ...)
{
	va_list args;

	*fault = (struct rpc_fault){.status = status, .code = code};
	va_start(args, fmt);
	(void)vsnprintf(fault->text, sizeof(fault->text), fmt, args); /* cut is fine */
	va_end(args);
	return -1;
}

static bool is_id(const json_t *id)
{
	return json_is_string(id) || json_is_integer(id);
}

/* What kind it is, from which members it has. */
static int classify(struct rpc *rpc, struct rpc_fault *fault)
{
	const json_t *method = json_object_get(rpc->whole, "method");
	json_t *params = json_object_get(rpc->whole, "params");
	bool has_answer =
		json_object_get(rpc->whole, "result") || json_object_get(rpc->whole, "error");

	if (!method && has_answer) {
		rpc->kind = RPC_RESPONSE;
		return 0;
	}
	if (!json_is_string(method) || has_answer)
		return rpc_refuse(fault, 400, RPC_INVALID, "'method' must be a text");
	if (params && !json_is_object(params))
		return rpc_refuse(fault, 400, RPC_PARAMS, "'params' must be an object");
	if (json_object_get(rpc->whole, "id") && !rpc->id)
		return rpc_refuse(fault, 400, RPC_INVALID, "'id' must be a text or a whole number");
	rpc->method = json_string_value(method);
	rpc->params = params;
	rpc->kind = rpc->id ? RPC_REQUEST : RPC_NOTIFICATION;
	return 0;
}

int rpc_read(const char *bytes, size_t len, struct rpc *ret, struct rpc_fault *fault)
{
	const char *version;
	const json_t *id;
	json_error_t why;

	*ret = (struct rpc){0};
	ret->whole = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &why);
	if (!ret->whole) {
		char shown[100];

		str_escape(shown, sizeof(shown), why.text, strlen(why.text));
		return rpc_refuse(fault, 400, RPC_PARSE, "not valid JSON: line %d, column %d: %s",
		                  why.line, why.column, shown);
	}
	if (json_is_array(ret->whole))
		return rpc_refuse(fault, 400, RPC_INVALID, "one message at a time: no batches");
	if (!json_is_object(ret->whole))
		return rpc_refuse(fault, 400, RPC_INVALID, "a message is an object");
	id = json_object_get(ret->whole, "id");
	ret->id = is_id(id) ? id : NULL;
	version = json_string_value(json_object_get(ret->whole, "jsonrpc"));
	if (!version || !str_eq(version, "2.0"))
		return rpc_refuse(fault, 400, RPC_INVALID, "'jsonrpc' must be \"2.0\"");
	return classify(ret, fault);
}

void rpc_done(struct rpc *rpc)
{
	json_decref(rpc->whole);
	*rpc = (struct rpc){0};
}

static json_t *with_id(const json_t *id)
{
	json_t *message = json_pack("{s:s}", "jsonrpc", "2.0");

	must(message);
	json_object_set_new(message, "id", id ? json_deep_copy(id) : json_null());
	return message;
}

json_t *rpc_result(const json_t *id, json_t *result)
{
	json_t *message = with_id(id);

	json_object_set_new(message, "result", result);
	return message;
}

json_t *rpc_error(const json_t *id, struct rpc_fault *fault)
{
	json_t *message = with_id(id);
	char shown[2 * sizeof(fault->text)];
	json_t *error;

	/* It may quote bytes of the message. */
	(void)snprintf(shown, sizeof(shown), "%s", fault->text);
	if (!str_is_utf8(shown, strlen(shown)))
		str_escape(shown, sizeof(shown), fault->text, strlen(fault->text));
	error = json_pack("{s:i, s:s}", "code", fault->code, "message", shown);
	must(error);
	if (fault->data)
		json_object_set_new(error, "data", take_ptr(fault->data));
	json_object_set_new(message, "error", error);
	return message;
}

json_t *rpc_notice(const char *method, json_t *params)
{
	return json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params);
}
