/*
 * The runner: runs a program of the host for somebody else's reason (a hook), as an unprivileged
 * user and without a shell: words, a closed environment, limits. Blocking; called in a child that
 * exists for this alone.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"

enum { RUNNER_OUTPUT_MAX = 256 * 1024, RUNNER_TIMEOUT_MOST_MS = 10 * 60 * 1000 };

struct runner_spec {
	char *const *argv; /* argv[0] is absolute; ends with NULL */
	bool change_user;  /* to uid and gid; else it stays who we are, without capabilities */
	uid_t uid;
	gid_t gid;
	uint64_t timeout_ms;
	const char *hidden; /* folder that is not there for it, nor any process of others; NULL:
	                       as they are */
	const void *input;  /* on its standard input; NULL: nothing */
	size_t input_len;
	bool splits; /* stderr is kept apart */
};

struct runner_result {
	int exit_code;
	int signal; /* 0: it ended by itself */
	bool timed_out;
	bool is_cut;       /* there was more output than is kept */
	struct buf output; /* stdout and stderr; runner_done */
	struct buf errors; /* stderr, when it is kept apart */
};

/* Everything it started has ended when this returns. ERR_INVALID, ERR_FORBIDDEN (a program others
 * may change), ERR_NOT_FOUND. */
int runner_run(const struct runner_spec *spec, struct runner_result *ret,
               struct err *err) NODISCARD;
void runner_done(struct runner_result *result);
