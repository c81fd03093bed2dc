/*
 * How much output a sandbox keeps: it lies in the state directory, outside the sandbox's own disk.
 * One command keeps its newest 16 MiB (wire/outlog.h), all of them together
 * LIMIT_OUTPUT_TOTAL_BYTES. Beyond that the output of what ended longest ago goes first, down to
 * its exit record; then commands that run lose their oldest. Readers are shown the gap.
 */
#include <fcntl.h>
#include <stdio.h>

#include "base/io.h"
#include "keeper/state.h"
#include "os/path.h"

enum {
	STRIPPED_BYTES = 4096,        /* no log that was stripped is larger */
	READER_MS = 60 * 1000,        /* what ended so lately may still have a reader who lags */
	KEPT_BYTES = 3 * 1024 * 1024, /* what such a reader may need, in whole segments */
};

/* What an ended command keeps at least. */
static uint64_t least(const struct exec *exec)
{
	bool may_have_reader = exec->is_attached && io_real_ms() - exec->ended_ms < READER_MS;
	return may_have_reader ? KEPT_BYTES : STRIPPED_BYTES;
}

/* The list has the newest first. */
static struct exec *find_ended(struct keeper *keeper)
{
	struct exec *oldest = NULL;
	for (struct exec *exec = keeper->execs; exec; exec = exec->next) {
		if (exec->state == EXEC_ENDED && exec->log.stored > least(exec))
			oldest = exec;
	}
	return oldest;
}

static struct exec *find_largest(struct keeper *keeper)
{
	struct exec *largest = NULL;
	for (struct exec *exec = keeper->execs; exec; exec = exec->next) {
		if (exec->state != EXEC_ENDED && exec->log.stored > KEPT_BYTES &&
		    (!largest || exec->log.stored > largest->log.stored))
			largest = exec;
	}
	return largest;
}

void output_exit_text(const struct exec *exec, char *to, size_t size)
{
	(void)snprintf(to, size, "%s=%d reason=%s", exec->exit_signal ? "signal" : "code",
	               exec->exit_signal ? exec->exit_signal : exec->exit_code, exec->reason);
}

static void shrink_ended(struct exec *exec)
{
	char text[OUTPUT_EXIT_TEXT];
	uint64_t most = least(exec);
	auto_close int dir =
		path_open_plain(exec->keeper->launch.out_dir, exec->id, O_RDONLY | O_DIRECTORY, 0);
	output_exit_text(exec, text, sizeof(text));
	if (dir >= 0 && most == STRIPPED_BYTES) {
		outlog_strip(&exec->log, dir, text);
	} else if (dir >= 0) {
		exec->log.dir_fd = dir; /* the log is closed: lent for the moment */
		outlog_trim(&exec->log, most);
		exec->log.dir_fd = -1;
	}
	exec->log.stored = MIN(exec->log.stored, most); /* whatever came of it: not once more */
}

static uint64_t total(const struct keeper *keeper)
{
	uint64_t sum = 0;
	for (const struct exec *exec = keeper->execs; exec; exec = exec->next)
		sum += exec->log.stored;
	return sum;
}

void output_bound(struct keeper *keeper)
{
	while (total(keeper) > LIMIT_OUTPUT_TOTAL_BYTES) {
		struct exec *exec = find_ended(keeper);
		if (exec) {
			shrink_ended(exec);
			continue;
		}
		exec = find_largest(keeper);
		if (!exec)
			return; /* a little for each that runs */
		uint64_t before = exec->log.stored;
		outlog_trim(&exec->log, before - MIN(before, (uint64_t)LIMIT_OUTPUT_SEGMENT_BYTES));
		if (exec->log.stored >= before)
			return; /* its reader needs all of it */
	}
}
