/*
 * The repository of a task, or of a session: what somebody asks for (repository, branch, createPr,
 * pullRequest, commitAs) becomes "git" among the choices, checked, and what the credential of the
 * run may do with it.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"

struct api;
struct call;
struct scopes;
struct task;

/* Takes it from the call's body into choices. before: the choices of a run whose files are gone on
 * with (NULL: none): its repository and branch are the same. ERR_INVALID, ERR_FORBIDDEN. */
int repository_take(struct call *call, const struct task *task, const json_t *before,
                    json_t *choices, struct err *err) NODISCARD;
/* Whether a run of the task with these scopes may do with its repository what was asked for. */
int repository_check_scopes(const struct task *task, const struct scopes *scopes,
                            struct err *err) NODISCARD;
/* Adds what there is to show to a task's or a run's JSON. */
void repository_encode(json_t *object, const struct task *task);
/* null: it has no repository, or is not that far. */
json_t *repository_encode_pull(struct api *api, const char *run);
