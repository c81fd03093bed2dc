/* The inside of struct turns, for turns.c and session.c only. */
#pragma once

#include "base/loop.h"
#include "model/turn.h"
#include "task/turns.h"

struct turn_item {
	struct turn_item *next;
	struct turns *turns;
	struct turn *turn; /* while it runs, `end` is what it was told to end with */
	char *again;       /* what the agent is asked once more; NULL: nothing */
	bool is_stored;
	bool is_dirty; /* has changed since the last commit */
	bool is_sent;  /* is in the commit under way */
	struct session_waiter *waiters;
};

struct turns {
	struct job *job;
	struct turn_item *first; /* open ones, and those whose end is not stored yet; in order */
	uint64_t last;           /* number of the newest one ever */
	uint64_t begun_ms;       /* the one that runs, on the boot clock */
	uint64_t heard_ms;       /* likewise: when its agent last said something */
	struct loop_timer timer; /* of the one that runs */
};

struct turn_item *turns_find(struct turns *turns, const char *id);
/* The agent is told to stop; what comes of the turn is known. */
void turns_ask_stop(struct turns *turns, struct turn_item *item, enum turn_end end);
