/*
 * A sandbox that runs and is not that of a run: who had it made, and what it used and costs.
 * Private to src/task; tenant.c is what is known of each, meter.c the rhythm, halt.c what happens
 * when the money is gone.
 *
 * Meters of a sandbox count from its start; they only grow. What it cost is kept by days, so a
 * budget of a day or month sees the part that is its own.
 */
#pragma once

#include "base/loop.h"
#include "model/access.h"
#include "model/budget.h"
#include "model/sandbox.h"
#include "model/strings.h"

struct job;
struct store_write;
struct tasks;

struct tenant {
	struct tenant *next, *prev;
	struct tasks *tasks;
	struct id sandbox;
	char *team, *owner, *chain;
	struct strings credentials; /* of the chain; the last one made it */
	enum visibility visibility;

	struct meters total;  /* since its start */
	struct meters before; /* of these, before today */
	uint64_t day_ms;      /* today, as it was when it was last looked at */
	uint64_t first_ms;    /* the day it started */
	uint64_t cost;        /* of today */
	uint64_t past, month; /* of the days before, and of those of this month */
	bool has_rows;        /* in the store */
	bool is_dirty;        /* the store does not know it all */

	bool is_measured, is_measuring;
	bool is_refreshing;   /* somebody waits for that */
	uint64_t measured_ms; /* on the boot clock */

	/* halt.c */
	bool is_frozen, is_freezing;
	char *frozen_why;
	struct loop_timer frozen;

	unsigned pending; /* answers that will come */
	bool is_gone;
};

struct tenant *tenant_new(struct tasks *tasks, const struct sandbox *sandbox);
/* With what a daemon before this one stored. */
int tenant_load(struct tenant *tenant, struct err *err) NODISCARD;
struct tenant *tenant_find(const struct tasks *tasks, const char *sandbox);
/* It is not there any more; freed when the last answer came. */
void tenant_leave(struct tenant *tenant);
/* The store is closed. */
void tenant_done(struct tasks *tasks);
/* Before a question, and first thing in its answer; false: it is gone, and the tenant, too. */
struct tenant *tenant_ask(struct tenant *tenant);
bool tenant_answer(struct tenant *tenant) NODISCARD;

/* What it used up to now; what is less than before is not believed. */
void tenant_take(struct tenant *tenant, const struct meters *meters);
/* What it cost in the period that is now. */
uint64_t tenant_cost(const struct tenant *tenant, enum budget_period period);
/* Today's row. */
void tenant_put(struct tenant *tenant, struct store_write *write);
/* The last word. */
void tenant_put_end(struct tenant *tenant, struct store_write *write);
/* "" for one that nobody's credential made. */
const char *tenant_maker(const struct tenant *tenant);
/* The run it was made from, while that is under way; NULL: none. */
const struct job *tenant_job(const struct tenant *tenant);

/* --- meter.c --- */
struct meter_waiter;
struct rhythm {
	struct loop_timer tick;  /* looks at whose turn it is */
	struct loop_timer check; /* what was measured, against budgets */
	struct loop_timer asked;
	bool is_check_due;
	uint64_t ticked_ms, stored_ms;
	bool is_storing, is_for_waiters; /* a write is under way; it has what these want */
	struct meter_waiter *waiters;
};
/* Budgets are others now, or somebody new is there: looks at it from the next turn of the loop on.
 */
void meter_hurry(struct tasks *tasks);
/* Nothing new is begun; whoever waits is answered. */
void meter_shut(struct tasks *tasks);

/* --- halt.c --- */
void halt_stop(struct tenant *tenant, const char *why);
/* Or stops it, where it cannot be frozen. */
void halt_freeze(struct tenant *tenant, const char *why);
/* After it was measured: it may be frozen by a daemon before, or there is money again. */
void halt_look(struct tenant *tenant);
