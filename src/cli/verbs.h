/*
 * Verbs that mean the same for every collection of the API: `list` as a table, `show NAME`, `test
 * NAME`. Each parses its command line and does all of it. The command line alone.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"

struct cli;

/* key: a member of the item, or "OUTER.INNER". Texts as they are, numbers, yes and no. */
struct verbs_column {
	const char *title, *key;
};

enum { VERBS_COLUMNS = 8 };

/* At most VERBS_COLUMNS columns, then one without a title. is_paged: the route has a limit. */
int verbs_list(struct cli *cli, const char *collection, bool is_paged,
               const struct verbs_column *columns) NODISCARD;
/* print has to ask for the output as JSON itself. */
int verbs_show(struct cli *cli, const char *collection,
               void (*print)(const struct cli *cli, const json_t *item)) NODISCARD;
/* A status of 300 or more is the failure `refused`. */
int verbs_test(struct cli *cli, const char *collection, const char *refused) NODISCARD;
