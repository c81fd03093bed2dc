/*
 * What the parts of the validator share; for model/jsonschema*.c only.
 *
 * A document is a tree of JSON; each schema in it has a node, noted at its value. A resource is a
 * part of a document with an identifier of its own, the base of the references in it.
 */
#pragma once

#include "model/jsonschema.h"
#include "model/jsonvalue.h"

struct pattern;
struct schema_visit;
struct schema_rule;

enum schema_keyword_id {
#define KEYWORD(id, name, drafts, vocabulary, shape, check) SCHEMA_##id,
#include "model/jsonschema_keywords.def"
#undef KEYWORD
	SCHEMA_KEYWORDS
};

enum schema_drafts {
	SCHEMA_DRAFTS_NEW = 1 << JSONSCHEMA_2020_12,
	SCHEMA_DRAFTS_OLD = 1 << JSONSCHEMA_DRAFT7,
	SCHEMA_DRAFTS_BOTH = SCHEMA_DRAFTS_NEW | SCHEMA_DRAFTS_OLD,
};

enum schema_vocabulary {
	SCHEMA_VOCABULARY_CORE = 1 << 0,
	SCHEMA_VOCABULARY_APPLICATOR = 1 << 1,
	SCHEMA_VOCABULARY_UNEVALUATED = 1 << 2,
	SCHEMA_VOCABULARY_VALIDATION = 1 << 3,
	SCHEMA_VOCABULARY_ALL = (1 << 4) - 1,
};

struct schema_compiler;

struct schema_keyword {
	enum schema_keyword_id id;
	const char *name;
	enum schema_drafts drafts;
	enum schema_vocabulary vocabulary;
	/* Reads the value into the rule, subschemas included. */
	int (*compile)(struct schema_compiler *compiler, struct schema_rule *rule);
	/* 1 valid, 0 not (and told), -1 a limit was met. */
	int (*check)(struct schema_visit *visit, const struct schema_rule *rule);
};

struct schema_rule {
	const struct schema_keyword *keyword;
	struct schema_node *node; /* whose rule it is */
	const struct jsonvalue *value;
	size_t count;               /* of nodes and patterns, as of the value's children */
	struct schema_node **nodes; /* NULL inside where a child is no schema */
	struct pattern **patterns;
	uint64_t limit;
	struct schema_node *target; /* of a reference */
	const char *dynamic;        /* anchor to look for on the way in; or NULL */
};

struct schema_node {
	struct schema_node *next; /* all of them */
	struct schema_node *parent;
	struct schema_resource *resource;
	const struct jsonvalue *value;
	const char *keyword; /* of the parent, that holds it; NULL for a root */
	const char *name;    /* below the keyword; NULL when it is the keyword's own value */
	size_t index;        /* instead of a name, in an array */
	bool is_item;
	char *pointer; /* from the root, where no keyword leads to it; or NULL */
	struct schema_rule *rules;
	size_t rule_count;
	bool needs_marks;
};

struct schema_anchor {
	struct schema_anchor *next;
	struct schema_node *node;
	const char *name;
	bool is_dynamic;
};

struct schema_resource {
	char *uri;
	struct schema_node *root;
	struct schema_document *document;
	struct schema_anchor *anchors;
	enum jsonschema_draft draft;
	unsigned vocabularies;
};

struct schema_document {
	struct schema_document *next;
	char *uri;
	struct jsontree tree;
};

struct jsonschema {
	struct schema_document *documents;
	struct schema_node *nodes;
	struct schema_node *root;
	struct schema_resource **resources;
	size_t resource_count, node_count, anchor_count;
	bool tracks; /* some unevaluated… needs to know what others looked at */
};

struct schema_compiler {
	struct jsonschema *schema;
	const struct jsonschema_options *options;
	struct schema_rule **references; /* to be resolved; rules never move */
	size_t reference_count, reference_size;
	struct err *err;
};

extern const struct schema_keyword jsonschema_keywords[SCHEMA_KEYWORDS];

/* --- jsonschema_compile.c --- */
int jsonschema_fail(struct schema_compiler *compiler, const struct schema_node *node,
                    const char *keyword, const char *what);
const struct schema_rule *jsonschema_rule(const struct schema_node *node,
                                          enum schema_keyword_id id);
/* The node of a value that is a schema below `parent`, made if it is new. */
int jsonschema_add(struct schema_compiler *compiler, const struct schema_node *place,
                   struct jsonvalue *value, struct schema_node **ret) NODISCARD;
/* "uri#/a/b/keyword", cut at the front when it is too long. */
void jsonschema_path(const struct schema_node *node, const char *keyword, char *out, size_t size);

/* --- jsonschema_identity.c: $schema, $id, $anchor, documents --- */
/* Gives the node its resource. */
int jsonschema_identify(struct schema_compiler *compiler, struct schema_node *node) NODISCARD;
int jsonschema_load(struct schema_compiler *compiler, const char *uri, const char *text, size_t len,
                    struct schema_node **ret) NODISCARD;
int jsonschema_resolve(struct schema_compiler *compiler, struct schema_rule *rule) NODISCARD;

/* --- jsonschema_shapes.c: what a keyword's value must be --- */
#define KEYWORD(id, name, drafts, vocabulary, shape, check)                                        \
	int jsonschema_compile_##shape(struct schema_compiler *compiler, struct schema_rule *rule);
#include "model/jsonschema_keywords.def"
#undef KEYWORD

/* --- jsonschema_meta.c --- */
/* The text of a meta-schema of the drafts; NULL if it is none. */
const char *jsonschema_meta(const char *uri, size_t *ret_len);

/* --- jsonschema_check*.c: one for each keyword that asserts --- */
int jsonschema_check_ref(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_type(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_enum(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_const(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_multiple_of(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_bound(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_size(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_pattern(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_unique(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_required(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_dependencies(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_all_of(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_any_of(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_one_of(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_not(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_if(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_prefix_items(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_items(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_contains(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_properties(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_pattern_properties(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_additional_properties(struct schema_visit *visit,
                                           const struct schema_rule *rule);
int jsonschema_check_property_names(struct schema_visit *visit, const struct schema_rule *rule);
int jsonschema_check_unevaluated(struct schema_visit *visit, const struct schema_rule *rule);
