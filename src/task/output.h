/*
 * The result of a run whose task has an outputSchema: a JSON text that was given (PUT
 * /tasks/{task}/output), or that the agent left in the file named by CLOCHE_OUTPUT. It is read when
 * the agent is over, while its sandbox is still there, and must fit the schema. Private to
 * src/task, but for output_check.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"

struct job;

#define OUTPUT_VARIABLE "CLOCHE_OUTPUT"
enum { OUTPUT_BYTES = 1024 * 1024 };

/* ERR_INVALID with what does not fit and where; schema NULL: everything does. */
int output_check(const json_t *schema, const char *text, size_t len, struct err *err) NODISCARD;

/* Where the agent of this run leaves its result; the caller frees. */
char *output_path(const struct job *job) NODISCARD;
/* Part of the step `collect`: on_done is called once, at once or later, unless the step is given
 * up. */
void output_collect(struct job *job, void (*on_done)(struct job *job));
