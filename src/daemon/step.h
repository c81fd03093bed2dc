/*
 * What the steps of a sandbox's way have in common: the next state, its row, the broker's part. For
 * lifecycle.c and ending.c only; sandbox_apply is called here and nowhere else.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "daemon/fleet.h"
#include "model/event.h"
#include "runtime/runtime.h"
#include "store/store.h"

/* The daemon ends while somebody was asked: whoever waits is told, the caller's reference is gone,
 * and the row stays as it is on disk, because what came of it shows at the next start. */
bool step_is_cut_off(struct member *member, const struct err *err);
/* Moves the row on, or says why not. */
int step_apply(struct member *member, enum sandbox_event event, struct err *err) NODISCARD;
/* With its event; on_done gets the member and a reference to it. */
void step_store(struct member *member, enum event_kind kind, store_on_done on_done);
/* Adds what step_store stores to a write of somebody else's. */
void step_put(struct member *member, enum event_kind kind, struct store_write *write);
/* As step_store, for what nobody waits for (fleet_submit_soon). */
void step_store_soon(struct member *member, enum event_kind kind, store_on_done on_done);
/* As step_store. The member is busy until step_answered. */
void step_reap(struct member *member, bool keep_files, runtime_on_reaped on_reaped);
/* The first thing in every answer of the broker. */
void step_answered(struct member *member, enum metrics_span span, const struct err *err);
