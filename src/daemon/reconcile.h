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
