/* Keywords that look at the value itself, and those that combine schemas. */
#include "base/mem.h"
#include "base/str.h"
#include "model/jsonschema_visit.h"
#include "model/pattern.h"

/* --- any value --- */

static bool is_of_type(const struct jsonvalue *value, const char *name)
{
	static const char *const names[] = {
		[JSONVALUE_NULL] = "null",     [JSONVALUE_BOOLEAN] = "boolean",
		[JSONVALUE_NUMBER] = "number", [JSONVALUE_STRING] = "string",
		[JSONVALUE_ARRAY] = "array",   [JSONVALUE_OBJECT] = "object",
	};

	if (str_eq(name, "integer"))
		return jsonvalue_is(value, JSONVALUE_NUMBER) && decimal_is_integer(&value->number);
	return str_eq(name, names[value->type]);
}

int jsonschema_check_type(struct schema_visit *visit, const struct schema_rule *rule)
{
	const struct jsonvalue *wanted = rule->value;

	if (!jsonvalue_is(wanted, JSONVALUE_ARRAY))
		return is_of_type(visit->instance, wanted->text) ||
		       jsonschema_tell(visit, rule, "is not of the type %s", wanted->text);
	if (jsonschema_spend(visit, wanted->count) < 0)
		return -1;
	for (size_t i = 0; i < wanted->count; i++) {
		if (is_of_type(visit->instance, wanted->items[i].text))
			return 1;
	}
	return jsonschema_tell(visit, rule, "is of none of the %zu types allowed", wanted->count);
}

/* 1 equal, 0 not, -1 too much work. */
static int is_equal(struct schema_visit *visit, const struct jsonvalue *wanted)
{
	uint64_t cost = 0;
	int order = jsonvalue_compare(visit->instance, wanted, &cost);

	if (jsonschema_spend(visit, cost) < 0)
		return -1;
	return order == 0;
}

int jsonschema_check_enum(struct schema_visit *visit, const struct schema_rule *rule)
{
	for (size_t i = 0; i < rule->value->count; i++) {
		int r = is_equal(visit, &rule->value->items[i]);

		if (r != 0)
			return r;
	}
	return jsonschema_tell(visit, rule, "is none of the %zu values allowed",
	                       rule->value->count);
}

int jsonschema_check_const(struct schema_visit *visit, const struct schema_rule *rule)
{
	int r = is_equal(visit, rule->value);

	return r != 0 ? r : jsonschema_tell(visit, rule, "is not the one value allowed");
}

/* --- numbers and strings --- */

int jsonschema_check_multiple_of(struct schema_visit *visit, const struct schema_rule *rule)
{
	if (!jsonvalue_is(visit->instance, JSONVALUE_NUMBER))
		return 1;
	if (jsonschema_spend(visit, visit->instance->number.len / 4) < 0)
		return -1;
	return decimal_is_multiple(&visit->instance->number, &rule->value->number) ||
	       jsonschema_tell(visit, rule, "is no multiple of what it must be a multiple of");
}

int jsonschema_check_bound(struct schema_visit *visit, const struct schema_rule *rule)
{
	int order;

	if (!jsonvalue_is(visit->instance, JSONVALUE_NUMBER))
		return 1;
	order = decimal_compare(&visit->instance->number, &rule->value->number);
	if (rule->keyword->id == SCHEMA_MAXIMUM)
		return order <= 0 || jsonschema_tell(visit, rule, "is above the maximum");
	if (rule->keyword->id == SCHEMA_EXCL_MAXIMUM)
		return order < 0 || jsonschema_tell(visit, rule, "is not below the maximum");
	if (rule->keyword->id == SCHEMA_MINIMUM)
		return order >= 0 || jsonschema_tell(visit, rule, "is below the minimum");
	return order > 0 || jsonschema_tell(visit, rule, "is not above the minimum");
}

static size_t code_points(const struct jsonvalue *text)
{
	size_t count = 0;

	for (size_t i = 0; i < text->count; i++)
		count += (text->text[i] & 0xc0) != 0x80;
	return count;
}

int jsonschema_check_size(struct schema_visit *visit, const struct schema_rule *rule)
{
	static const struct {
		enum schema_keyword_id most, least;
		enum jsonvalue_type type;
		const char *things;
	} sizes[] = {
		{SCHEMA_MAX_LENGTH, SCHEMA_MIN_LENGTH, JSONVALUE_STRING, "characters"},
		{SCHEMA_MAX_ITEMS, SCHEMA_MIN_ITEMS, JSONVALUE_ARRAY, "items"},
		{SCHEMA_MAX_PROPERTIES, SCHEMA_MIN_PROPERTIES, JSONVALUE_OBJECT, "members"},
	};
	size_t count = visit->instance->count;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		bool is_most = rule->keyword->id == sizes[i].most;

		if (!jsonvalue_is(visit->instance, sizes[i].type) ||
		    (!is_most && rule->keyword->id != sizes[i].least))
			continue;
		if (sizes[i].type == JSONVALUE_STRING) {
			if (jsonschema_spend(visit, count / 16) < 0)
				return -1;
			count = code_points(visit->instance);
		}
		if (is_most ? count <= rule->limit : count >= rule->limit)
			return 1;
		return jsonschema_tell(visit, rule, "has %zu %s, at %s %llu are allowed", count,
		                       sizes[i].things, is_most ? "most" : "least",
		                       (unsigned long long)rule->limit);
	}
	return 1;
}

int jsonschema_check_pattern(struct schema_visit *visit, const struct schema_rule *rule)
{
	bool is_match;

	if (!jsonvalue_is(visit->instance, JSONVALUE_STRING))
		return 1;
	if (pattern_search(rule->patterns[0], visit->instance->text, visit->instance->count,
	                   &visit->check->steps, &is_match) < 0)
		return jsonschema_spend(visit, UINT64_MAX);
	return is_match || jsonschema_tell(visit, rule, "does not match the pattern");
}

/* --- schemas combined --- */

/* The outermost resource on the way that has such an anchor decides. */
static const struct schema_node *dynamic_target(struct schema_visit *visit,
                                                const struct schema_rule *rule)
{
	const struct schema_node *found = rule->target;

	for (const struct schema_scope *scope = visit->scope; scope; scope = scope->outer) {
		for (const struct schema_anchor *anchor = scope->resource->anchors; anchor;
		     anchor = anchor->next) {
			if (jsonschema_spend(visit, 1) < 0)
				return NULL;
			if (anchor->is_dynamic && str_eq(anchor->name, rule->dynamic))
				found = anchor->node;
		}
	}
	return found;
}

int jsonschema_check_ref(struct schema_visit *visit, const struct schema_rule *rule)
{
	const struct schema_node *target =
		rule->dynamic ? dynamic_target(visit, rule) : rule->target;

	return target ? jsonschema_apply(visit, target) : -1;
}

int jsonschema_check_all_of(struct schema_visit *visit, const struct schema_rule *rule)
{
	int verdict = 1;

	for (size_t i = 0; i < rule->count; i++) {
		int r = jsonschema_apply(visit, rule->nodes[i]);

		if (r < 0)
			return r;
		if (r == 0)
			verdict = 0;
		if (verdict == 0 && visit->check->quiet > 0)
			break;
	}
	return verdict;
}

int jsonschema_check_any_of(struct schema_visit *visit, const struct schema_rule *rule)
{
	int verdict = 0;

	for (size_t i = 0; i < rule->count; i++) {
		int r = jsonschema_try(visit, rule->nodes[i]);

		if (r < 0)
			return r;
		if (r > 0)
			verdict = 1;
		/* the others may still mark something */
		if (verdict && !visit->marks)
			break;
	}
	return verdict || jsonschema_tell(visit, rule, "fits none of the %zu schemas", rule->count);
}

int jsonschema_check_one_of(struct schema_visit *visit, const struct schema_rule *rule)
{
	size_t valid = 0, first = 0;

	for (size_t i = 0; i < rule->count && valid < 2; i++) {
		int r = jsonschema_try(visit, rule->nodes[i]);

		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (valid++ > 0)
			return jsonschema_tell(visit, rule,
			                       "fits the schemas %zu and %zu, and may fit one only",
			                       first, i);
		first = i;
	}
	return valid == 1 ||
	       jsonschema_tell(visit, rule, "fits none of the %zu schemas", rule->count);
}

int jsonschema_check_not(struct schema_visit *visit, const struct schema_rule *rule)
{
	uint8_t *marks = visit->marks;
	int r;

	visit->marks = NULL; /* what is refused has looked at nothing */
	r = jsonschema_try(visit, rule->nodes[0]);
	visit->marks = marks;
	if (r < 0)
		return r;
	return r == 0 || jsonschema_tell(visit, rule, "fits the schema it must not fit");
}

int jsonschema_check_if(struct schema_visit *visit, const struct schema_rule *rule)
{
	int r = jsonschema_try(visit, rule->nodes[0]);
	const struct schema_rule *next;

	if (r < 0)
		return r;
	next = jsonschema_rule(visit->node, r > 0 ? SCHEMA_THEN : SCHEMA_ELSE);
	return next ? jsonschema_apply(visit, next->nodes[0]) : 1;
}
