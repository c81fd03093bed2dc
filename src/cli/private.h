/*
 * A daemon for one job: when nobody serves, `cloche run` starts `cloche serve` itself and ends it
 * afterwards. Between the two stands a guardian process in a session of its own, which holds a
 * pipe to us: however we end, also by SIGKILL, the guardian sees the pipe close and cleans up.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"
#include "cli/cli.h"

struct private_daemon {
	pid_t guardian; /* 0: none was started */
	int pipe_fd;    /* to the guardian; its end is the order to clean up */
	int log_fd;     /* what the daemon said, for when it fails */
};

void private_init(struct private_daemon *daemon);
/* Starts one on cli->state_dir if the user named it, else on a new temporary directory, which
 * becomes cli->state_dir. Returns when it answers. */
int private_start(struct private_daemon *daemon, struct cli *cli) NODISCARD;
/* Tells the guardian which sandbox goes with us, should we not manage to remove it. */
void private_owns(struct private_daemon *daemon, const char *sandbox);
/* Ends it and waits until everything is gone. Harmless when none was started. */
void private_end(struct private_daemon *daemon);
