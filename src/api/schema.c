/*
 * Reading is recursive over the table, which is at most three levels deep; the depth of foreign
 * JSON is measured before it is parsed, because the library's own bound is far higher.
 */
#include "api/schema.h"

#include "base/limits.h"
#include "base/must.h"
#include "base/opt.h"
#include "base/str.h"

#define SCHEMA(id, name, about)             static const struct schema_field id##_fields[] = {
#define FIELD(name, kind, of, flags, about) {name, SCHEMA_##kind, of, flags, about},
#define END                                                                                        \
	{                                                                                          \
		0                                                                                  \
	}                                                                                          \
	}                                                                                          \
	;
#include "api/schemas.def"
#undef SCHEMA
#undef FIELD
#undef END

const struct schema schema_table[] = {
#define SCHEMA(id, name, about) {name, about, id##_fields},
#define FIELD(name, kind, of, flags, about)
#define END
#include "api/schemas.def"
#undef SCHEMA
#undef FIELD
#undef END
	{0},
};

const struct schema *schema_find(const char *name)
{
	for (const struct schema *schema = schema_table; schema->name; schema++) {
		if (str_eq(schema->name, name))
			return schema;
	}
	must(!"schema exists");
	return NULL;
}

static int unknown_field(const struct schema *schema, const char *path, const char *name,
                         struct err *err)
{
	const char *names[64] = {0};
	char shown[80];
	const char *nearest;

	for (size_t i = 0; i < ARRAY_LEN(names) - 1 && schema->fields[i].name; i++)
		names[i] = schema->fields[i].name;
	nearest = opt_nearest(name, names);
	str_escape(shown, sizeof(shown), name, strlen(name));
	if (nearest)
		return err_set(err, ERR_INVALID, "unknown field '%s%s' (did you mean '%s%s'?)",
		               path, shown, path, nearest);
	return err_set(err, ERR_INVALID, "unknown field '%s%s'", path, shown);
}

static bool all_strings(const json_t *value)
{
	size_t i;
	json_t *item;

	if (json_is_object(value)) {
		const char *key;

		json_object_foreach ((json_t *)(uintptr_t)value, key, item) {
			if (!json_is_string(item))
				return false;
		}
		return true;
	}
	json_array_foreach (value, i, item) {
		if (!json_is_string(item))
			return false;
	}
	return true;
}

static bool all_counts(const json_t *value)
{
	size_t i;
	json_t *item;

	json_array_foreach (value, i, item) {
		if (!json_is_integer(item) || json_integer_value(item) < 0)
			return false;
	}
	return true;
}

static bool has_nul(const json_t *value)
{
	return json_is_string(value) &&
	       strlen(json_string_value(value)) != json_string_length(value);
}

/* What a value of this kind is called in a message; NULL when it fits. */
static const char *misfit(enum schema_kind kind, const json_t *value)
{
	switch (kind) {
	case SCHEMA_STRING:
	case SCHEMA_TIME:
		return json_is_string(value) ? NULL : "a text";
	case SCHEMA_BOOL:
		return json_is_boolean(value) ? NULL : "true or false";
	case SCHEMA_COUNT:
		return json_is_integer(value) && json_integer_value(value) >= 0
		               ? NULL
		               : "a whole number, 0 or more";
	case SCHEMA_INT:
		return json_is_integer(value) ? NULL : "a whole number";
	case SCHEMA_NUMBER:
		return json_is_number(value) ? NULL : "a number";
	case SCHEMA_LIMIT:
		return json_is_number(value) || json_is_string(value)
		               ? NULL
		               : "a number or a text like \"64M\"";
	case SCHEMA_MS:
		return json_is_integer(value) || json_is_string(value)
		               ? NULL
		               : "milliseconds or a text like \"30s\"";
	case SCHEMA_STRINGS:
		return json_is_array(value) && all_strings(value) ? NULL : "a list of texts";
	case SCHEMA_TEXTS:
		return json_is_string(value) || (json_is_array(value) && all_strings(value))
		               ? NULL
		               : "a text or a list of texts";
	case SCHEMA_COUNTS:
		return json_is_array(value) && all_counts(value) ? NULL : "a list of whole numbers";
	case SCHEMA_MAP:
		return json_is_object(value) && all_strings(value) ? NULL : "an object of texts";
	case SCHEMA_OBJECT:
	case SCHEMA_ANY:
		return json_is_object(value) ? NULL : "an object";
	case SCHEMA_OBJECTS:
		return json_is_array(value) ? NULL : "a list of objects";
	}
	return "something else";
}

static int check_object(const struct schema *schema, const char *path, const json_t *object,
                        struct err *err);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the table, see above */
static int check_nested(const struct schema_field *field, const char *path, const json_t *value,
                        struct err *err)
{
	const struct schema *schema = schema_find(field->of);
	char inner[80];
	size_t i;
	json_t *item;

	if (field->kind == SCHEMA_OBJECT) {
		(void)snprintf(inner, sizeof(inner), "%s%s.", path,
		               field->name); /* our own names */
		return check_object(schema, inner, value, err);
	}
	json_array_foreach (value, i, item) {
		(void)snprintf(inner, sizeof(inner), "%s%s[%zu].", path, field->name,
		               i); /* our own names */
		if (!json_is_object(item))
			return err_set(err, ERR_INVALID, "'%s%s' must be a list of objects", path,
			               field->name);
		if (check_object(schema, inner, item, err) < 0)
			return -1;
	}
	return 0;
}

static bool strings_have_nul(const json_t *value)
{
	size_t i;
	json_t *item;
	const char *key;

	if (json_is_array(value)) {
		json_array_foreach (value, i, item) {
			if (has_nul(item))
				return true;
		}
	} else if (json_is_object(value)) {
		json_object_foreach ((json_t *)(uintptr_t)value, key, item) {
			if (has_nul(item))
				return true;
		}
	}
	return has_nul(value);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the table, see above */
static int check_field(const struct schema_field *field, const char *path, const json_t *value,
                       struct err *err)
{
	const char *expected;

	if (json_is_null(value) && (field->flags & SCHEMA_NULLABLE))
		return 0;
	expected = misfit(field->kind, value);
	if (expected)
		return err_set(err, ERR_INVALID, "'%s%s' must be %s", path, field->name, expected);
	if (strings_have_nul(value))
		return err_set(err, ERR_INVALID, "'%s%s' contains a NUL", path, field->name);
	if (field->kind == SCHEMA_OBJECT || field->kind == SCHEMA_OBJECTS)
		return check_nested(field, path, value, err);
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the table, see above */
static int check_object(const struct schema *schema, const char *path, const json_t *object,
                        struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
		const struct schema_field *field = schema->fields;

		while (field->name && !str_eq(field->name, name))
			field++;
		if (!field->name)
			return unknown_field(schema, path, name, err);
		if (check_field(field, path, value, err) < 0)
			return -1;
	}
	for (const struct schema_field *field = schema->fields; field->name; field++) {
		if ((field->flags & SCHEMA_REQUIRED) && !json_object_get(object, field->name))
			return err_set(err, ERR_INVALID, "'%s%s' is missing", path, field->name);
	}
	return 0;
}

static bool is_too_deep(const char *bytes, size_t len)
{
	int depth = 0;
	bool in_string = false;

	for (size_t i = 0; i < len; i++) {
		if (in_string) {
			if (bytes[i] == '\\')
				i++;
			else if (bytes[i] == '"')
				in_string = false;
		} else if (bytes[i] == '"') {
			in_string = true;
		} else if (bytes[i] == '{' || bytes[i] == '[') {
			if (++depth > LIMIT_JSON_DEPTH)
				return true;
		} else if (bytes[i] == '}' || bytes[i] == ']') {
			depth--;
		}
	}
	return false;
}

int schema_read(const struct schema *schema, const char *bytes, size_t len, json_t **ret,
                struct err *err)
{
	json_error_t why;
	json_t *body;

	if (len == 0) {
		bytes = "{}";
		len = 2;
	}
	if (is_too_deep(bytes, len))
		return err_set(err, ERR_INVALID, "the JSON is nested too deeply");
	body = json_loadb(bytes, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
	if (!body) {
		char shown[160];

		str_escape(shown, sizeof(shown), why.text, strlen(why.text));
		return err_set(err, ERR_INVALID, "not valid JSON: line %d, column %d: %s", why.line,
		               why.column, shown);
	}
	if (!json_is_object(body)) {
		json_decref(body);
		return err_set(err, ERR_INVALID, "the body must be a JSON object");
	}
	if (check_object(schema, "", body, err) < 0) {
		json_decref(body);
		return -1;
	}
	*ret = body;
	return 0;
}

int schema_ms(const json_t *value, const char *name, uint64_t *ret_ms, struct err *err)
{
	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*ret_ms = (uint64_t)json_integer_value(value);
		return 0;
	}
	if (json_is_string(value) && str_to_ms(json_string_value(value), ret_ms) == 0)
		return 0;
	return err_set(err, ERR_INVALID, "'%s' must be milliseconds or a text like \"30s\"", name);
}

/* --- OpenAPI --- */

static json_t *reference(const char *name)
{
	return json_pack("{s:s+}", "$ref", "#/components/schemas/", name);
}

static json_t *describe_kind(const struct schema_field *field)
{
	switch (field->kind) {
	case SCHEMA_STRING:
		return json_pack("{s:s}", "type", "string");
	case SCHEMA_TIME:
		return json_pack("{s:s, s:s}", "type", "string", "format", "date-time");
	case SCHEMA_BOOL:
		return json_pack("{s:s}", "type", "boolean");
	case SCHEMA_COUNT:
		return json_pack("{s:s, s:i}", "type", "integer", "minimum", 0);
	case SCHEMA_INT:
		return json_pack("{s:s}", "type", "integer");
	case SCHEMA_NUMBER:
		return json_pack("{s:s}", "type", "number");
	case SCHEMA_LIMIT:
	case SCHEMA_MS:
		/* Not a list of types: some readers of tools' schemas know one type only. */
		return json_pack("{s:[{s:s}, {s:s}]}", "anyOf", "type", "number", "type", "string");
	case SCHEMA_STRINGS:
		return json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
	case SCHEMA_TEXTS:
		return json_pack("{s:[{s:s}, {s:s, s:{s:s}}]}", "anyOf", "type", "string", "type",
		                 "array", "items", "type", "string");
	case SCHEMA_COUNTS:
		return json_pack("{s:s, s:{s:s, s:i}}", "type", "array", "items", "type", "integer",
		                 "minimum", 0);
	case SCHEMA_MAP:
		return json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties", "type",
		                 "string");
	case SCHEMA_OBJECT:
		return reference(field->of);
	case SCHEMA_OBJECTS:
		return json_pack("{s:s, s:o}", "type", "array", "items", reference(field->of));
	case SCHEMA_ANY:
		return json_pack("{s:s}", "type", "object");
	}
	return json_object();
}

static json_t *describe_field(const struct schema_field *field)
{
	json_t *kind = describe_kind(field);

	if (field->flags & SCHEMA_NULLABLE)
		kind = json_pack("{s:[o,{s:s}]}", "anyOf", kind, "type", "null");
	if (*field->about)
		json_object_set_new(kind, "description", json_string(field->about));
	return kind;
}

json_t *schema_describe(const struct schema *schema)
{
	json_t *properties = json_object();
	json_t *required = json_array();
	json_t *result;

	for (const struct schema_field *field = schema->fields; field->name; field++) {
		json_object_set_new(properties, field->name, describe_field(field));
		if (field->flags & SCHEMA_REQUIRED)
			json_array_append_new(required, json_string(field->name));
	}
	result = json_pack("{s:s, s:s, s:o}", "type", "object", "description", schema->about,
	                   "properties", properties);
	if (json_array_size(required) > 0)
		json_object_set_new(result, "required", required);
	else
		json_decref(required);
	if (str_has_suffix(schema->name, "Request"))
		json_object_set_new(result, "additionalProperties", json_false());
	return result;
}
