/*
 * What sandboxes cost that are not those of runs: made by hand, by `cloche run`, or from inside a
 * run. For the fleet, which says when one runs and when it ends, and for the API. Lives in cloched,
 * on the loop's thread; nothing here blocks.
 *
 * Each is looked at now and then; how often, depends on how soon a budget could be spent. What it
 * used goes to the store by days with other commits, and for good with the commit of its end
 * (store/sandbox_use.h): a crash loses nothing, because its keeper counts on, and counts nothing
 * twice. It counts for the budgets of its team and of the keys it was made with, and for the run it
 * was made from. A budget that is spent stops it or lets it stand still, as it says.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct sandbox;
struct spec;
struct store_write;
struct tasks;

/* It runs. Does nothing for one that is known, or that is a run's own. tasks NULL (in all of
 * these): nobody counts. */
void meter_began(struct tasks *tasks, const struct sandbox *sandbox);
/* It ran already under a daemon before this one. */
void meter_adopt(struct tasks *tasks, const struct sandbox *sandbox);
/* It is counted here: its last meters are worth a question. */
bool meter_counts(const struct tasks *tasks, const char *sandbox);
/* Adds what it used, with the meters of its row, to the write that says that it does not run any
 * more; to be called before that is said. */
void meter_put_end(struct tasks *tasks, struct store_write *write, const struct sandbox *sandbox);
/* That write is on disk, or it will never come. */
void meter_ended(struct tasks *tasks, const char *sandbox);
/* Whether one of these may start: ERR_BUDGET names the budget that is spent. */
int meter_fits(struct tasks *tasks, const struct spec *spec, struct err *err) NODISCARD;

typedef void (*meter_on_fresh)(void *ctx);
/* What they used up to now, or a few seconds ago, goes to the store; then it calls back, also when
 * something of it failed. */
void meter_refresh(struct tasks *tasks, meter_on_fresh on_fresh, void *ctx);
