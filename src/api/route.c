#include "api/route.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/opt.h"
#include "base/str.h"

const struct route route_table[] = {
#define ROUTE(method, path, handler, body, request, status, response, query, scope, flags,         \
              summary)                                                                             \
	{ROUTE_##method, path,     #handler, handle_##handler, ROUTE_##body, request,              \
	 status,         response, query,    SCOPE_##scope,    flags,        summary},
#include "api/routes.def"
#undef ROUTE
	{0},
};

const struct route_param route_params[] = {
#define PARAM(name, kind, about) {name, SCHEMA_##kind, about},
#include "api/params.def"
#undef PARAM
	{0},
};

static const char *const method_names[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

const char *route_method_name(enum route_method method)
{
	return method_names[method];
}

const char *route_prefix(const struct route *route)
{
	return route->flags & ROUTE_BARE ? "" : ROUTE_PREFIX;
}

/* Whether one segment of a path fits one of a pattern, both without their slashes. */
static bool segment_fits(const char *pattern, size_t want, const char *path, size_t have)
{
	if (*pattern == '{')
		return have > 0;
	return want == have && strncmp(pattern, path, want) == 0;
}

/* Whether path fits the pattern; fills params when asked for. */
static bool matches(const struct route *route, const char *path, char *params[ROUTE_PARAMS])
{
	const char *pattern = route->path;
	size_t count = 0;

	while (*pattern == '/' && *path == '/') {
		size_t want = strcspn(++pattern, "/");
		size_t have = strcspn(++path, "/");

		if (!segment_fits(pattern, want, path, have))
			return false;
		if (params && *pattern == '{') {
			must(count < ROUTE_PARAMS);
			params[count++] = mem_strndup(path, have);
		}
		pattern += want;
		path += have;
	}
	return !*pattern && (!*path || (route->flags & ROUTE_BELOW));
}

/* Patterns differ from each other in a fixed word, never only in a {…}: the first match is it. */
int route_match(const char *method, const char *path, const struct route **ret,
                char *params[ROUTE_PARAMS], char *allow, struct err *err)
{
	char shown[100];
	size_t used = 0;

	allow[0] = '\0';
	str_escape(shown, sizeof(shown), path, strlen(path));
	for (const struct route *route = route_table; route->path; route++) {
		const char *prefix = route_prefix(route);
		const char *rest = path + strlen(prefix);

		if (!str_has_prefix(path, prefix) || !matches(route, rest, NULL))
			continue;
		if (route->flags & ROUTE_BELOW || str_eq(method_names[route->method], method)) {
			must(matches(route, rest, params));
			*ret = route;
			return 0;
		}
		used += (size_t)snprintf(allow + used, 64 - used, "%s%s", used ? ", " : "",
		                         method_names[route->method]);
	}
	if (used == 0 && !str_has_prefix(path, ROUTE_PREFIX "/"))
		return err_set(err, ERR_NOT_FOUND, "there is nothing at %s; the API is below %s",
		               shown, ROUTE_PREFIX);
	if (used == 0)
		return err_set(err, ERR_NOT_FOUND, "there is nothing at %s", shown);
	str_escape(shown, sizeof(shown), method, strlen(method));
	return err_set(err, ERR_METHOD, "%s is not possible here; use %s", shown, allow);
}

static const struct route_param *find_param(const char *name, size_t len)
{
	for (const struct route_param *param = route_params; param->name; param++) {
		if (strlen(param->name) == len && strncmp(param->name, name, len) == 0)
			return param;
	}
	return NULL;
}

/* The route's names as an array for opt_nearest; points into the table of parameters. */
static size_t param_names(const struct route *route, const char **names, size_t most)
{
	size_t count = 0;

	for (const char *at = route->query; *at && count + 1 < most;) {
		size_t len = strcspn(at, " ");
		const struct route_param *param = find_param(at, len);

		must(param);
		names[count++] = param->name;
		at += len;
		at += strspn(at, " ");
	}
	names[count] = NULL;
	return count;
}

static bool is_of_kind(enum schema_kind kind, const char *value)
{
	uint64_t number;

	if (kind == SCHEMA_COUNT)
		return str_to_u64(value, &number) == 0;
	if (kind == SCHEMA_BOOL)
		return str_eq(value, "") || str_eq(value, "1") || str_eq(value, "true") ||
		       str_eq(value, "0") || str_eq(value, "false");
	return true;
}

int route_check_query(const struct route *route, const char *name, const char *value,
                      struct err *err)
{
	const char *names[16];
	size_t count = param_names(route, names, ARRAY_LEN(names));
	const char *nearest;
	char shown[80];

	for (size_t i = 0; i < count; i++) {
		if (!str_eq(names[i], name))
			continue;
		if (is_of_kind(find_param(name, strlen(name))->kind, value))
			return 0;
		return err_set(err, ERR_INVALID, "query parameter '%s' has a value it cannot have",
		               name);
	}
	if (route->flags & ROUTE_BELOW)
		return 0; /* it is of whoever is below */
	nearest = opt_nearest(name, names);
	str_escape(shown, sizeof(shown), name, strlen(name));
	if (nearest)
		return err_set(err, ERR_INVALID,
		               "unknown query parameter '%s' (did you mean '%s'?)", shown, nearest);
	return err_set(err, ERR_INVALID, "unknown query parameter '%s'", shown);
}
