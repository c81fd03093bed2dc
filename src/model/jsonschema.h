/*
 * JSON Schema, draft 2020-12 whole and draft 7: compile once, validate often. Pure: nothing is
 * fetched; a reference that leads outside finds the documents the caller gave, the drafts' own
 * meta-schemas, or is refused. Schema and instance may come from strangers: depth, size and work
 * are bounded. `format` and the content keywords are annotations, as the draft has it by default.
 * A compiled schema is read-only and may be used by several threads.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum {
	JSONSCHEMA_BYTES = 1024 * 1024, /* of one schema */
	JSONSCHEMA_NODES = 50000,       /* subschemas, those of other documents included */
	JSONSCHEMA_RESOURCES = 500,     /* with an $id of their own */
	JSONSCHEMA_ANCHORS = 1000,
	JSONSCHEMA_URI_BYTES = 2048,
	JSONSCHEMA_DEPTH = 600, /* subschemas inside each other while validating */
	JSONSCHEMA_STEPS = 20 * 1000 * 1000,
	JSONSCHEMA_ERRORS = 16, /* told of one instance */
	JSONSCHEMA_PATH = 512,  /* bytes of a path shown; longer ones lose their middle levels */
};

enum jsonschema_draft { JSONSCHEMA_2020_12, JSONSCHEMA_DRAFT7 };

/* A document that references may lead to, by its absolute URI. */
struct jsonschema_document {
	const char *uri;
	const char *text;
	size_t len;
};

struct jsonschema_options {
	enum jsonschema_draft draft; /* where "$schema" does not say */
	const struct jsonschema_document *documents;
	size_t document_count;
};

/* "At '/a/0': is no string (#/properties/a/items/type)" in parts. */
struct jsonschema_error {
	char instance_path[JSONSCHEMA_PATH]; /* JSON pointer; "" is the whole */
	char schema_path[JSONSCHEMA_PATH];   /* URI of its document, "#", JSON pointer */
	char reason[160];
};

struct jsonschema_report {
	bool is_valid;
	bool is_cut; /* there may be more errors than these */
	size_t count;
	struct jsonschema_error errors[JSONSCHEMA_ERRORS];
};

struct jsonschema;

/* ERR_INVALID with where and why. `options` may be NULL; nothing of it or of the text is kept. */
int jsonschema_compile(const char *text, size_t len, const struct jsonschema_options *options,
                       struct jsonschema **ret, struct err *err) NODISCARD;
void jsonschema_free(struct jsonschema *schema);
void jsonschema_freep(struct jsonschema **schema);
/* 0 with the verdict in *ret. ERR_INVALID when the text is no JSON, ERR_TOO_LARGE when the work is
 * more than the limits above allow. */
int jsonschema_validate(const struct jsonschema *schema, const char *text, size_t len,
                        struct jsonschema_report *ret, struct err *err) NODISCARD;
/* One sentence. */
void jsonschema_error_text(const struct jsonschema_error *error, char *out, size_t size);
