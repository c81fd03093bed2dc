/*
 * Declarative command-line options: a table in, values out, help text from the same table.
 * Options may be anywhere before "--"; "--name=value" and "--name value" are the same; short
 * ones are single letters; flags may be written together ("-it").
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum opt_kind {
	OPT_FLAG,  /* bool *                       */
	OPT_STR,   /* const char ** (points into argv) */
	OPT_U64,   /* uint64_t *                   */
	OPT_BYTES, /* uint64_t *, "64M"            */
	OPT_MS,    /* uint64_t *, "30s"            */
	OPT_LIST,  /* struct opt_list *, may repeat */
};

struct opt_list {
	const char **items;
	size_t count;
};

struct opt {
	const char *name; /* "memory" */
	char letter;      /* 0: none */
	enum opt_kind kind;
	void *value;
	const char *arg; /* "SIZE" in the help text; NULL for flags */
	const char *help;
};

/*
 * Parses argv[0..argc). Positional arguments are moved, in order, to the front of argv; their
 * count is *ret_argc. With stop_at_positional the first positional ends parsing (everything
 * from there on is positional), as `run` needs. "--" ends options and is dropped.
 * ERR_INVALID names the option and the nearest known one. opts ends with a row without a name.
 */
int opt_parse(const struct opt *opts, int argc, char **argv, bool stop_at_positional, int *ret_argc,
              struct err *err) NODISCARD;
/* Two columns: "  -m, --memory SIZE   help". */
void opt_print(const struct opt *opts, FILE *to);
void opt_list_done(struct opt_list *list);
/* Of the candidates (NULL-terminated), the nearest to word by edit distance; NULL if none is
 * near. For "did you mean". */
const char *opt_nearest(const char *word, const char *const *candidates);
