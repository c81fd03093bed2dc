/*
 * Budgets of teams, agents, keys and tasks, against all runs they pay for. Private to src/task.
 *
 * What is over is summed up by the store when budgets are read, and then counted along; what is
 * under way is summed up from jobs. Read again every minute, which also begins a new day or month.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/budget.h"

struct job;
struct outside;
struct tasks;

struct account {
	struct budget budget;
	uint64_t since_ms; /* begin of its period */
	uint64_t settled;  /* by runs that are over */
};

/* Reads them from the store. */
int account_load(struct tasks *tasks, struct err *err) NODISCARD;
void account_done(struct tasks *tasks);
/* Some account pays for it. */
bool account_counts(const struct job *job);
/* The least that is left for it, without what others were promised. *ret_tight is the account. */
uint64_t account_left(const struct job *job, const struct account **ret_tight);
/* Its cost is new: warns, or ends all that an account pays for. */
void account_spent(struct job *job);
/* One that is spent pays for it, and freezes what it pays for. */
bool account_freezes(const struct job *job);
/* It is over. */
void account_settle(const struct job *job);
/* The same for what is spent outside every run; no account: MONEY_UNLIMITED, *ret_tight stays. */
uint64_t account_left_outside(const struct tasks *tasks, const struct outside *outside,
                              const struct account **ret_tight);
void account_settle_outside(struct tasks *tasks, const struct outside *outside, uint64_t cost);
