/* What is left out of the output of a task. */
#pragma once

struct redact;
struct task;
struct tasks;

/* Knows the values its caller gave under names of secrets, and those of its environment's
 * variables. The caller frees. */
struct redact *collect_redact(const struct tasks *tasks, const struct task *task);
