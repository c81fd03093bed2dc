/*
 * The start of the daemon: what the store says, what the broker has and which keepers answer are
 * brought together. Sandboxes that run are adopted with their execs; what was begun and not
 * finished is undone or finished; what nobody knows is taken away.
 */
#pragma once

#include "daemon/fleet.h"

/* on_ready is called once every keeper that lives has been heard (or given up); undoing and
 * finishing may still go on. err: the broker or the store does not answer, nothing can be served.
 */
void reconcile_run(struct fleet *fleet, void (*on_ready)(const struct err *err, void *ctx),
                   void *ctx);

/* Later: rows that say something is under way although nobody here is at it (the store could not be
 * written) are finished or undone as at the start. *ret_count: how many there were. */
int reconcile_rows(struct fleet *fleet, size_t *ret_count, struct err *err) NODISCARD;
