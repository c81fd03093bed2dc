/* The output of a run is kept beside the store before its sandbox goes. */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct job;
struct tasks;

/* err->code is ERR_OK when there is nothing to keep, too. */
typedef void (*keep_on_done)(struct job *job, const struct err *err);

/* Reads what the run said, without secrets, into run->log or a file. Calls on_done at once, or when
 * a thread is done with a long one, unless the step was left by then. */
void keep_log(struct job *job, keep_on_done on_done);
/* Waits for the threads; nobody is told. Before jobs are freed. */
void keep_shut(struct tasks *tasks);
