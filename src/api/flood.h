/*
 * Keeps a flood of equal rows out of the audit without losing their number: of one kind the first
 * few in a window are recorded one by one, the rest are counted, and the count is one row when the
 * window ends. Bounded; the caller brings the clock.
 */
#pragma once

#include "base/base.h"
#include "model/audit.h"

enum { FLOOD_ROWS = 20, FLOOD_MS = 10 * 1000, FLOOD_KINDS = 512 };

struct flood;

struct flood *flood_new(void);
void flood_free(struct flood *flood);
/* Whether the row (of a kind with this name) is to be recorded; if not, it was counted. When there
 * are too many kinds at once, rows that may share one are counted together, whatever their names;
 * all others are recorded one by one. */
bool flood_admit(struct flood *flood, const char *name, const struct audit_row *row, bool may_share,
                 uint64_t now_ms);
/* Calls `each` with a summary of each kind whose window is over (or of all) and of which rows were
 * counted: the first counted one, with their number. */
typedef void (*flood_each)(const struct audit_row *row, void *ctx);
void flood_sweep(struct flood *flood, uint64_t now_ms, bool all, flood_each each, void *ctx);
/* Something waits for a sweep. */
bool flood_has_counted(const struct flood *flood);
