/*
 * One call to a server outside of which the status alone matters: for `cloche service test` and
 * `cloche provider test`. Lives in the daemon, on the loop's thread.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct loop;
struct upstream_call;
struct upstreams;

/* status 0: err says why there is none. */
typedef void (*trial_on_end)(int status, const struct err *err, void *ctx);

/* on_end is called once, never before these return. The call has no body. */
void trial_start(struct upstreams *upstreams, const struct upstream_call *call, trial_on_end on_end,
                 void *ctx);
/* For one that cannot be started. */
void trial_fail(struct loop *loop, const struct err *err, trial_on_end on_end, void *ctx);
