#include "api/route.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"

static struct err err;
static char allow[64];
static const struct route *route;

static int match(const char *method, const char *path, char *params[ROUTE_PARAMS])
{
	char *own[ROUTE_PARAMS] = {0};
	int r;

	err = (struct err){0};
	r = route_match(method, path, &route, params ? params : own, allow, &err);
	for (size_t i = 0; i < ROUTE_PARAMS; i++)
		mem_freep(&own[i]);
	return r;
}

TEST(a_path_finds_its_route_and_parameters)
{
	char *params[ROUTE_PARAMS] = {0};

	CHECK_INT(match("POST", "/api/v1/sandboxes/sb_1/execs/ex_2/kill", params), 0);
	CHECK_STR(route->path, "/sandboxes/{sandbox}/execs/{exec}/kill");
	CHECK_STR(params[0], "sb_1");
	CHECK_STR(params[1], "ex_2");
	for (size_t i = 0; i < ROUTE_PARAMS; i++)
		mem_freep(&params[i]);
	CHECK_INT(match("GET", "/api/v1/health", NULL), 0);
}

TEST(an_unknown_path_is_not_found)
{
	static const char *const paths[] = {
		"/",
		"",
		"/api/v1",
		"/api/v1/",
		"/api/v1/healthy",
		"/api/v1/health/",
		"/api/v1/sandboxes/",
		"/api/v1/sandboxes//execs",
		"/api/v1/sandboxes/a/execs/b/c",
		"/api/v2/health",
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		CHECK(match("GET", paths[i], NULL) < 0);
		CHECK_INT(err.code, ERR_NOT_FOUND);
	}
}

TEST(another_method_names_the_possible_ones)
{
	CHECK(match("PUT", "/api/v1/sandboxes", NULL) < 0);
	CHECK_INT(err.code, ERR_METHOD);
	CHECK_STR(allow, "POST, GET");
	CHECK(match("BREW", "/api/v1/sandboxes/x", NULL) < 0);
	CHECK_INT(err.code, ERR_METHOD);
	CHECK_STR(allow, "GET, PATCH, DELETE");
}

TEST(hostile_paths_are_shown_escaped)
{
	CHECK(match("GET", "/api/v1/\x1b[2J\xff", NULL) < 0);
	CHECK(!strchr(err.msg, 0x1b));
}

TEST(query_parameters_are_checked)
{
	CHECK_INT(match("GET", "/api/v1/sandboxes", NULL), 0);
	CHECK_INT(route_check_query(route, "limit", "5", &err), 0);
	CHECK(route_check_query(route, "limit", "five", &err) < 0);
	CHECK_INT(err.code, ERR_INVALID);
	CHECK(route_check_query(route, "limti", "5", &err) < 0);
	CHECK_HAS(err.msg, "did you mean 'limit'?");
	CHECK(route_check_query(route, "force", "1", &err) < 0);
	CHECK_INT(match("DELETE", "/api/v1/sandboxes/x", NULL), 0);
	CHECK_INT(route_check_query(route, "force", "", &err), 0);
	CHECK(route_check_query(route, "force", "yes please", &err) < 0);
}

/* Every "$ref" below must lead to a schema of the document. */
static void check_refs(const json_t *node, const json_t *schemas)
{
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_object(node)) {
		json_object_foreach ((json_t *)(uintptr_t)node, key, value) {
			if (str_eq(key, "$ref")) {
				const char *ref = json_string_value(value);

				CHECK(str_has_prefix(ref, "#/components/schemas/"));
				CHECK(json_object_get(schemas, ref + 21));
			}
			check_refs(value, schemas);
		}
	}
	json_array_foreach (node, i, value)
		check_refs(value, schemas);
}

static void check_operation(const char *path, const json_t *operation)
{
	json_t *parameters = json_object_get(operation, "parameters");
	size_t in_path = 0, i;
	json_t *parameter;

	CHECK(json_is_string(json_object_get(operation, "operationId")));
	CHECK(json_object_size(json_object_get(operation, "responses")) >= 2);
	CHECK(json_object_get(json_object_get(operation, "responses"), "default"));
	json_array_foreach (parameters, i, parameter) {
		const char *where = json_string_value(json_object_get(parameter, "in"));
		auto_free char *braced =
			mem_printf("{%s}", json_string_value(json_object_get(parameter, "name")));

		if (str_eq(where, "path")) {
			in_path++;
			CHECK(strstr(path, braced));
		}
	}
	for (const char *at = path; (at = strchr(at, '{')); at++)
		in_path--;
	CHECK_INT(in_path, 0);
}

TEST(the_openapi_document_describes_every_route)
{
	json_t *document = route_openapi();
	json_t *paths = json_object_get(document, "paths");
	json_t *schemas = json_object_get(json_object_get(document, "components"), "schemas");
	static const char *const methods[] = {"get", "post", "put", "patch", "delete"};

	CHECK_STR(json_string_value(json_object_get(document, "openapi")), "3.1.0");
	for (const struct route *at = route_table; at->path; at++) {
		auto_free char *path = mem_printf("%s%s", route_prefix(at), at->path);
		json_t *operation =
			json_object_get(json_object_get(paths, path), methods[at->method]);

		CHECK(operation);
		check_operation(path, operation);
		CHECK_INT(at->body == ROUTE_JSON, at->request != NULL);
	}
	check_refs(document, schemas);
	json_decref(document);
}
