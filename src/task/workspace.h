/*
 * Skills of the work itself: folders with a SKILL.md that the repository or the inputs
 * brought. They are read out as data before the agent starts, looked at as every skill is,
 * and shown where agents look, beside those that the task names. One that is wrong is told in an
 * event and ends nothing. Private to src/task.
 */
#pragma once

#include "base/base.h"

struct job;

/* Whether there will be files that were not made by the agent. */
bool workspace_is_there(const struct job *job);
/* The end of step `sync`, with this status; job_step_done follows. */
void workspace_begin(struct job *job, const char *status);
