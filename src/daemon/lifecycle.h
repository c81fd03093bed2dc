/*
 * How sandboxes change state: each change is stored before it is acted upon, and whoever asked is
 * answered after the last commit.
 *
 *	create: row creating -> launch -> keeper connected -> row running
 *	start:  row creating -> the same way, with the files there are
 *	stop:   row stopping -> K_STOP -> keeper gone -> reap, files kept -> row stopped
 *	remove: row removing -> reap, files too -> row gone
 *	the keeper goes by itself (ttl, crash): reap, files kept -> row stopped or failed
 *
 * A failure on the way undoes what was made and ends in failed with its detail. What the broker
 * cannot take down is asked for again until it can (leftover.h; a removal repeats itself), and what
 * falls between two steps is found by sweep.h.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/err.h"
#include "daemon/fleet.h"

void lifecycle_create(struct fleet *fleet, const struct spec *spec, engine_on_sandbox on_sandbox,
                      void *ctx);
void lifecycle_start(struct fleet *fleet, const char *id, engine_on_sandbox on_sandbox, void *ctx);
void lifecycle_stop(struct fleet *fleet, const char *id, uint64_t grace_ms,
                    engine_on_sandbox on_sandbox, void *ctx);
/* As engine_ops.cut. */
void lifecycle_cut(struct fleet *fleet, const char *id, const char *why);
/* As engine_ops.give_up and given_up. */
bool lifecycle_give_up(struct fleet *fleet, const char *id, struct store_write *write);
void lifecycle_given_up(struct fleet *fleet, const char *id, const struct store_result *result);
/* As engine_ops.settle. */
void lifecycle_settle(struct fleet *fleet, engine_on_done on_done, void *ctx);
void lifecycle_remove(struct fleet *fleet, const char *id, unsigned how, engine_on_done on_done,
                      void *ctx);
void lifecycle_change(struct fleet *fleet, const char *id, const struct sandbox_change *wanted,
                      engine_on_sandbox on_sandbox, void *ctx);
/* Its processes stand still (on) until it is thawed or ends; it is an event, with why.
 * ERR_CONFLICT: it does not run. ERR_UNSUPPORTED: its keeper cannot. */
void lifecycle_freeze(struct fleet *fleet, const char *id, bool on, const char *why,
                      engine_on_done on_done, void *ctx);
void lifecycle_meters(struct fleet *fleet, const char *id, engine_on_sandbox on_sandbox, void *ctx);

/* An error before anything was begun, told from the loop as every answer is; one of the two
 * callbacks. */
void lifecycle_refuse(struct fleet *fleet, const struct err *err, engine_on_sandbox on_sandbox,
                      engine_on_done on_done, void *ctx);

/* The connection to the keeper ended: it is gone, or comes back for a moment. */
void lifecycle_keeper_gone(struct member *member);

/* Once the removal is on disk and the broker does nothing else with it; else it does nothing. */
void lifecycle_continue_removal(struct member *member);
/* Beyond its deadline: goes on with it if nothing else does; whether there was something to do. */
bool lifecycle_push(struct member *member);

/* For the start of the daemon, each on a row as the last one left it: */
/* Nobody waits for it any more: undone, then failed. */
void lifecycle_undo_creation(struct member *member);
void lifecycle_repeat_stop(struct member *member);
void lifecycle_repeat_removal(struct member *member);
