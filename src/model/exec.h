/*
 * One command in a sandbox: what was asked and how it ended. Output is not here: it lives in the
 * sandbox's files (wire/outlog). Environment values are not here either: they may be secrets.
 */
#pragma once

#include "base/base.h"
#include "base/id.h"
#include "model/strings.h"

struct exec {
	struct id id;
	struct id sandbox;
	struct strings argv;
	char *user;
	char *cwd;
	bool tty;
	bool background;
	uint64_t started_ms; /* CLOCK_REALTIME */
	uint64_t ended_ms;   /* 0: it runs */
	int exit_code;       /* valid when ended and signal is 0 */
	int signal;          /* 0: it exited by itself */
	char *reason;        /* "exited", "signal", "timeout", "oom", …; NULL while it runs */
	uint64_t output_bytes;
};

/* A new id; nothing else set. */
struct exec *exec_new(const struct id *sandbox);
struct exec *exec_copy(const struct exec *exec);
void exec_free(struct exec *exec);
void exec_freep(struct exec **exec);
/* What a shell would report: the code, 128 + signal, 124 for a timeout. */
int exec_status(const struct exec *exec);
