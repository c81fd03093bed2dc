/*
 * The walk of an instance through a schema's rules. A schema that is applied keeps marks of what
 * it looked at in an array or object, and hands them on only when it is valid: that is all the
 * annotations unevaluated… needs.
 */
#include "model/jsonschema.h"

#include <stdarg.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/jsonschema_visit.h"

int jsonschema_spend(struct schema_visit *visit, uint64_t steps)
{
	struct schema_check *check = visit->check;

	if (check->steps < steps)
		return err_set(
			check->err, ERR_TOO_LARGE,
			"validating takes more than %d steps: the schema or the value is too "
			"complex",
			JSONSCHEMA_STEPS);
	check->steps -= steps;
	return 0;
}

/* --- telling --- */

static size_t put_token(char *out, size_t size, const struct schema_step *step)
{
	size_t used = 0;

	if (!step->name)
		return (size_t)snprintf(out, size, "/%zu", step->len);
	out[used++] = '/';
	for (size_t i = 0; i < step->len && used + 3 < size; i++) {
		char c = step->name[i];

		if (c == '~' || c == '/') {
			out[used++] = '~';
			c = c == '~' ? '0' : '1';
		}
		out[used++] = c ? c : '?';
	}
	out[used] = '\0';
	return used;
}

/* From the back; the levels nearest to the root go first when there is no room. */
static void instance_path(const struct schema_step *step, char *out, size_t size)
{
	char token[200];
	size_t start = size - 1;

	out[start] = '\0';
	for (; step; step = step->outer) {
		size_t len = put_token(token, sizeof(token), step);

		if (start < len + strlen("…")) {
			start -= strlen("…");
			memcpy(out + start, "…", strlen("…"));
			break;
		}
		start -= len;
		memcpy(out + start, token, len);
	}
	memmove(out, out + start, size - start);
}

int jsonschema_tell(struct schema_visit *visit, const struct schema_rule *rule, const char *fmt,
                    ...)
{
	struct jsonschema_report *report = visit->check->report;
	struct jsonschema_error *error;
	va_list args;

	if (visit->check->quiet > 0)
		return 0;
	if (report->count >= JSONSCHEMA_ERRORS) {
		report->is_cut = true;
		return 0;
	}
	error = &report->errors[report->count++];
	instance_path(visit->step, error->instance_path, sizeof(error->instance_path));
	jsonschema_path(visit->node, rule ? rule->keyword->name : NULL, error->schema_path,
	                sizeof(error->schema_path));
	va_start(args, fmt);
	vsnprintf(error->reason, sizeof(error->reason), fmt, args);
	va_end(args);
	return 0;
}

void jsonschema_error_text(const struct jsonschema_error *error, char *out, size_t size)
{
	char path[JSONSCHEMA_PATH];

	str_escape(path, sizeof(path), error->instance_path, strlen(error->instance_path));
	snprintf(out, size, "'%s' %s (%s)", path, error->reason, error->schema_path);
}

/* --- applying a schema --- */

static int check_rules(struct schema_visit *visit)
{
	const struct schema_node *node = visit->node;
	const struct schema_check *check = visit->check;
	int verdict = 1;

	for (size_t i = 0; i < node->rule_count; i++) {
		const struct schema_rule *rule = &node->rules[i];
		int r;

		if (!rule->keyword->check)
			continue;
		/* what failed has marked nothing: all would be unevaluated */
		if (verdict == 0 && rule->keyword->vocabulary == SCHEMA_VOCABULARY_UNEVALUATED)
			break;
		r = jsonschema_spend(visit, 1);
		if (r == 0)
			r = rule->keyword->check(visit, rule);
		if (r < 0)
			return r;
		if (r == 0)
			verdict = 0;
		if (verdict == 0 && (check->quiet > 0 || check->report->is_cut))
			break;
	}
	return verdict;
}

static size_t marks_needed(const struct schema_visit *visit)
{
	const struct jsonvalue *instance = visit->instance;

	if (!jsonvalue_is(instance, JSONVALUE_OBJECT) && !jsonvalue_is(instance, JSONVALUE_ARRAY))
		return 0;
	return visit->check->schema->tracks || visit->node->needs_marks ? instance->count : 0;
}

/* With the visit's node and instance set; `outer` (or NULL) takes the marks. */
static int check_node(struct schema_visit *visit, uint8_t *outer)
{
	size_t count = marks_needed(visit);
	auto_free uint8_t *marks = count > 0 ? mem_zalloc(count) : NULL;
	const struct schema_scope *around = visit->scope;
	struct schema_scope scope = {around, visit->node->resource};
	int verdict;

	if (jsonvalue_is(visit->node->value, JSONVALUE_BOOLEAN))
		return visit->node->value->is_true
		               ? 1
		               : jsonschema_tell(visit, NULL, "is not allowed here");
	if (jsonschema_spend(visit, 1 + count / 8) < 0)
		return -1;
	visit->marks = marks;
	if (!around || around->resource != scope.resource)
		visit->scope = &scope;
	verdict = check_rules(visit);
	visit->scope = around;
	visit->marks = NULL;
	for (size_t i = 0; verdict > 0 && outer && i < count; i++)
		outer[i] |= marks[i] & SCHEMA_MARK_SEEN;
	return verdict;
}

static int descend(struct schema_visit *visit, uint8_t *outer)
{
	struct schema_check *check = visit->check;
	int r;

	if (check->depth >= JSONSCHEMA_DEPTH)
		return err_set(check->err, ERR_TOO_LARGE,
		               "validating goes deeper than %d schemas: the schema may refer to "
		               "itself without end",
		               JSONSCHEMA_DEPTH);
	check->depth++;
	r = check_node(visit, outer);
	check->depth--;
	return r;
}

int jsonschema_apply(struct schema_visit *visit, const struct schema_node *node)
{
	struct schema_visit inner = *visit;

	inner.node = node;
	return descend(&inner, visit->marks);
}

int jsonschema_try(struct schema_visit *visit, const struct schema_node *node)
{
	int r;

	visit->check->quiet++;
	r = jsonschema_apply(visit, node);
	visit->check->quiet--;
	return r;
}

static int apply_child(struct schema_visit *visit, const struct schema_node *node,
                       const struct jsonvalue *child, const struct schema_step *step)
{
	struct schema_visit inner = *visit;

	inner.node = node;
	inner.instance = child;
	inner.step = step;
	return descend(&inner, NULL);
}

int jsonschema_apply_member(struct schema_visit *visit, const struct schema_node *node, size_t at,
                            unsigned marks)
{
	const struct jsonmember *member = &visit->instance->members[at];
	struct schema_step step = {visit->step, member->name, member->len};

	if (visit->marks)
		visit->marks[at] |= (uint8_t)marks;
	return apply_child(visit, node, &member->value, &step);
}

int jsonschema_apply_item(struct schema_visit *visit, const struct schema_node *node, size_t at,
                          unsigned marks)
{
	struct schema_step step = {visit->step, NULL, at};

	if (visit->marks)
		visit->marks[at] |= (uint8_t)marks;
	return apply_child(visit, node, &visit->instance->items[at], &step);
}

int jsonschema_apply_name(struct schema_visit *visit, const struct schema_node *node, size_t at)
{
	const struct jsonmember *member = &visit->instance->members[at];
	struct jsonvalue name = {
		.type = JSONVALUE_STRING, .text = member->name, .count = member->len};
	struct schema_step step = {visit->step, member->name, member->len};

	return apply_child(visit, node, &name, &step);
}

int jsonschema_validate(const struct jsonschema *schema, const char *text, size_t len,
                        struct jsonschema_report *ret, struct err *err)
{
	struct schema_check check = {
		.schema = schema, .report = ret, .steps = JSONSCHEMA_STEPS, .err = err};
	struct schema_visit visit = {.check = &check, .node = schema->root};
	struct jsontree tree;
	int r;

	if (jsontree_parse(text, len, &tree, err) < 0)
		return -1;
	ret->count = 0;
	ret->is_cut = false;
	ret->is_valid = false;
	visit.instance = &tree.root;
	r = descend(&visit, NULL);
	jsontree_done(&tree);
	ret->is_valid = r > 0;
	return MIN(r, 0);
}
