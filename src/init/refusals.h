/*
 * Calls of programs inside that the filter refuses and that are worth telling (os/seccomp.h): ways
 * around the network. Each waits here until the keeper has told it, so that the line in
 * /run/cloche/denials is there when the program sees its refusal. Whoever makes many of them waits
 * for its own: only so many are looked at in a while.
 */
#pragma once

#include "base/base.h"
#include "base/loop.h"

struct wire_msg;

enum { REFUSALS_LISTENERS = 2 };

struct refusals {
	struct loop *loop;
	struct refusals_listener {
		struct refusals *refusals;
		int fd; /* owned; -1: none */
		struct loop_source source;
	} listeners[REFUSALS_LISTENERS];
	struct loop_timer again;
	unsigned asked; /* of the keeper, and not answered */
	unsigned taken; /* since the timer was last at its end */
};

/* Takes the listeners: of init's own filter, which later spawners inherit, and of the first one's.
 * -1: there is none. -errno. */
int refusals_start(struct refusals *refusals, struct loop *loop,
                   const int listeners[REFUSALS_LISTENERS]) NODISCARD;
/* I_REFUSE: it was told. */
void refusals_answer(struct refusals *refusals, const struct wire_msg *msg);
