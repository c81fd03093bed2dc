#include "daemon/orphan.h"

#include "base/io.h"
#include "base/log.h"
#include "daemon/fleet.h"
#include "daemon/lifecycle.h"
#include "daemon/live.h"

/* Time for a client to come back to the next daemon, and to read how its command ended. */
enum { QUIET_MS = 60 * 1000 };

static void on_removed(const struct err *err, void *ctx)
{
	if (err->code != ERR_OK)
		log_warn("a sandbox nobody came back for stays; trying again", LOG_ERR(err));
}

static bool is_quiet(const struct member *member)
{
	return member->row->state == SANDBOX_RUNNING && !member->shelf && !member->start_waiters &&
	       spec_is_for_one_command(&member->row->spec) && live_count(member) == 0;
}

void orphan_sweep(struct fleet *fleet)
{
	uint64_t now = io_boot_ms();
	uint64_t most = fleet->deadline_ms ? fleet->deadline_ms : (uint64_t)QUIET_MS;
	struct member *next;

	for (struct member *member = fleet->members; member; member = next) {
		member_ref(member);
		if (!is_quiet(member)) {
			member->quiet_since_ms = 0;
		} else if (member->quiet_since_ms == 0) {
			member->quiet_since_ms = now;
		} else if (now - member->quiet_since_ms > most) {
			log_info("nobody came back for a sandbox: it goes",
			         LOG_STR("sandbox", member->row->id.text));
			lifecycle_remove(fleet, member->row->id.text,
			                 ENGINE_REMOVE_FORCE | ENGINE_REMOVE_DETACH, on_removed,
			                 NULL);
		}
		next = member->next;
		member_unref(member);
	}
}
