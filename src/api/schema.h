/*
 * The shapes of JSON objects, from schemas.def: one table for reading request bodies strictly and
 * for the OpenAPI document.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"

enum schema_kind {
	SCHEMA_STRING,
	SCHEMA_BOOL,
	SCHEMA_COUNT, /* a whole number ≥ 0 */
	SCHEMA_INT,   /* a whole number */
	SCHEMA_NUMBER,
	SCHEMA_LIMIT,   /* a number, or a text such as "64M" */
	SCHEMA_MS,      /* milliseconds, or a text such as "30s" */
	SCHEMA_TIME,    /* RFC 3339 */
	SCHEMA_STRINGS, /* an array of texts */
	SCHEMA_TEXTS,   /* one text, or an array of texts */
	SCHEMA_COUNTS,  /* an array of whole numbers ≥ 0 */
	SCHEMA_MAP,     /* an object whose values are texts */
	SCHEMA_OBJECT,  /* of another schema */
	SCHEMA_OBJECTS, /* an array of these */
	SCHEMA_ANY,     /* any object */
};

enum schema_flags {
	SCHEMA_OPTIONAL = 0,
	SCHEMA_REQUIRED = 1 << 0,
	SCHEMA_NULLABLE = 1 << 1,
};

struct schema_field {
	const char *name; /* NULL: end */
	enum schema_kind kind;
	const char *of; /* name of the schema, for OBJECT and OBJECTS */
	unsigned flags;
	const char *about;
};

struct schema {
	const char *name; /* NULL: end */
	const char *about;
	const struct schema_field *fields;
};

extern const struct schema schema_table[];
/* Must exist. */
const struct schema *schema_find(const char *name);

/* A request body: bounded depth, no duplicate keys, one object of this shape and nothing it does
 * not know. Empty bytes are {}. ERR_INVALID names the member and, for an unknown one, the nearest
 * known. The caller owns *ret. */
int schema_read(const struct schema *schema, const char *bytes, size_t len, json_t **ret,
                struct err *err) NODISCARD;
/* A number of ms or a text such as "30s", as SCHEMA_MS allows. */
int schema_ms(const json_t *value, const char *name, uint64_t *ret_ms, struct err *err) NODISCARD;
/* The schema as JSON Schema (OpenAPI 3.1). */
json_t *schema_describe(const struct schema *schema);
