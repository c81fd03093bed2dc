/*
 * What is spent outside every run, by those who spend it, while it is under way or not stored yet.
 * What is stored is summed up with that of runs (task/account.h). Private to src/task.
 */
#pragma once

#include "base/base.h"
#include "model/strings.h"

struct tasks;

struct outside {
	struct outside *next;
	char *team, *chain;
	struct strings credentials; /* of the chain */
	uint64_t held;
	uint64_t storing; /* spent, on its way to the store */
	unsigned writes;  /* on that way */
};

/* The store is closed. */
void outside_done(struct tasks *tasks);
