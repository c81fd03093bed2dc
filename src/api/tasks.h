/*
 * What the handlers of tasks share: a request as a task and a run, and both as JSON.
 */
#pragma once

#include <jansson.h>

#include "api/call.h"
#include "base/base.h"
#include "base/err.h"
#include "model/task.h"

/* TaskRequest for this caller: a task, and the run it starts with. The caller frees both. */
int task_decode(struct call *call, struct task **ret_task, struct run **ret_run,
                struct err *err) NODISCARD;
/* A further run of a task that is there. */
int task_decode_run(struct call *call, const struct task *task, struct run **ret,
                    struct err *err) NODISCARD;
/* For struct tasks_config. */
int task_make_spec(const json_t *wish, const struct config *config, struct spec *ret,
                   struct err *err) NODISCARD;

/* The task with its newest run (NULL: none); whole: with output and steps, which are read. */
json_t *task_encode(struct api *api, const struct task *task, const struct run *run, bool whole);
json_t *task_encode_run(struct api *api, const struct run *run, bool whole);

/* The task of the path, which they may do with what the route says. On failure the call was ended.
 */
int task_of_path(struct call *call, struct task **ret) NODISCARD;
/* A run of it: the query parameter "run" or the path, else the newest. */
int task_run_of(struct call *call, const struct task *task, const char *id, struct run **ret,
                struct err *err) NODISCARD;
