/*
 * The table of routes.def: matching and description. Pure.
 */
#pragma once

#include <jansson.h>

#include "api/schema.h"
#include "base/base.h"
#include "base/err.h"
#include "model/scope.h"

struct call;

enum route_method { ROUTE_GET, ROUTE_POST, ROUTE_PUT, ROUTE_PATCH, ROUTE_DELETE };
enum route_body { ROUTE_NONE, ROUTE_JSON, ROUTE_RAW };
enum route_flags {
	ROUTE_KEYED = 1 << 0,
	ROUTE_BARE = 1 << 1,     /* its path is the whole one */
	ROUTE_OPERATOR = 1 << 2, /* for operators of the machine alone */
	ROUTE_BELOW = 1 << 4,    /* also every path below it, and every method */
	ROUTE_OUTLIVES = 1 << 3, /* the sandbox of its path may be gone */
	ROUTE_VIA = 1 << 5,      /* what it leads to is on record, not it */
};
enum { ROUTE_PARAMS = 2 };
#define ROUTE_PREFIX "/api/v1"

typedef void (*route_handler)(struct call *call);

struct route {
	enum route_method method;
	const char *path;
	const char *name; /* the handler's: what the audit calls the action */
	route_handler handler;
	enum route_body body;
	const char *request;  /* schema; NULL: none */
	int status;           /* of success */
	const char *response; /* see routes.def */
	const char *query;    /* names, blank between */
	enum scope scope;     /* that the caller must have */
	unsigned flags;
	const char *summary;
};

struct route_param {
	const char *name;
	enum schema_kind kind;
	const char *about;
};

/* Both end with a row without a name (path). */
extern const struct route route_table[];
extern const struct route_param route_params[];

const char *route_method_name(enum route_method method);
/* What stands before its path. */
const char *route_prefix(const struct route *route);
/*
 * Finds the route of a whole path. ERR_NOT_FOUND; ERR_METHOD when the path exists but not
 * with this method: then `allow` (≥ 64 bytes) lists the methods. params get copies of the
 * segments that stand for {…}, in order; the caller frees them.
 */
int route_match(const char *method, const char *path, const struct route **ret,
                char *params[ROUTE_PARAMS], char *allow, struct err *err) NODISCARD;
/* ERR_INVALID for a parameter the route does not have (with the nearest) or a value that is not
 * of its kind. */
int route_check_query(const struct route *route, const char *name, const char *value,
                      struct err *err) NODISCARD;
/* The OpenAPI document of all routes. */
json_t *route_openapi(void);

#define ROUTE(method, path, handler, ...) void handle_##handler(struct call *call);
#include "api/routes.def"
#undef ROUTE
