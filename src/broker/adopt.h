/* After a restart: which sandboxes run, which id ranges they have, what nobody owns any more. */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/site.h"
#include "broker/slot.h"

struct adopted {
	size_t alive;
	size_t dead; /* the daemon will record it */
};

/* Claims the slots of all sandboxes, living or not yet reaped; takes away what has no owner:
 * directories without meta, processes of deleted state directories, all of a dead keeper's but
 * the files. */
int adopt_run(const struct site *site, struct slots *slots, struct adopted *ret,
              struct err *err) NODISCARD;
