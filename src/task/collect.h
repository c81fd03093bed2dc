/* What is left out of the output of a task. */
#pragma once

struct redact;
struct task;

/* Knows the values its caller gave under names of secrets. The caller frees. */
struct redact *collect_redact(const struct task *task);
