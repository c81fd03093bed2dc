/*
 * What the tasks zygote's children do: everything that takes long or touches many files, off the
 * broker's loop. A task gets the daemon's (already checked) message with the answer socket as fd 0
 * and sends exactly one OK or ERROR there.
 */
#pragma once

#include "base/base.h"
#include "broker/site.h"
#include "wire/wire.h"

enum {
	TASK_FD_RESULT,
	TASK_FD_FIRST, /* the message's own */
};

/* In the zygote: what is the same for all. */
void tasks_warm(void);
/* A zygote_fn; ctx is the struct site. */
int tasks_run(struct wire_msg *msg, void *ctx);
