/*
 * What runs cost while they are under way, against what they were granted. Private to src/task.
 *
 * Of a run counts what its sandbox used, what it was charged (task/charge.h), all of that of the
 * runs below it, and what sandboxes used that were made from inside. What ended below is `below` in
 * its job; what is under way is summed up when it is asked for, so nothing is counted twice and
 * nothing can be forgotten.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct job;
struct meters;
struct tasks;
struct tenant;

/* Somebody limits what it costs: it must be measured. */
bool ledger_counts(const struct job *job);
/* What its sandbox used up to now; whatever is used up by that ends. */
void ledger_measured(struct job *job, const struct meters *meters);
/* Its cost is new. */
void ledger_spent(struct job *job);
/* It is over and no job any more: what it cost stays with those above it. */
void ledger_settle(const struct job *job);
/* A run that was under way when the daemon before ended. */
void ledger_take_up(struct job *job);
/* One is the other, or above it. */
bool ledger_is_family(const struct job *at, const struct job *job);
/* What was promised to it and is not spent; 0 when it was promised out of the money of a run above
 * it. */
uint64_t ledger_promised(const struct job *job);
/* What it may still spend or hand on. */
uint64_t ledger_left(const struct job *job);
/* What sandboxes cost that were made from inside of runs is new; or one of them is over. */
void ledger_look(struct tasks *tasks);
void ledger_settle_tenant(const struct tenant *tenant);
