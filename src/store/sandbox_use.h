/*
 * What sandboxes use that are not those of runs, and what that costs, by days (of UTC). Part of
 * store.h: the same rules for writes and reads.
 *
 * One that runs has rows of its own, each with all of one day; one that ended is part of sums. A
 * write about one whose row does not say that it runs changes nothing: so it may be repeated, and
 * what comes late is not counted twice.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/access.h"
#include "model/sandbox.h"
#include "store/store.h"

struct sandbox_use {
	const char *sandbox;
	const char *team, *owner; /* ids */
	const char *chain;        /* credentials it was made on, blanks between; "": none */
	const char *maker;        /* the last of these */
	enum visibility visibility;
	uint64_t day_ms;
	bool is_first; /* the day it started */
	uint64_t cost;
	struct meters used; /* only what adds up counts */
};

/* Replaces that of the same sandbox and day. */
void store_put_sandbox_use(struct store_write *write, const struct sandbox_use *use);
/* It ends, before the write says so: what was put is added to the sums. */
void store_settle_sandbox_use(struct store_write *write, const char *sandbox);
/* The same for one of which nothing was put yet: this is all. */
void store_add_sandbox_spend(struct store_write *write, const struct sandbox_use *use);
/* It ends, and has cost that: on the accounts of its maker and of all above it. */
void store_charge_sandbox(struct store_write *write, const char *sandbox, const char *maker,
                          uint64_t cost);

struct sandbox_use_list {
	struct sandbox_use *items; /* day, cost and what was used; by day */
	size_t count;
};
int store_sandbox_use_list(struct store *store, const char *sandbox, struct sandbox_use_list *ret,
                           struct err *err) NODISCARD;
void sandbox_use_list_done(struct sandbox_use_list *list);
