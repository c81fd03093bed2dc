/*
 * Money and tokens of runs that are under way: what may be spent, and what was. For whoever calls
 * something that costs on behalf of a run (the model gateway); the sandbox of a run is counted by
 * src/task itself. Lives in cloched, on the loop's thread; nothing here blocks.
 *
 * An amount is in millionths of a dollar (model/money.h). It counts for the run, for every run
 * above it, and for the budgets of its task, agent, key and team; all of them must have it left.
 *
 *	charge_hold(tasks, run, estimate, err)   before the call; refused: do not call
 *	charge_add(tasks, run, &charge)          after it, with .held = estimate; also when it
 *failed
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct tasks;

/* Who pays for a call outside every run: the budgets of the team and of these credentials. */
struct charge_payer {
	const char *team;  /* id */
	const char *chain; /* ids with spaces between, oldest first; "": none */
};

struct charge {
	uint64_t input_tokens, output_tokens;
	uint64_t cached_tokens; /* of the input: read from the model's cache */
	uint64_t cost;
	uint64_t held; /* what charge_hold kept back for it; 0: nothing */
};

/* What the run may still spend, without what is held; UINT64_MAX: no limit. 0 for a run that is not
 * under way. */
uint64_t charge_left(const struct tasks *tasks, const char *run);
/* Keeps that much back, until charge_add returns it. ERR_NOT_FOUND: no such run is under way.
 * ERR_BUDGET says which account has less left, and how much. */
int charge_hold(struct tasks *tasks, const char *run, uint64_t amount, struct err *err) NODISCARD;
/* Spent is spent, also above a budget: it is counted at once and goes to the store with the commit
 * this begins. A budget that it uses up ends all it pays for, from the next turn of the loop on.
 * Nothing happens for a run that is over. */
void charge_add(struct tasks *tasks, const char *run, const struct charge *charge);

/* The same for calls outside every run. */
uint64_t charge_outside_left(const struct tasks *tasks, const struct charge_payer *payer);
int charge_outside_hold(struct tasks *tasks, const struct charge_payer *payer, uint64_t amount,
                        struct err *err) NODISCARD;
void charge_outside_add(struct tasks *tasks, const struct charge_payer *payer,
                        const struct charge *charge);
