/*
 * The terminal, or a pipe, attached to a command in a sandbox: the WebSocket of
 * /execs/{id}/attach on one side, stdin, stdout, stderr and signals on the other. One poll loop,
 * bounded buffers both ways, nothing is dropped. When the daemon restarts, the session goes on
 * from the byte it had reached.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/term.h"

struct attach_spec {
	/* Not NULL: the command is to be started. An ExecRequest, or without a sandbox a
	 * RunRequest: then that is made by the daemon, too. */
	const char *ask;
	const char *sandbox; /* id or name */
	const char *exec;
	bool tty;       /* raw mode, resizes; else signals are forwarded */
	bool input;     /* stdin is streamed */
	bool read_only; /* looks, and leaves typing to others */
	uint64_t offset;
	struct term_keys detach; /* count 0: cannot be left */
};

struct attach_result {
	bool detached;   /* by key: the command goes on */
	int interrupted; /* the signal that ended the session before the command ended; 0: none */
	int exit_code;
	int signal; /* 0: it exited by itself */
	char reason[32];
	/* Of what was asked for: what was made ("" when it came to nothing), and whether the
	 * sandbox is ours to remove because the daemon that would have done it is gone. The caller
	 * frees limits. */
	char sandbox[LIMIT_ID_LEN + 1];
	char exec[LIMIT_ID_LEN + 1];
	bool is_ours;
	json_t *limits;
};

/* Blocks the signals a session handles and ignores SIGPIPE, from now on. A signal that arrives
 * before attach_run is handled there. */
void attach_block_signals(void);
/* One of those signals that is pending (and is taken), or 0. */
int attach_pending_signal(void);
/* As attach_block_signals; from now on they also end any wait of cli->http, with err.sys
 * ECANCELED. */
int attach_guard(struct cli *cli) NODISCARD;
int attach_run(struct cli *cli, const struct attach_spec *spec,
               struct attach_result *ret) NODISCARD;
/* What a shell would report: the code, 128 + signal, 124 for a timeout. */
int attach_status(const struct attach_result *result);
