/* What is left out of the output of a task. */
#pragma once

#include "base/base.h"

struct redact;
struct task;
struct tasks;

/* Whether what its agent prints is a talk with us (acp/transcript.h), not output for people. */
bool collect_is_talk(const struct tasks *tasks, const struct task *task);
/* Knows the values its caller gave under names of secrets, and those of its environment's
 * variables. The caller frees. */
struct redact *collect_redact(const struct tasks *tasks, const struct task *task);
