/*
 * The OpenAPI 3.1 document, from the same tables that dispatch and check: it cannot lie.
 */
#include <string.h>

#include "api/route.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

static json_t *schema_ref(const char *name)
{
	return json_pack("{s:s+}", "$ref", "#/components/schemas/", name);
}

static json_t *content(const char *type, json_t *schema)
{
	return json_pack("{s:{s:o}}", type, "schema", schema);
}

static json_t *binary(void)
{
	return json_pack("{s:s, s:s}", "type", "string", "format", "binary");
}

static json_t *parameter(const char *name, const char *where, bool required, const char *about,
                         enum schema_kind kind)
{
	static const char *const types[] = {
		[SCHEMA_STRING] = "string", [SCHEMA_BOOL] = "boolean", [SCHEMA_COUNT] = "integer"};

	return json_pack("{s:s, s:s, s:b, s:s, s:{s:s}}", "name", name, "in", where, "required",
	                 required, "description", about, "schema", "type", types[kind]);
}

static json_t *parameters(const struct route *route)
{
	json_t *list = json_array();

	for (const char *at = strchr(route->path, '{'); at; at = strchr(at + 1, '{')) {
		auto_free char *name = mem_strndup(at + 1, strcspn(at + 1, "}"));

		json_array_append_new(list,
		                      parameter(name, "path", true, "id or name", SCHEMA_STRING));
	}
	for (const struct route_param *param = route_params; param->name; param++) {
		if (route_check_query(route, param->name, "1", NULL) == 0)
			json_array_append_new(list, parameter(param->name, "query", false,
			                                      param->about, param->kind));
	}
	if (route->flags & ROUTE_KEYED)
		json_array_append_new(list, parameter("Idempotency-Key", "header", false,
		                                      "the same key gets the same answer once more",
		                                      SCHEMA_STRING));
	return list;
}

static json_t *response_content(const char *response)
{
	if (str_eq(response, "@bytes"))
		return json_pack("{s:{s:o}, s:{s:{s:s}}}", "application/octet-stream", "schema",
		                 binary(), "text/event-stream", "schema", "type", "string");
	if (str_eq(response, "@mcp"))
		return json_pack("{s:{s:{s:s}}, s:{s:{s:s}}}", "application/json", "schema", "type",
		                 "object", "text/event-stream", "schema", "type", "string");
	if (str_eq(response, "@text"))
		return content("text/plain", json_pack("{s:s}", "type", "string"));
	if (str_eq(response, "@tar"))
		return content("application/x-tar", binary());
	if (str_eq(response, "@lines"))
		return content("application/x-ndjson", json_pack("{s:s}", "type", "string"));
	if (str_has_prefix(response, "@text-events")) {
		json_t *result = content("text/event-stream", json_pack("{s:s}", "type", "string"));
		const char *schema = strchr(response, ' ');

		if (schema)
			json_object_set_new(result, "application/json",
			                    json_pack("{s:o}", "schema", schema_ref(schema + 1)));
		return result;
	}
	return content("application/json", schema_ref(response));
}

static json_t *responses(const struct route *route)
{
	char status[12];
	json_t *good = json_pack("{s:s}", "description", route->summary);
	json_t *list = json_object();

	(void)snprintf(status, sizeof(status), "%d", route->status); /* three digits */
	if (*route->response && !str_eq(route->response, "@websocket"))
		json_object_set_new(good, "content", response_content(route->response));
	json_object_set_new(list, status, good);
	if (route->request && str_eq(route->request, "ExecRequest"))
		json_object_set_new(list, "201",
		                    json_pack("{s:s, s:o}", "description", "It runs", "content",
		                              content("application/json", schema_ref("Exec"))));
	json_object_set_new(list, "default",
	                    json_pack("{s:s, s:o}", "description", "An error", "content",
	                              content("application/problem+json", schema_ref("Problem"))));
	return list;
}

/* A key with that scope; on the Unix socket the user stands for it. */
static json_t *security(const struct route *route)
{
	json_t *scopes = json_array();

	if (route->scope == SCOPE_PUBLIC)
		return scopes;
	if (route->scope >= 0)
		json_array_append_new(scopes, json_string(scope_name(route->scope)));
	return json_pack("[{s:o}]", "key", scopes);
}

static json_t *operation(const struct route *route)
{
	json_t *result = json_pack("{s:s, s:s, s:o, s:o}", "operationId", route->name, "summary",
	                           route->summary, "parameters", parameters(route), "responses",
	                           responses(route));

	json_object_set_new(result, "security", security(route));
	if (route->flags & ROUTE_OPERATOR)
		json_object_set_new(result, "x-operator", json_true());
	if (route->body == ROUTE_JSON)
		json_object_set_new(
			result, "requestBody",
			json_pack("{s:o}", "content",
		                  content("application/json", schema_ref(route->request))));
	else if (route->body == ROUTE_RAW)
		json_object_set_new(result, "requestBody",
		                    json_pack("{s:o}", "content",
		                              content("application/octet-stream", binary())));
	return result;
}

json_t *route_openapi(void)
{
	static const char *const methods[] = {"get", "post", "put", "patch", "delete"};
	json_t *paths = json_object();
	json_t *schemas = json_object();

	for (size_t i = 0; route_table[i].path; i++) {
		auto_free char *path =
			mem_printf("%s%s", route_prefix(&route_table[i]), route_table[i].path);
		json_t *item = json_object_get(paths, path);

		if (!item) {
			item = json_object();
			json_object_set_new(paths, path, item);
		}
		json_object_set_new(item, methods[route_table[i].method],
		                    operation(&route_table[i]));
	}
	for (const struct schema *schema = schema_table; schema->name; schema++)
		json_object_set_new(schemas, schema->name, schema_describe(schema));
	return json_pack(
		"{s:s, s:{s:s, s:s, s:s}, s:o, s:{s:o, s:{s:{s:s, s:s, s:s}}}}", "openapi", "3.1.0",
		"info", "title", "Cloche", "version", CLOCHE_VERSION, "description",
		"Sandboxes for AI agents. JSON in camelCase; errors are RFC 9457.", "paths", paths,
		"components", "schemas", schemas, "securitySchemes", "key", "type", "http",
		"scheme", "bearer", "description", "sk_live_…: see POST /api/v1/keys");
}
