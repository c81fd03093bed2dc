#include "base/mem.h"
#include "base/str.h"
#include "model/jsonschema_impl.h"
#include "model/uri.h"

/* --- $schema --- */

static const struct {
	const char *uri;
	enum jsonschema_draft draft;
} drafts[] = {
	{"https://json-schema.org/draft/2020-12/schema", JSONSCHEMA_2020_12},
	{"http://json-schema.org/draft-07/schema", JSONSCHEMA_DRAFT7},
	{"https://json-schema.org/draft-07/schema", JSONSCHEMA_DRAFT7},
};

static const struct {
	const char *uri;
	unsigned vocabulary;
} vocabularies[] = {
	{"https://json-schema.org/draft/2020-12/vocab/core", SCHEMA_VOCABULARY_CORE},
	{"https://json-schema.org/draft/2020-12/vocab/applicator", SCHEMA_VOCABULARY_APPLICATOR},
	{"https://json-schema.org/draft/2020-12/vocab/unevaluated", SCHEMA_VOCABULARY_UNEVALUATED},
	{"https://json-schema.org/draft/2020-12/vocab/validation", SCHEMA_VOCABULARY_VALIDATION},
	{"https://json-schema.org/draft/2020-12/vocab/meta-data", 0},
	{"https://json-schema.org/draft/2020-12/vocab/format-annotation", 0},
	{"https://json-schema.org/draft/2020-12/vocab/content", 0},
};

/* Without an empty fragment. */
static bool same_uri(const char *a, const char *b, size_t b_len)
{
	if (b_len > 0 && b[b_len - 1] == '#')
		b_len--;
	return strlen(a) == b_len && memcmp(a, b, b_len) == 0;
}

static const struct jsonschema_document *find_given(const struct schema_compiler *compiler,
                                                    const char *uri, size_t len)
{
	for (size_t i = 0; i < compiler->options->document_count; i++) {
		if (same_uri(compiler->options->documents[i].uri, uri, len))
			return &compiler->options->documents[i];
	}
	return NULL;
}

static bool known_draft(const struct jsonvalue *uri, enum jsonschema_draft *ret)
{
	for (size_t i = 0; uri && jsonvalue_is(uri, JSONVALUE_STRING) && i < ARRAY_LEN(drafts);
	     i++) {
		if (same_uri(drafts[i].uri, uri->text, uri->count)) {
			*ret = drafts[i].draft;
			return true;
		}
	}
	return false;
}

static int read_vocabularies(struct schema_compiler *compiler, const struct schema_node *node,
                             const struct jsonvalue *listed)
{
	unsigned known = SCHEMA_VOCABULARY_CORE;

	for (size_t i = 0; i < listed->count; i++) {
		const struct jsonmember *member = &listed->members[i];
		bool is_known = false;

		for (size_t j = 0; j < ARRAY_LEN(vocabularies); j++) {
			if (!str_eq(vocabularies[j].uri, member->name))
				continue;
			is_known = true;
			known |= vocabularies[j].vocabulary;
		}
		if (!is_known && member->value.is_true)
			return jsonschema_fail(compiler, node, "$schema",
			                       "needs a vocabulary that is not known here");
	}
	node->resource->vocabularies = known;
	return 0;
}

/* A meta-schema of somebody's own: its draft and its vocabularies. */
static int read_own_meta(struct schema_compiler *compiler, const struct schema_node *node,
                         const struct jsonschema_document *given)
{
	struct jsontree meta;
	const struct jsonvalue *listed;
	int r = 0;

	if (jsontree_parse(given->text, given->len, &meta, compiler->err) < 0)
		return err_wrap(compiler->err, "%s", given->uri);
	listed = jsonvalue_get(&meta.root, "$vocabulary");
	if (!known_draft(jsonvalue_get(&meta.root, "$schema"), &node->resource->draft))
		r = jsonschema_fail(compiler, node, "$schema",
		                    "is a meta-schema of neither draft 2020-12 nor draft 7");
	else if (listed && jsonvalue_is(listed, JSONVALUE_OBJECT))
		r = read_vocabularies(compiler, node, listed);
	jsontree_done(&meta);
	return r;
}

static int read_draft(struct schema_compiler *compiler, const struct schema_node *node)
{
	const struct jsonvalue *uri = jsonvalue_get(node->value, "$schema");
	const struct jsonschema_document *given;

	if (!uri)
		return 0;
	if (!jsonvalue_is(uri, JSONVALUE_STRING))
		return jsonschema_fail(compiler, node, "$schema", "is no string");
	if (known_draft(uri, &node->resource->draft)) {
		node->resource->vocabularies = SCHEMA_VOCABULARY_ALL;
		return 0;
	}
	given = find_given(compiler, uri->text, uri->count);
	if (!given)
		return jsonschema_fail(compiler, node, "$schema",
		                       "is neither draft 2020-12 nor draft 7");
	return read_own_meta(compiler, node, given);
}

/* --- $id, $anchor --- */

static struct schema_resource *find_resource(const struct jsonschema *schema, const char *uri)
{
	for (size_t i = 0; i < schema->resource_count; i++) {
		if (str_eq(schema->resources[i]->uri, uri))
			return schema->resources[i];
	}
	return NULL;
}

/* Takes the uri. */
static int new_resource(struct schema_compiler *compiler, char *uri,
                        const struct schema_resource *like, struct schema_resource **ret)
{
	struct jsonschema *schema = compiler->schema;
	struct schema_resource *resource;

	if (schema->resource_count >= JSONSCHEMA_RESOURCES ||
	    strlen(uri) > 2 * JSONSCHEMA_URI_BYTES) {
		free(uri);
		err_set(compiler->err, ERR_INVALID,
		        "the schema has more than %d \"$id\", or too long ones",
		        JSONSCHEMA_RESOURCES);
		return -1; /* in so many words for the analyzer */
	}
	schema->resources = mem_resize(schema->resources, schema->resource_count + 1,
	                               sizeof(struct schema_resource *));
	resource = mem_new(struct schema_resource);
	*resource = *like;
	resource->uri = uri;
	resource->root = NULL;
	resource->anchors = NULL;
	schema->resources[schema->resource_count++] = resource;
	*ret = resource;
	return 0;
}

static int add_anchor(struct schema_compiler *compiler, struct schema_node *node, const char *name,
                      bool is_dynamic)
{
	struct schema_resource *resource = node->resource;
	struct schema_anchor *anchor;

	for (anchor = resource->anchors; anchor; anchor = anchor->next) {
		if (str_eq(anchor->name, name) && anchor->node != node)
			return jsonschema_fail(compiler, node, NULL,
			                       "has an anchor that another has, too");
	}
	if (compiler->schema->anchor_count++ >= JSONSCHEMA_ANCHORS)
		return err_set(compiler->err, ERR_INVALID, "the schema has more than %d anchors",
		               JSONSCHEMA_ANCHORS);
	anchor = mem_new(struct schema_anchor);
	anchor->node = node;
	anchor->name = name;
	anchor->is_dynamic = is_dynamic;
	anchor->next = resource->anchors;
	resource->anchors = anchor;
	return 0;
}

/* The resource the node begins, unless it is the one it is in already. */
static int enter_resource(struct schema_compiler *compiler, struct schema_node *node, char *uri)
{
	struct schema_resource *resource = NULL;

	if (str_eq(uri, node->resource->uri) && !node->resource->root) {
		free(uri);
		return 0;
	}
	if (find_resource(compiler->schema, uri)) {
		free(uri);
		return jsonschema_fail(compiler, node, "$id", "is the \"$id\" of another, too");
	}
	if (new_resource(compiler, uri, node->resource, &resource) < 0)
		return -1;
	/* what was loaded by one address and says it has another is to be found by both */
	if (!node->resource->root)
		node->resource->root = node;
	node->resource = resource;
	return 0;
}

static int read_id(struct schema_compiler *compiler, struct schema_node *node,
                   const struct jsonvalue *id, const char **ret_anchor)
{
	bool is_old = node->resource->draft == JSONSCHEMA_DRAFT7;
	const char *fragment;
	char *uri;

	if (!jsonvalue_is(id, JSONVALUE_STRING) || strlen(id->text) != id->count ||
	    id->count > JSONSCHEMA_URI_BYTES)
		return jsonschema_fail(compiler, node, "$id", "is no URI of at most 2048 bytes");
	uri = uri_resolve(node->resource->uri, id->text, &fragment);
	if (fragment && *fragment && !is_old) {
		free(uri);
		return jsonschema_fail(compiler, node, "$id", "has a fragment: use \"$anchor\"");
	}
	if (fragment && *fragment)
		*ret_anchor = fragment;
	if (id->text[0] == '#' || id->count == 0) {
		free(uri);
		return 0;
	}
	return enter_resource(compiler, node, uri);
}

static int read_anchor(struct schema_compiler *compiler, struct schema_node *node,
                       const char *keyword, bool is_dynamic)
{
	const struct jsonvalue *name = jsonvalue_get(node->value, keyword);

	if (!name)
		return 0;
	if (!jsonvalue_is(name, JSONVALUE_STRING) || name->count == 0 ||
	    strlen(name->text) != name->count || strpbrk(name->text, "#/% "))
		return jsonschema_fail(compiler, node, keyword, "is no name");
	return add_anchor(compiler, node, name->text, is_dynamic);
}

int jsonschema_identify(struct schema_compiler *compiler, struct schema_node *node)
{
	const struct jsonvalue *id = jsonvalue_get(node->value, "$id");
	bool is_old = node->resource->draft == JSONSCHEMA_DRAFT7;
	bool is_root = !node->resource->root;
	const char *anchor = NULL;

	/* what "$id" means depends on the draft, which the same object may name */
	if (is_root && read_draft(compiler, node) < 0)
		return -1;
	is_old = node->resource->draft == JSONSCHEMA_DRAFT7;
	if (id && !(is_old && jsonvalue_get(node->value, "$ref")) &&
	    read_id(compiler, node, id, &anchor) < 0)
		return -1;
	if (!node->resource->root) {
		node->resource->root = node;
		if (!is_root && read_draft(compiler, node) < 0)
			return -1;
	}
	if (anchor && add_anchor(compiler, node, anchor, false) < 0)
		return -1;
	if (node->resource->draft == JSONSCHEMA_DRAFT7)
		return 0;
	if (read_anchor(compiler, node, "$anchor", false) < 0)
		return -1;
	return read_anchor(compiler, node, "$dynamicAnchor", true);
}

/* --- documents --- */

int jsonschema_load(struct schema_compiler *compiler, const char *uri, const char *text, size_t len,
                    struct schema_node **ret)
{
	struct schema_resource like = {
		.draft = compiler->options->draft,
		.vocabularies = SCHEMA_VOCABULARY_ALL,
	};
	struct schema_node place = {0};
	struct schema_document *document;
	struct jsontree tree;

	if (len > JSONSCHEMA_BYTES)
		return err_set(compiler->err, ERR_INVALID, "a schema of more than %d bytes",
		               JSONSCHEMA_BYTES);
	if (jsontree_parse(text, len, &tree, compiler->err) < 0)
		return err_wrap(compiler->err, "the schema%s%s", *uri ? " " : "", uri);
	document = mem_new(struct schema_document);
	document->tree = tree;
	document->uri = mem_strdup(uri);
	document->next = compiler->schema->documents;
	compiler->schema->documents = document;
	like.document = document;
	if (new_resource(compiler, mem_strdup(uri), &like, &place.resource) < 0)
		return -1;
	return jsonschema_add(compiler, &place, &document->tree.root, ret);
}

/* The resource of a URI, loaded when it is a document that was given or a meta-schema. */
static int reach_resource(struct schema_compiler *compiler, const char *uri,
                          struct schema_resource **ret)
{
	const struct jsonschema_document *given;
	struct schema_node *root;
	const char *text;
	size_t len;

	*ret = find_resource(compiler->schema, uri);
	if (*ret)
		return 0;
	given = find_given(compiler, uri, strlen(uri));
	text = given ? given->text : jsonschema_meta(uri, &len);
	if (!text)
		return 0;
	if (jsonschema_load(compiler, uri, text, given ? given->len : len, &root) < 0)
		return -1;
	*ret = find_resource(compiler->schema, uri);
	return 0;
}

/* --- references --- */

/* One token of a JSON pointer, in place; the rest behind it, or NULL. */
static char *next_token(char *token)
{
	char *end = strchr(token, '/');
	char *to = token;

	if (end)
		*end++ = '\0';
	for (char *from = token; *from; from++) {
		*to = *from;
		if (from[0] == '~' && (from[1] == '0' || from[1] == '1'))
			*to = *++from == '0' ? '~' : '/';
		to++;
	}
	*to = '\0';
	return end;
}

static struct jsonvalue *step_into(const struct jsonvalue *value, const char *token)
{
	uint64_t index;

	if (jsonvalue_is(value, JSONVALUE_OBJECT))
		return jsonvalue_get(value, token);
	if (!jsonvalue_is(value, JSONVALUE_ARRAY) || str_to_u64(token, &index) < 0 ||
	    index >= value->count)
		return NULL;
	return &value->items[index];
}

/* Follows a pointer; on the way, the base is that of the last schema passed. */
static int follow(struct schema_compiler *compiler, struct schema_node *root, const char *pointer,
                  struct schema_node **ret)
{
	auto_free char *copy = mem_strdup(pointer);
	const struct jsonvalue *value = root->value;
	struct schema_node place = {.parent = root};

	for (char *token = copy + 1, *rest; value && token; token = rest) {
		if (value->note)
			place.parent = value->note;
		rest = next_token(token);
		value = step_into(value, token);
	}
	*ret = value ? value->note : NULL;
	if (!value || *ret)
		return 0;
	/* below a keyword nobody knows; meant as a schema by whoever refers to it */
	place.pointer = mem_strdup(pointer);
	if (compiler->schema->node_count >= JSONSCHEMA_NODES)
		mem_freep(&place.pointer);
	return jsonschema_add(compiler, &place, (struct jsonvalue *)value, ret);
}

static int find_target(struct schema_compiler *compiler, struct schema_rule *rule,
                       struct schema_resource *resource, char *fragment)
{
	if (!fragment || !*fragment) {
		rule->target = resource->root;
		return 0;
	}
	if (!uri_unescape(fragment))
		return 0;
	if (fragment[0] == '/')
		return follow(compiler, resource->root, fragment, &rule->target);
	for (const struct schema_anchor *anchor = resource->anchors; anchor;
	     anchor = anchor->next) {
		if (!str_eq(anchor->name, fragment))
			continue;
		rule->target = anchor->node;
		if (anchor->is_dynamic && rule->keyword->id == SCHEMA_DYNAMIC_REF)
			rule->dynamic = anchor->name;
	}
	return 0;
}

int jsonschema_resolve(struct schema_compiler *compiler, struct schema_rule *rule)
{
	const char *fragment;
	auto_free char *uri = uri_resolve(rule->node->resource->uri, rule->value->text, &fragment);
	auto_free char *copy = fragment ? mem_strdup(fragment) : NULL;
	struct schema_resource *resource;

	if (reach_resource(compiler, uri, &resource) < 0)
		return err_wrap(compiler->err, "%s", uri);
	if (resource && find_target(compiler, rule, resource, copy) < 0)
		return -1;
	if (!rule->target)
		return jsonschema_fail(compiler, rule->node, rule->keyword->name,
		                       resource ? "leads to nothing in its document"
		                                : "leads to a document that is not here; none is "
		                                  "fetched");
	return 0;
}
