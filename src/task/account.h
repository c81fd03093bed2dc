/*
 * Budgets of teams, agents, keys and tasks, against all runs and sandboxes they pay for. Private to
 * src/task.
 *
 * What is over is summed up by the store when budgets are read, and then counted along; what is
 * under way is summed up from jobs and tenants. Read again every minute, which also begins a new
 * day or month.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/budget.h"

struct job;
struct outside;
struct tasks;
struct tenant;

struct account {
	struct budget budget;
	uint64_t since_ms; /* begin of its period */
	uint64_t settled;  /* by runs and sandboxes that are over */
	uint64_t pace_ms;  /* account_pace */
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

/* The same for sandboxes of no run. */
bool account_freezes_tenant(const struct tenant *tenant);
/* What some of them cost is new: warns, or ends all that an account pays for. */
void account_look(struct tasks *tasks);
void account_settle_tenant(const struct tenant *tenant);
/* How soon the next look must come, so that nothing is spent for long that is not there: first what
 * each account has left is looked at, then what that means for one sandbox. */
void account_pace(struct tasks *tasks);
uint64_t account_pace_of(const struct tenant *tenant);
