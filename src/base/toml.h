/*
 * A strict TOML 1.0 reader into a small tree. Every node knows its line, so that whoever
 * interprets the tree can say "config.toml:12: unknown key 'memroy' (did you mean 'memory'?)".
 * Foreign bytes: bounded depth, duplicate keys refused, no recursion without a limit. The one
 * difference to the specification: a key with a NUL in it is refused.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum toml_kind {
	TOML_STRING,
	TOML_INT,
	TOML_FLOAT,
	TOML_BOOL,
	TOML_DATETIME,
	TOML_ARRAY,
	TOML_TABLE
};

struct toml {
	enum toml_kind kind;
	int line;
	char *key; /* in a table; NULL in an array and at the root */
	char *str; /* STRING, DATETIME */
	size_t str_len;
	int64_t num;        /* INT, BOOL (0 or 1) */
	double real;        /* FLOAT */
	struct toml *child; /* first of ARRAY or TABLE, in file order */
	struct toml *next;  /* sibling */
	/* the reader's own */
	struct toml *last;
	size_t count;
	uint32_t flags;
	int depth;
};

/* text need not end with NUL. On failure err says "NAME:LINE: what" with ERR_CONFIG. */
int toml_parse(const char *name, const char *text, size_t len, struct toml **ret,
               struct err *err) NODISCARD;
void toml_free(struct toml *root);
void toml_freep(struct toml **root);
/* Child of a table by key, or NULL. */
const struct toml *toml_get(const struct toml *table, const char *key);
const char *toml_kind_name(enum toml_kind kind);
