/* One validation under way; for model/jsonschema*.c only. */
#pragma once

#include "model/jsonschema_impl.h"

/* Of a member or an item of the instance. */
enum schema_marks {
	SCHEMA_MARK_OWN = 1, /* by properties, patternProperties, prefixItems of this very schema */
	SCHEMA_MARK_SEEN = 2, /* by any keyword, for unevaluated… */
};

/* The way from the root of the instance. */
struct schema_step {
	const struct schema_step *outer;
	const char *name; /* NULL: an index */
	size_t len;       /* of the name, or the index */
};

/* The resources entered on the way, for $dynamicRef. */
struct schema_scope {
	const struct schema_scope *outer;
	const struct schema_resource *resource;
};

struct schema_check {
	const struct jsonschema *schema;
	struct jsonschema_report *report;
	uint64_t steps; /* left */
	int depth;
	int quiet; /* >0: a failure is no error of the whole */
	struct err *err;
};

struct schema_visit {
	struct schema_check *check;
	const struct schema_node *node;
	const struct jsonvalue *instance;
	const struct schema_step *step;
	const struct schema_scope *scope;
	uint8_t *marks; /* NULL when nobody asks */
};

/* Takes from the steps; -1 (with err) when none are left. */
int jsonschema_spend(struct schema_visit *visit, uint64_t steps) NODISCARD;
/* Tells; returns 0. */
int jsonschema_tell(struct schema_visit *visit, const struct schema_rule *rule, const char *fmt,
                    ...) PRINTF(3, 4);
/* Another schema on the same instance; what it looked at is marked when it is valid. */
int jsonschema_apply(struct schema_visit *visit, const struct schema_node *node) NODISCARD;
/* The same, and nothing is told. */
int jsonschema_try(struct schema_visit *visit, const struct schema_node *node) NODISCARD;
/* A schema on a member or an item, which it marks. */
int jsonschema_apply_member(struct schema_visit *visit, const struct schema_node *node, size_t at,
                            unsigned marks) NODISCARD;
int jsonschema_apply_item(struct schema_visit *visit, const struct schema_node *node, size_t at,
                          unsigned marks) NODISCARD;
/* A schema on a value that stands at no place of its own: the name of a member. */
int jsonschema_apply_name(struct schema_visit *visit, const struct schema_node *node,
                          size_t at) NODISCARD;
