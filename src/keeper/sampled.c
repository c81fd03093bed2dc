/*
 * The disk backend without a limit in the kernel: the daemon has the files counted about once a
 * second (a jailed worker does it, this process may not look into them) and tells the result here.
 * Nothing can make a write fail then, so a sandbox that is over its limit loses its commands: they
 * are frozen together and killed with the reason "disk".
 *
 * Afterwards it must be possible to make room, with a command that runs inside like any other. So a
 * sandbox over its limit may run commands as long as it does not grow: what it has, and a little
 * for the whiteouts and directories that removing files makes, becomes what it may have, and that
 * only ever shrinks, down to the limit, until the next kill.
 */
#include <stdio.h>

#include "base/mem.h"
#include "keeper/state.h"

enum {
	SLACK_BYTES = 1 << 20,
	SLACK_INODES = 256,
	FAILURES = 3, /* in a row; one may be bad luck: the tree changes while it is counted */
};

static void end_commands(struct keeper *keeper, const char *detail)
{
	keeper_tell_limit(keeper, "disk", detail);
	exec_kill_all(keeper, "disk");
}

/* Whoever can make counting fail could hide any amount that way. */
static void take_failure(struct keeper *keeper)
{
	if (++keeper->sampled.failures < FAILURES)
		return;
	keeper->sampled.failures = 0;
	end_commands(keeper, "the files cannot be measured: every command was ended");
}

static void judge(struct keeper *keeper, const struct disk_usage *used)
{
	struct sampled *sampled = &keeper->sampled;
	const struct disk_spec *limit = &keeper->slot.disk;
	uint64_t bytes = MAX(sampled->bytes, limit->bytes);
	uint64_t inodes = MAX(sampled->inodes, limit->inodes);
	bool has_grown = used->bytes > bytes || used->inodes > inodes;

	sampled->bytes = used->bytes + SLACK_BYTES;
	sampled->inodes = used->inodes + SLACK_INODES;
	if (!has_grown) {
		sampled->bytes = MIN(sampled->bytes, bytes);
		sampled->inodes = MIN(sampled->inodes, inodes);
		return;
	}
	auto_free char *detail = mem_printf(
		"%llu bytes of %llu, %llu files of %llu: every command was ended; remove files",
		(unsigned long long)used->bytes, (unsigned long long)limit->bytes,
		(unsigned long long)used->inodes, (unsigned long long)limit->inodes);
	end_commands(keeper, detail);
}

void sampled_take(struct keeper *keeper, const struct wire_msg *msg)
{
	const struct disk_spec *limit = &keeper->slot.disk;
	if (limit->backend != DISK_SAMPLED || keeper->end_reason)
		return;
	if (!wire_has(msg, FIELD_BYTES_COUNT)) {
		take_failure(keeper);
		return;
	}
	struct disk_usage used = {.bytes = wire_u64(msg, FIELD_BYTES_COUNT, 0),
	                          .inodes = wire_u64(msg, FIELD_ENTRIES, 0)};
	used.is_full = used.bytes > limit->bytes || used.inodes > limit->inodes;
	keeper->sampled.failures = 0;
	keeper->meter.disk = used;
	judge(keeper, &used);
}
