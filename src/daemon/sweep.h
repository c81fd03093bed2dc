/*
 * Every transitional state has an owner (the member and the answer it waits for), a deadline (here)
 * and a compensation (lifecycle.h). Each answer has a time limit of its own, so what this finds is
 * what fell between two of them: a state beyond its deadline that nothing is under way for, and
 * rows that say something else than what is true because the store could not be written at that
 * moment.
 */
#pragma once

#include "base/base.h"
#include "model/sandbox.h"

struct fleet;

/* Looks around now and then until sweep_stop. */
void sweep_start(struct fleet *fleet);
void sweep_stop(struct fleet *fleet);

/* The transitional states, one after the other; false at the end. */
bool sweep_state(size_t index, enum sandbox_state *ret);
/* How long the oldest in this state is in it; 0: there is none. */
uint64_t sweep_oldest_ms(const struct fleet *fleet, enum sandbox_state state);
/* How many are in one beyond its deadline. */
size_t sweep_stuck(const struct fleet *fleet);
