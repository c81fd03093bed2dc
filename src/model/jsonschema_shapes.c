#include "base/mem.h"
#include "base/str.h"
#include "model/jsonschema_impl.h"
#include "model/pattern.h"

static int refuse(struct schema_compiler *compiler, const struct schema_rule *rule,
                  const char *what)
{
	return jsonschema_fail(compiler, rule->node, rule->keyword->name, what);
}

static int need(struct schema_compiler *compiler, const struct schema_rule *rule,
                enum jsonvalue_type type, const char *what)
{
	return jsonvalue_is(rule->value, type) ? 0 : refuse(compiler, rule, what);
}

static void make_nodes(struct schema_rule *rule, size_t count)
{
	rule->count = count;
	rule->nodes = mem_zalloc((count + 1) * sizeof(struct schema_node *));
}

int jsonschema_compile_anything(struct schema_compiler *compiler, struct schema_rule *rule)
{
	return 0;
}

int jsonschema_compile_array(struct schema_compiler *compiler, struct schema_rule *rule)
{
	return need(compiler, rule, JSONVALUE_ARRAY, "is no array");
}

int jsonschema_compile_flag(struct schema_compiler *compiler, struct schema_rule *rule)
{
	return need(compiler, rule, JSONVALUE_BOOLEAN, "is neither true nor false");
}

int jsonschema_compile_number(struct schema_compiler *compiler, struct schema_rule *rule)
{
	return need(compiler, rule, JSONVALUE_NUMBER, "is no number");
}

int jsonschema_compile_count(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (jsonschema_compile_number(compiler, rule) < 0)
		return -1;
	if (rule->value->number.is_negative || !decimal_is_integer(&rule->value->number))
		return refuse(compiler, rule, "is no whole number from 0");
	if (decimal_to_u64(&rule->value->number, &rule->limit) < 0)
		rule->limit = UINT64_MAX; /* nothing is so large */
	return 0;
}

int jsonschema_compile_divisor(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (jsonschema_compile_number(compiler, rule) < 0)
		return -1;
	if (rule->value->number.is_negative || rule->value->number.len == 0)
		return refuse(compiler, rule, "is not above 0");
	if (rule->value->number.len > DECIMAL_DIVISOR_DIGITS)
		return refuse(compiler, rule, "has more than 18 digits");
	return 0;
}

static bool is_type_name(const struct jsonvalue *value)
{
	static const char *const names[] = {"null",   "boolean", "object", "array",
	                                    "number", "string",  "integer"};

	if (!jsonvalue_is(value, JSONVALUE_STRING))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (str_eq(value->text, names[i]))
			return true;
	}
	return false;
}

int jsonschema_compile_types(struct schema_compiler *compiler, struct schema_rule *rule)
{
	static const char why[] =
		"is none of null, boolean, object, array, number, string, integer";

	if (!jsonvalue_is(rule->value, JSONVALUE_ARRAY))
		return is_type_name(rule->value) ? 0 : refuse(compiler, rule, why);
	for (size_t i = 0; i < rule->value->count; i++) {
		if (!is_type_name(&rule->value->items[i]))
			return refuse(compiler, rule, why);
	}
	return 0;
}

static int check_names(struct schema_compiler *compiler, const struct schema_rule *rule,
                       const struct jsonvalue *names)
{
	if (!jsonvalue_is(names, JSONVALUE_ARRAY))
		return refuse(compiler, rule, "is no array of names");
	for (size_t i = 0; i < names->count; i++) {
		if (!jsonvalue_is(&names->items[i], JSONVALUE_STRING))
			return refuse(compiler, rule, "has something that is no name");
	}
	return 0;
}

int jsonschema_compile_names(struct schema_compiler *compiler, struct schema_rule *rule)
{
	return check_names(compiler, rule, rule->value);
}

int jsonschema_compile_names_map(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (need(compiler, rule, JSONVALUE_OBJECT, "is no object") < 0)
		return -1;
	make_nodes(rule, rule->value->count);
	for (size_t i = 0; i < rule->count; i++) {
		if (check_names(compiler, rule, &rule->value->members[i].value) < 0)
			return -1;
	}
	return 0;
}

/* --- schemas --- */

static int add_child(struct schema_compiler *compiler, struct schema_rule *rule, size_t at)
{
	struct schema_node place = {.parent = rule->node, .keyword = rule->keyword->name};
	struct jsonvalue *value;

	if (jsonvalue_is(rule->value, JSONVALUE_OBJECT)) {
		place.name = rule->value->members[at].name;
		value = &rule->value->members[at].value;
	} else {
		place.is_item = true;
		place.index = at;
		value = &rule->value->items[at];
	}
	return jsonschema_add(compiler, &place, value, &rule->nodes[at]);
}

static int add_children(struct schema_compiler *compiler, struct schema_rule *rule)
{
	make_nodes(rule, rule->value->count);
	for (size_t i = 0; i < rule->count; i++) {
		if (add_child(compiler, rule, i) < 0)
			return -1;
	}
	return 0;
}

int jsonschema_compile_schema(struct schema_compiler *compiler, struct schema_rule *rule)
{
	struct schema_node place = {.parent = rule->node, .keyword = rule->keyword->name};

	make_nodes(rule, 1);
	/* the tree is the compiler's own; rules show it to the checks as read-only */
	return jsonschema_add(compiler, &place, (struct jsonvalue *)rule->value, &rule->nodes[0]);
}

int jsonschema_compile_schema_map(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (need(compiler, rule, JSONVALUE_OBJECT, "is no object of schemas") < 0)
		return -1;
	return add_children(compiler, rule);
}

int jsonschema_compile_schema_array(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (need(compiler, rule, JSONVALUE_ARRAY, "is no array of schemas") < 0)
		return -1;
	if (rule->value->count == 0)
		return refuse(compiler, rule, "has no schema");
	return add_children(compiler, rule);
}

int jsonschema_compile_old_items(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (jsonvalue_is(rule->value, JSONVALUE_ARRAY))
		return add_children(compiler, rule);
	return jsonschema_compile_schema(compiler, rule);
}

int jsonschema_compile_dependencies(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (need(compiler, rule, JSONVALUE_OBJECT, "is no object") < 0)
		return -1;
	make_nodes(rule, rule->value->count);
	for (size_t i = 0; i < rule->count; i++) {
		const struct jsonvalue *value = &rule->value->members[i].value;
		int r = jsonvalue_is(value, JSONVALUE_ARRAY) ? check_names(compiler, rule, value)
		                                             : add_child(compiler, rule, i);

		if (r < 0)
			return -1;
	}
	return 0;
}

/* --- patterns --- */

static int add_pattern(struct schema_compiler *compiler, struct schema_rule *rule, size_t at,
                       const char *text, size_t len)
{
	struct err why = {0};

	if (pattern_compile(text, len, &rule->patterns[at], &why) < 0)
		return refuse(compiler, rule, why.msg);
	return 0;
}

int jsonschema_compile_regex(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (need(compiler, rule, JSONVALUE_STRING, "is no string") < 0)
		return -1;
	make_nodes(rule, 1);
	rule->patterns = mem_zalloc(sizeof(struct pattern *));
	return add_pattern(compiler, rule, 0, rule->value->text, rule->value->count);
}

int jsonschema_compile_regex_map(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (jsonschema_compile_schema_map(compiler, rule) < 0)
		return -1;
	rule->patterns = mem_zalloc((rule->count + 1) * sizeof(struct pattern *));
	for (size_t i = 0; i < rule->count; i++) {
		const struct jsonmember *member = &rule->value->members[i];

		if (add_pattern(compiler, rule, i, member->name, member->len) < 0)
			return -1;
	}
	return 0;
}

/* --- references --- */

int jsonschema_compile_reference(struct schema_compiler *compiler, struct schema_rule *rule)
{
	if (need(compiler, rule, JSONVALUE_STRING, "is no string") < 0)
		return -1;
	if (rule->value->count > JSONSCHEMA_URI_BYTES)
		return refuse(compiler, rule, "is longer than 2048 bytes");
	if (compiler->reference_count == compiler->reference_size) {
		compiler->reference_size = compiler->reference_size * 2 + 16;
		compiler->references = mem_resize(compiler->references, compiler->reference_size,
		                                  sizeof(struct schema_rule *));
	}
	compiler->references[compiler->reference_count++] = rule;
	return 0;
}
