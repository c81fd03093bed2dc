/*
 * What the handlers of tasks share: a request as a task and a run, and both as JSON.
 */
#pragma once

#include <jansson.h>

#include "api/call.h"
#include "base/base.h"
#include "base/err.h"
#include "model/task.h"
#include "store/resume.h"

/* TaskRequest for this caller: a task, and the run it starts with. The caller frees both. */
int task_decode(struct call *call, struct task **ret_task, struct run **ret_run,
                struct err *err) NODISCARD;
/* A further run of a task that is there. */
int task_decode_run(struct call *call, const struct task *task, struct run **ret,
                    struct err *err) NODISCARD;
/* What the agent's manifest (a path; NULL: it has none) makes of the body: words, runtime. */
int task_apply_manifest(struct call *call, const char *path, struct err *err) NODISCARD;
/* What the run's credential may do, from the task's choices: at most what the caller may. */
int task_take_rights(struct call *call, const struct task *task, struct run *run,
                     struct err *err) NODISCARD;
/* What the body's resumeFrom (a run, or a task: its newest) names, if they may and it can be; all
 * stays empty when it names nothing. */
int task_find_resume(struct call *call, struct task **ret_task, struct resume *ret,
                     struct err *err) NODISCARD;
/* Lets the run go on with that. */
void task_resume(struct run *run, const struct resume *resume);
/* For struct tasks_config. */
int task_make_spec(const json_t *wish, const struct config *config, struct spec *ret,
                   struct err *err) NODISCARD;

/* The end of each stream of a run's output. */
struct task_ends;
/* They are valid during the call. */
typedef void (*task_on_ends)(const struct task_ends *ends, void *ctx);
/* Reads them: at once when they are short, else in a thread. run may be NULL. */
void task_read_ends(struct api *api, const struct run *run, task_on_ends on_ends, void *ctx);
/* The task with its newest run (NULL: none); ends not NULL: whole, with output and steps. */
json_t *task_encode(struct api *api, const struct task *task, const struct run *run,
                    const struct task_ends *ends);
json_t *task_encode_run(struct api *api, const struct run *run, const struct task_ends *ends);

/* What is kept of its files; null: nothing. */
json_t *task_encode_resume(struct api *api, const struct run *run);

/* Whose it is, for authz.h. */
struct ownership task_ownership(const struct call *call, const struct task *task);
/* The task of the path, which they may do with what the route says. On failure the call was ended.
 */
int task_of_path(struct call *call, struct task **ret) NODISCARD;
/* A run of it: the query parameter "run" or the path, else the newest. */
int task_run_of(struct call *call, const struct task *task, const char *id, struct run **ret,
                struct err *err) NODISCARD;
