/* One command line run by /bin/sh for a model: output gathered, bounded in bytes and time. */
#pragma once

#include "base/base.h"
#include "base/buf.h"

struct command {
	const char *line, *cwd;
	uint64_t timeout_ms;
	bool (*is_cancelled)(void *ctx);
	void *ctx;
	int watch_fd; /* see tools.h */
};

/* Appends output and status. <0: another status than 0, or it did not run to its end. What it left
 * running in the background stays; a command that is ended is ended with its process group. */
int command_run(const struct command *command, struct buf *answer);
