#include "api/call.h"
#include "api/commands.h"
#include "api/delegate.h"
#include "api/mcp.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "mcp/tools.h"
#include "model/command.h"
#include "model/rights.h"

#define REFERENCE "#/components/schemas/"

const struct route *mcp_route(const struct tool *tool)
{
	for (const struct route *route = route_table; route->path; route++) {
		if (str_eq(route->name, tool->route))
			return route;
	}
	must(!"a tool without a route");
	return NULL;
}

bool mcp_may(struct call *call, const struct tool *tool)
{
	const struct route *route = mcp_route(tool);
	struct rights rights = {0};
	struct err err = {0};
	bool may;

	if (!scopes_has(&call->caller->scopes, route->scope) ||
	    ((route->flags & ROUTE_OPERATOR) && !call->caller->is_operator))
		return false;
	if (!call->caller->run.text[0])
		return true;
	may = delegate_rights(call->api, call->caller, &rights, &err) == 0 &&
	      allowed_has(&rights.tools, tool->name);
	rights_done(&rights);
	return may;
}

/* --- what it takes --- */

static void add_text(json_t *properties, const char *name, const char *about)
{
	json_object_set_new(properties, name,
	                    json_pack("{s:s, s:s}", "type", "string", "description", about));
}

static void add_path(const struct route *route, json_t *properties, json_t *required)
{
	for (const char *at = strchr(route->path, '{'); at; at = strchr(at + 1, '{')) {
		auto_free char *name = mem_strndup(at + 1, strcspn(at + 1, "}"));

		add_text(properties, name, "id or name");
		json_array_append_new(required, json_string(name));
	}
}

static void add_query(const struct route *route, json_t *properties)
{
	static const char *const types[] = {
		[SCHEMA_STRING] = "string", [SCHEMA_BOOL] = "boolean", [SCHEMA_COUNT] = "integer"};

	for (const struct route_param *param = route_params; param->name; param++) {
		/* What never ends is no answer of a tool. */
		if (str_eq(param->name, "follow") ||
		    route_check_query(route, param->name, "1", NULL) < 0)
			continue;
		json_object_set_new(properties, param->name,
		                    json_pack("{s:s, s:s}", "type", types[param->kind],
		                              "description", param->about));
	}
}

/* Turns references into the document's own, and adds what they lead to. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as schemas.def, which we wrote */
static void localize(json_t *value, json_t *defs)
{
	const char *ref = json_string_value(json_object_get(value, "$ref"));
	const char *key;
	json_t *item;
	size_t index;

	if (ref && str_has_prefix(ref, REFERENCE)) {
		auto_free char *name = mem_strdup(ref + strlen(REFERENCE));
		auto_free char *local = mem_printf("#/$defs/%s", name);
		json_t *def;

		json_object_set_new(value, "$ref", json_string(local));
		if (json_object_get(defs, name))
			return;
		def = schema_describe(schema_find(name));
		json_object_set_new(defs, name, def);
		localize(def, defs);
		return;
	}
	json_object_foreach (value, key, item)
		localize(item, defs);
	json_array_foreach (value, index, item)
		localize(item, defs);
}

static void add_body(const struct route *route, json_t *properties, json_t *required)
{
	json_t *schema = schema_describe(schema_find(route->request));
	size_t index;
	json_t *name;

	json_object_update_missing(properties, json_object_get(schema, "properties"));
	json_array_foreach (json_object_get(schema, "required"), index, name)
		json_array_append(required, name);
	json_decref(schema);
}

static void add_wait(const struct tool *tool, json_t *properties)
{
	bool awaits = tool->flags & TOOL_AWAITS;

	json_object_set_new(properties, "waitSeconds",
	                    json_pack("{s:s, s:i, s:i, s:i, s:s}", "type", "integer", "minimum", 0,
	                              "maximum", TOOL_WAIT_MOST_S, "default",
	                              awaits ? TOOL_WAIT_MOST_S : 0, "description",
	                              "how long to wait for the end before answering"));
}

static json_t *input_schema(const struct tool *tool, const struct route *route)
{
	json_t *properties = json_object(), *required = json_array(), *defs = json_object();
	json_t *schema;

	add_path(route, properties, required);
	add_query(route, properties);
	if (route->body == ROUTE_JSON) {
		add_body(route, properties, required);
	} else if (route->body == ROUTE_RAW) {
		add_text(properties, "content", "text");
		add_text(properties, "contentBase64", "any bytes, in place of content");
	}
	if (tool->flags & (TOOL_WAITS | TOOL_AWAITS))
		add_wait(tool, properties);
	localize(properties, defs);
	schema = json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties,
	                   "required", required, "additionalProperties", 0);
	must(schema);
	if (json_object_size(defs) > 0)
		json_object_set_new(schema, "$defs", defs);
	else
		json_decref(defs);
	return schema;
}

json_t *mcp_describe(const struct tool *tool)
{
	const struct route *route = mcp_route(tool);
	bool reads = route->scope % 2 == 0;
	json_t *result = json_pack(
		"{s:s, s:s, s:o, s:{s:b, s:b, s:b, s:b}}", "name", tool->name, "description",
		tool->about, "inputSchema", input_schema(tool, route), "annotations",
		"readOnlyHint", reads, "destructiveHint", (tool->flags & TOOL_LOSES) != 0,
		"idempotentHint", reads || route->method == ROUTE_PUT, "openWorldHint", !reads);

	must(result);
	return result;
}

json_t *mcp_describe_command(const struct command *command)
{
	bool reads = str_has_suffix(command->scope, ":read");
	json_t *result = json_pack("{s:s, s:s, s:o, s:{s:b, s:b, s:b}}", "name", command->tool,
	                           "description", command->about, "inputSchema",
	                           command_schema(command), "annotations", "readOnlyHint", reads,
	                           "destructiveHint", 0, "openWorldHint", 1);

	must(result);
	return result;
}
