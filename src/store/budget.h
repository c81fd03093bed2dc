/* Budgets in the store. Part of store.h: the same rules for writes and reads. */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/budget.h"
#include "store/store.h"

/* Inserts, or replaces amount, period and action of the one that is there for the same subject. */
void store_put_budget(struct store_write *write, const struct budget *budget);
/* ERR_NOT_FOUND. */
void store_delete_budget(struct store_write *write, enum budget_kind kind, const char *subject,
                         const char *team);
/* What everybody was told, in the period that began then. */
void store_tell_budget(struct store_write *write, const char *id, enum budget_told told,
                       uint64_t since_ms);

/* What models cost that no run paid for, of a team and the credentials (ids with spaces between,
 * oldest first; "": none) it was used with. */
struct model_spend {
	const char *team, *chain;
	uint64_t at_ms;
	uint64_t input_tokens, cached_tokens, output_tokens;
	uint64_t cost;
};
/* Adds it to that of its hour. */
void store_add_model_spend(struct store_write *write, const struct model_spend *spend);

struct budget_list {
	struct budget *items; /* by kind and subject */
	size_t count;
};
/* Of a team; "": of all. */
int store_budget_list(struct store *store, const char *team, struct budget_list *ret,
                      struct err *err) NODISCARD;
void budget_list_done(struct budget_list *list);
/* What runs that are over, and models without a run, cost since then. */
int store_budget_spent(struct store *store, const struct budget *budget, uint64_t since_ms,
                       uint64_t *ret, struct err *err) NODISCARD;
