/*
 * A JSON document as a tree, for where exactness counts: numbers stay decimals of any size, texts
 * may contain NUL, members are sorted by name and a name stands once. Strict RFC 8259; limits on
 * depth and size, since the bytes come from strangers. Read-only once parsed.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/decimal.h"

enum {
	JSONVALUE_DEPTH = 128,
	JSONVALUE_BYTES = 8 * 1024 * 1024,
};

enum jsonvalue_type {
	JSONVALUE_NULL,
	JSONVALUE_BOOLEAN,
	JSONVALUE_NUMBER,
	JSONVALUE_STRING,
	JSONVALUE_ARRAY,
	JSONVALUE_OBJECT,
};

struct jsonvalue {
	enum jsonvalue_type type;
	bool is_true;
	size_t count; /* items, members, or bytes of a string */
	union {
		const char *text; /* NUL-terminated besides */
		struct decimal number;
		struct jsonvalue *items;
		struct jsonmember *members;
	};
	void *note; /* its user's own */
};

struct jsonmember {
	const char *name; /* NUL-terminated besides */
	size_t len;
	struct jsonvalue value;
};

struct jsontree {
	struct jsonvalue root;
	struct jsonchunk *chunks; /* what the tree is made of */
};

/* ERR_INVALID with the line and column. *ret is to be released with jsontree_done after success. */
int jsontree_parse(const char *text, size_t len, struct jsontree *ret, struct err *err) NODISCARD;
void jsontree_done(struct jsontree *tree);

/* NULL when it is no object or has no such member. */
struct jsonmember *jsonvalue_member(const struct jsonvalue *object, const char *name, size_t len);
struct jsonvalue *jsonvalue_get(const struct jsonvalue *object, const char *name);
/* A total order; 0 means equal as JSON Schema has it (1 and 1.0 are). What it looked at is added to
 * *cost. */
int jsonvalue_compare(const struct jsonvalue *a, const struct jsonvalue *b, uint64_t *cost);
bool jsonvalue_is(const struct jsonvalue *value, enum jsonvalue_type type);
