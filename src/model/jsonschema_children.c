/* Keywords that look into arrays and objects. */
#include "base/mem.h"
#include "model/jsonschema_visit.h"
#include "model/pattern.h"

enum { OWN_AND_SEEN = SCHEMA_MARK_OWN | SCHEMA_MARK_SEEN };

/* Adds one verdict to those before; false when there is nothing more to find out. */
static bool go_on(const struct schema_visit *visit, int r, int *verdict)
{
	if (r < 0 || (r == 0 && *verdict > 0))
		*verdict = r;
	return *verdict > 0 ||
	       (*verdict == 0 && visit->check->quiet == 0 && !visit->check->report->is_cut);
}

/* --- arrays --- */

/* Items from `from` on. */
static int apply_from(struct schema_visit *visit, const struct schema_node *node, size_t from)
{
	int verdict = 1;

	for (size_t i = from; i < visit->instance->count; i++) {
		if (!go_on(visit, jsonschema_apply_item(visit, node, i, OWN_AND_SEEN), &verdict))
			break;
	}
	return verdict;
}

int jsonschema_check_prefix_items(struct schema_visit *visit, const struct schema_rule *rule)
{
	int verdict = 1;

	if (!jsonvalue_is(visit->instance, JSONVALUE_ARRAY))
		return 1;
	/* draft 7 has one schema for all under the same name */
	if (!jsonvalue_is(rule->value, JSONVALUE_ARRAY))
		return apply_from(visit, rule->nodes[0], 0);
	for (size_t i = 0; i < MIN(rule->count, visit->instance->count); i++) {
		if (!go_on(visit, jsonschema_apply_item(visit, rule->nodes[i], i, OWN_AND_SEEN),
		           &verdict))
			break;
	}
	return verdict;
}

int jsonschema_check_items(struct schema_visit *visit, const struct schema_rule *rule)
{
	bool is_old = rule->keyword->id == SCHEMA_MORE_ITEMS;
	const struct schema_rule *prefix =
		jsonschema_rule(visit->node, is_old ? SCHEMA_ITEMS_OLD : SCHEMA_PREFIX_ITEMS);

	if (!jsonvalue_is(visit->instance, JSONVALUE_ARRAY))
		return 1;
	if (is_old && (!prefix || !jsonvalue_is(prefix->value, JSONVALUE_ARRAY)))
		return 1;
	return apply_from(visit, rule->nodes[0], prefix ? prefix->count : 0);
}

static uint64_t sibling_limit(const struct schema_visit *visit, enum schema_keyword_id id,
                              uint64_t otherwise)
{
	const struct schema_rule *rule = jsonschema_rule(visit->node, id);

	return rule ? rule->limit : otherwise;
}

int jsonschema_check_contains(struct schema_visit *visit, const struct schema_rule *rule)
{
	uint64_t least = sibling_limit(visit, SCHEMA_MIN_CONTAINS, 1);
	uint64_t most = sibling_limit(visit, SCHEMA_MAX_CONTAINS, UINT64_MAX);
	uint64_t found = 0;

	if (!jsonvalue_is(visit->instance, JSONVALUE_ARRAY))
		return 1;
	visit->check->quiet++;
	for (size_t i = 0; i < visit->instance->count; i++) {
		int r = jsonschema_apply_item(visit, rule->nodes[0], i, 0);

		if (r < 0)
			return r;
		found += (uint64_t)r;
		if (r > 0 && visit->marks)
			visit->marks[i] |= SCHEMA_MARK_SEEN;
	}
	visit->check->quiet--;
	if (found >= least && found <= most)
		return 1;
	return jsonschema_tell(visit, rule, "has %llu items that fit, at %s %llu are allowed",
	                       (unsigned long long)found, found < least ? "least" : "most",
	                       (unsigned long long)(found < least ? least : most));
}

static int compare_items(const void *a, const void *b, void *cost)
{
	const struct jsonvalue *const *x = a, *const *y = b;

	return jsonvalue_compare(*x, *y, cost);
}

int jsonschema_check_unique(struct schema_visit *visit, const struct schema_rule *rule)
{
	size_t count = visit->instance->count;
	auto_free const struct jsonvalue **sorted = NULL;
	uint64_t cost = 0;

	if (!rule->value->is_true || !jsonvalue_is(visit->instance, JSONVALUE_ARRAY) || count < 2)
		return 1;
	if (jsonschema_spend(visit, count) < 0)
		return -1;
	sorted = mem_zalloc(count * sizeof(struct jsonvalue *));
	for (size_t i = 0; i < count; i++)
		sorted[i] = &visit->instance->items[i];
	qsort_r(sorted, count, sizeof(struct jsonvalue *), compare_items, &cost);
	if (jsonschema_spend(visit, cost) < 0)
		return -1;
	for (size_t i = 1; i < count; i++) {
		if (jsonvalue_compare(sorted[i - 1], sorted[i], &cost) == 0)
			return jsonschema_tell(visit, rule, "has the same item at %zu and %zu",
			                       MIN((size_t)(sorted[i - 1] - visit->instance->items),
			                           (size_t)(sorted[i] - visit->instance->items)),
			                       MAX((size_t)(sorted[i - 1] - visit->instance->items),
			                           (size_t)(sorted[i] - visit->instance->items)));
	}
	return 1;
}

/* --- objects --- */

static int need_names(struct schema_visit *visit, const struct schema_rule *rule,
                      const struct jsonvalue *names)
{
	int verdict = 1;

	if (jsonschema_spend(visit, names->count) < 0)
		return -1;
	for (size_t i = 0; i < names->count; i++) {
		const struct jsonvalue *name = &names->items[i];

		if (jsonvalue_member(visit->instance, name->text, name->count))
			continue;
		if (!go_on(visit, jsonschema_tell(visit, rule, "has no '%s'", name->text),
		           &verdict))
			break;
	}
	return verdict;
}

int jsonschema_check_required(struct schema_visit *visit, const struct schema_rule *rule)
{
	if (!jsonvalue_is(visit->instance, JSONVALUE_OBJECT))
		return 1;
	return need_names(visit, rule, rule->value);
}

int jsonschema_check_dependencies(struct schema_visit *visit, const struct schema_rule *rule)
{
	int verdict = 1;

	if (!jsonvalue_is(visit->instance, JSONVALUE_OBJECT))
		return 1;
	if (jsonschema_spend(visit, rule->count) < 0)
		return -1;
	for (size_t i = 0; i < rule->count; i++) {
		const struct jsonmember *member = &rule->value->members[i];
		int r;

		if (!jsonvalue_member(visit->instance, member->name, member->len))
			continue;
		r = rule->nodes[i] ? jsonschema_apply(visit, rule->nodes[i])
		                   : need_names(visit, rule, &member->value);
		if (!go_on(visit, r, &verdict))
			break;
	}
	return verdict;
}

int jsonschema_check_properties(struct schema_visit *visit, const struct schema_rule *rule)
{
	int verdict = 1;

	if (!jsonvalue_is(visit->instance, JSONVALUE_OBJECT))
		return 1;
	if (jsonschema_spend(visit, rule->count) < 0)
		return -1;
	for (size_t i = 0; i < rule->count; i++) {
		const struct jsonmember *member = &rule->value->members[i];
		const struct jsonmember *found =
			jsonvalue_member(visit->instance, member->name, member->len);
		int r = 1;

		if (found)
			r = jsonschema_apply_member(visit, rule->nodes[i],
			                            (size_t)(found - visit->instance->members),
			                            OWN_AND_SEEN);
		if (!go_on(visit, r, &verdict))
			break;
	}
	return verdict;
}

/* One pattern against all names. */
static int check_one_pattern(struct schema_visit *visit, const struct schema_rule *rule, size_t at)
{
	int verdict = 1;

	for (size_t i = 0; i < visit->instance->count; i++) {
		const struct jsonmember *member = &visit->instance->members[i];
		bool is_match;

		if (pattern_search(rule->patterns[at], member->name, member->len,
		                   &visit->check->steps, &is_match) < 0)
			return jsonschema_spend(visit, UINT64_MAX);
		if (!is_match)
			continue;
		if (!go_on(visit, jsonschema_apply_member(visit, rule->nodes[at], i, OWN_AND_SEEN),
		           &verdict))
			break;
	}
	return verdict;
}

int jsonschema_check_pattern_properties(struct schema_visit *visit, const struct schema_rule *rule)
{
	int verdict = 1;

	if (!jsonvalue_is(visit->instance, JSONVALUE_OBJECT))
		return 1;
	for (size_t i = 0; i < rule->count; i++) {
		if (!go_on(visit, check_one_pattern(visit, rule, i), &verdict))
			break;
	}
	return verdict;
}

/* Members without one of these marks. */
static int apply_unmarked(struct schema_visit *visit, const struct schema_rule *rule,
                          unsigned marks)
{
	bool is_object = jsonvalue_is(visit->instance, JSONVALUE_OBJECT);
	int verdict = 1;

	for (size_t i = 0; i < visit->instance->count; i++) {
		int r;

		if (visit->marks[i] & marks)
			continue;
		r = is_object ? jsonschema_apply_member(visit, rule->nodes[0], i, SCHEMA_MARK_SEEN)
		              : jsonschema_apply_item(visit, rule->nodes[0], i, SCHEMA_MARK_SEEN);
		if (!go_on(visit, r, &verdict))
			break;
	}
	return verdict;
}

int jsonschema_check_additional_properties(struct schema_visit *visit,
                                           const struct schema_rule *rule)
{
	if (!jsonvalue_is(visit->instance, JSONVALUE_OBJECT))
		return 1;
	return apply_unmarked(visit, rule, SCHEMA_MARK_OWN);
}

int jsonschema_check_unevaluated(struct schema_visit *visit, const struct schema_rule *rule)
{
	bool is_items = rule->keyword->id == SCHEMA_UNEVAL_ITEMS;

	if (!jsonvalue_is(visit->instance, is_items ? JSONVALUE_ARRAY : JSONVALUE_OBJECT))
		return 1;
	return apply_unmarked(visit, rule, SCHEMA_MARK_SEEN);
}

int jsonschema_check_property_names(struct schema_visit *visit, const struct schema_rule *rule)
{
	int verdict = 1;

	if (!jsonvalue_is(visit->instance, JSONVALUE_OBJECT))
		return 1;
	for (size_t i = 0; i < visit->instance->count; i++) {
		if (!go_on(visit, jsonschema_apply_name(visit, rule->nodes[0], i), &verdict))
			break;
	}
	return verdict;
}
