/*
 * Every transitional state has an owner (the member and the answer it waits for), a deadline
 * and a compensation: transitions.def is the list. Each answer has a time limit of its own, so what
 * this finds is what fell between two of them: a state beyond its deadline that nothing is under
 * way for, and rows that say something else than what is true because the store could not be
 * written at that moment.
 */
#pragma once

#include "base/base.h"
#include "model/sandbox.h"

struct fleet;

/* Looks around now and then until sweep_stop. */
void sweep_start(struct fleet *fleet);
void sweep_stop(struct fleet *fleet);

struct sweep_transition {
	enum sandbox_state state;
	uint64_t deadline_ms;
	const char *owner, *compensation; /* for people */
};

/* The transitional states (transitions.def), one after the other; NULL at the end. */
const struct sweep_transition *sweep_transition(size_t index);
/* How long the oldest in this state is in it; 0: there is none. */
uint64_t sweep_oldest_ms(const struct fleet *fleet, enum sandbox_state state);
/* How many are in one beyond its deadline. */
size_t sweep_stuck(const struct fleet *fleet);
