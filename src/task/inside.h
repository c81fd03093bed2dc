/*
 * A command of the engine's own inside the sandbox of a run, as part of a step: it has no row and
 * no event, runs as the sandbox's user, and what it wrote is handed over when it is over. One at a
 * time for each job; whoever leaves the step ends it. Private to src/task.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/strings.h"

struct exec;
struct job;

struct inside_command {
	const struct strings *argv;
	const struct strings *env; /* NULL: the sandbox's */
	const char *cwd;           /* NULL: the sandbox's */
	uint64_t timeout_ms;       /* 0: the step's deadline alone */
	size_t most;               /* bytes of each stream that are kept: the first */
};

struct inside_end {
	const struct exec *exec; /* how it ended; NULL: err says why it did not begin */
	const struct err *err;
	const struct buf *out, *errors;
	bool is_cut; /* there was more */
};

/* on_end is called once, never before this returns, unless the step is left. */
typedef void (*inside_on_end)(struct job *job, const struct inside_end *end);
int inside_run(struct job *job, const struct inside_command *command, inside_on_end on_end,
               struct err *err) NODISCARD;
/* Harmless when there is none. */
void inside_cancel(struct job *job);
/* What a command that failed said, or how it ended, as one line. */
void inside_complaint(const struct inside_end *end, char *out, size_t size);
