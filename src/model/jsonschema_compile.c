/*
 * First every schema of a document gets its node and rules, then references are resolved, which
 * may bring further documents, until none is left.
 */
#include "base/mem.h"
#include "base/str.h"
#include "model/jsonschema_impl.h"
#include "model/pattern.h"

const struct schema_keyword jsonschema_keywords[SCHEMA_KEYWORDS] = {
#define KEYWORD(id, name, drafts, vocabulary, shape, check)                                        \
	{SCHEMA_##id,                                                                              \
	 name,                                                                                     \
	 SCHEMA_DRAFTS_##drafts,                                                                   \
	 SCHEMA_VOCABULARY_##vocabulary,                                                           \
	 jsonschema_compile_##shape,                                                               \
	 check},
#include "model/jsonschema_keywords.def"
#undef KEYWORD
};

/* --- where a schema stands --- */

struct path {
	char *out;
	size_t start; /* filled from the back */
};

static bool put_front(struct path *path, const char *text, size_t len)
{
	if (path->start < len)
		return false;
	path->start -= len;
	memcpy(path->out + path->start, text, len);
	return true;
}

/* A name as a token of a JSON pointer. */
static bool put_name(struct path *path, const char *name)
{
	for (size_t i = strlen(name); i > 0; i--) {
		const char *text = name[i - 1] == '~' ? "~0" : name[i - 1] == '/' ? "~1" : NULL;

		if (!(text ? put_front(path, text, 2) : put_front(path, name + i - 1, 1)))
			return false;
	}
	return put_front(path, "/", 1);
}

static bool put_node(struct path *path, const struct schema_node *node)
{
	char index[24];

	if (node->pointer)
		return put_front(path, node->pointer, strlen(node->pointer));
	if (!node->keyword)
		return true;
	snprintf(index, sizeof(index), "/%zu", node->index);
	if (node->is_item && !put_front(path, index, strlen(index)))
		return false;
	if (node->name && !put_name(path, node->name))
		return false;
	return put_name(path, node->keyword);
}

void jsonschema_path(const struct schema_node *node, const char *keyword, char *out, size_t size)
{
	struct path path = {.out = out, .start = size - 1};
	const char *uri = node->resource ? node->resource->document->uri : "";
	bool fits = !keyword || put_name(&path, keyword);

	for (; fits && node; node = node->pointer ? NULL : node->parent)
		fits = put_node(&path, node);
	fits = fits && put_front(&path, "#", 1) && put_front(&path, uri, strlen(uri));
	if (!fits)
		memcpy(out + path.start, "…", MIN(strlen("…"), size - 1 - path.start));
	memmove(out, out + path.start, size - 1 - path.start);
	out[size - 1 - path.start] = '\0';
}

int jsonschema_fail(struct schema_compiler *compiler, const struct schema_node *node,
                    const char *keyword, const char *what)
{
	char path[100];

	jsonschema_path(node, keyword, path, sizeof(path));
	return err_set(compiler->err, ERR_INVALID, "the schema at '%s' %s", path, what);
}

const struct schema_rule *jsonschema_rule(const struct schema_node *node, enum schema_keyword_id id)
{
	for (size_t i = 0; i < node->rule_count; i++) {
		if (node->rules[i].keyword->id == id)
			return &node->rules[i];
	}
	return NULL;
}

/* --- rules --- */

static bool applies(const struct schema_node *node, const struct schema_keyword *keyword)
{
	const struct schema_resource *resource = node->resource;
	bool is_old = resource->draft == JSONSCHEMA_DRAFT7;

	if (!(keyword->drafts & 1u << resource->draft) ||
	    !(keyword->vocabulary & resource->vocabularies) ||
	    !jsonvalue_get(node->value, keyword->name))
		return false;
	/* draft 7: a reference stands alone; what it leads to may be beside it */
	return !is_old || keyword->id == SCHEMA_REF || keyword->id == SCHEMA_DEFINITIONS ||
	       !jsonvalue_get(node->value, "$ref");
}

static int add_rules(struct schema_compiler *compiler, struct schema_node *node)
{
	size_t count = 0;

	for (size_t i = 0; i < SCHEMA_KEYWORDS; i++)
		count += applies(node, &jsonschema_keywords[i]);
	node->rules = mem_zalloc((count + 1) * sizeof(struct schema_rule));
	for (size_t i = 0; i < SCHEMA_KEYWORDS; i++) {
		const struct schema_keyword *keyword = &jsonschema_keywords[i];
		struct schema_rule *rule = &node->rules[node->rule_count];

		if (!applies(node, keyword))
			continue;
		node->rule_count++;
		rule->keyword = keyword;
		rule->node = node;
		rule->value = jsonvalue_get(node->value, keyword->name);
		if (keyword->compile(compiler, rule) < 0)
			return -1;
		if (keyword->id == SCHEMA_MORE_PROPS)
			node->needs_marks = true;
		if (keyword->vocabulary == SCHEMA_VOCABULARY_UNEVALUATED)
			compiler->schema->tracks = true;
	}
	return 0;
}

int jsonschema_add(struct schema_compiler *compiler, const struct schema_node *place,
                   struct jsonvalue *value, struct schema_node **ret)
{
	struct jsonschema *schema = compiler->schema;
	struct schema_node *node = value->note;

	if (node) {
		*ret = node;
		return 0;
	}
	if (schema->node_count >= JSONSCHEMA_NODES)
		return err_set(compiler->err, ERR_INVALID, "the schema has more than %d schemas",
		               JSONSCHEMA_NODES);
	schema->node_count++;
	node = mem_new(struct schema_node);
	*node = *place;
	node->next = schema->nodes;
	schema->nodes = node;
	node->value = value;
	if (!node->resource)
		node->resource = node->parent->resource;
	value->note = node;
	*ret = node;
	if (jsonvalue_is(value, JSONVALUE_BOOLEAN)) {
		if (!node->resource->root)
			node->resource->root = node;
		return 0;
	}
	if (!jsonvalue_is(value, JSONVALUE_OBJECT))
		return jsonschema_fail(compiler, node, NULL,
		                       "is no schema: neither an object nor true or false");
	if (jsonschema_identify(compiler, node) < 0)
		return -1;
	return add_rules(compiler, node);
}

/* --- the whole --- */

static int compile(struct schema_compiler *compiler, const char *text, size_t len)
{
	if (jsonschema_load(compiler, "", text, len, &compiler->schema->root) < 0)
		return -1;
	for (size_t i = 0; i < compiler->reference_count; i++) {
		if (jsonschema_resolve(compiler, compiler->references[i]) < 0)
			return -1;
	}
	return 0;
}

int jsonschema_compile(const char *text, size_t len, const struct jsonschema_options *options,
                       struct jsonschema **ret, struct err *err)
{
	static const struct jsonschema_options defaults;
	struct schema_compiler compiler = {
		.schema = mem_new(struct jsonschema),
		.options = options ? options : &defaults,
		.err = err,
	};
	int r = compile(&compiler, text, len);

	free(compiler.references);
	if (r < 0) {
		jsonschema_free(compiler.schema);
		return r;
	}
	*ret = compiler.schema;
	return 0;
}

static void free_rules(struct schema_node *node)
{
	for (size_t i = 0; i < node->rule_count; i++) {
		struct schema_rule *rule = &node->rules[i];

		for (size_t j = 0; rule->patterns && j < rule->count; j++)
			pattern_free(rule->patterns[j]);
		free(rule->patterns);
		free(rule->nodes);
	}
	free(node->rules);
}

static void free_resource(struct schema_resource *resource)
{
	while (resource->anchors) {
		struct schema_anchor *anchor = resource->anchors;

		resource->anchors = anchor->next;
		free(anchor);
	}
	free(resource->uri);
	free(resource);
}

void jsonschema_free(struct jsonschema *schema)
{
	if (!schema)
		return;
	while (schema->nodes) {
		struct schema_node *node = schema->nodes;

		schema->nodes = node->next;
		free_rules(node);
		free(node->pointer);
		free(node);
	}
	for (size_t i = 0; i < schema->resource_count; i++)
		free_resource(schema->resources[i]);
	free(schema->resources);
	while (schema->documents) {
		struct schema_document *document = schema->documents;

		schema->documents = document->next;
		jsontree_done(&document->tree);
		free(document->uri);
		free(document);
	}
	free(schema);
}

void jsonschema_freep(struct jsonschema **schema)
{
	jsonschema_free(*schema);
	*schema = NULL;
}
