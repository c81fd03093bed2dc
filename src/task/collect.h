/* What is left out of the output of a task. */
#pragma once

#include <jansson.h>

#include "base/base.h"

struct redact;
struct task;
struct tasks;

/* Whether what its agent prints is a talk with us (acp/transcript.h), not output for people. */
bool collect_is_talk(const struct tasks *tasks, const struct task *task);
/* Knows the values its caller gave under names of secrets, and those of its environment's
 * variables. The caller frees. */
struct redact *collect_redact(const struct tasks *tasks, const struct task *task);
/* The same texts without them, wherever they are in a document: changes it. */
void collect_clean(struct redact *redact, json_t *document);
/* Takes them out of a text about a run of the task; *text may be NULL. */
void collect_clean_text(const struct tasks *tasks, const struct task *task, char **text);
