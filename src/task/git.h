/*
 * The repository of a run: clone.c brings it in before anything else, publish.c pushes what came of
 * it and sees to the pull request. Git runs inside, as the sandbox's user, through
 * http://git.cloche.internal; what it prints is foreign text. Private to src/task.
 *
 * What is needed to go on after a crash (where the branch began, its base, the pull request) is in
 * job->git, which is committed with the journal.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"

struct inside_end;
struct job;
struct sandbox;
struct store_write;

/* What was asked for; NULL: the task has no repository. */
const json_t *git_choices(const struct job *job);
/* A text of that; NULL: none. */
const char *git_text(const struct job *job, const char *name);
/* Whether its branch is to be pushed and a pull request opened. */
bool git_publishes(const struct job *job);
/* Where its agent starts; the caller frees. */
char *git_cwd(const struct job *job, const struct sandbox *sandbox) NODISCARD;
/* The environment of git inside: the sandbox's, and nobody is asked for a password. */
void git_env(const struct sandbox *sandbox, struct strings *env);
/* Notes a fact; takes the value. It is stored with the next commit. */
void git_note(struct job *job, const char *name, json_t *value);
const char *git_noted(const struct job *job, const char *name);
/* Adds what was noted to a write of the job. */
void git_save(struct job *job, struct store_write *write);
/* Of a run that a daemon before this one began. */
void git_load(struct job *job);
/* The value of "name=" among the lines that a script of ours printed; the caller frees. NULL: it
 * is not there. */
char *git_line(const struct inside_end *end, const char *name) NODISCARD;
/* What git said, without secrets, as the error of a step. */
void git_complain(struct job *job, const char *what, const struct inside_end *end, struct err *err);

/* Steps; job_step_done or job_step_failed follow. */
void clone_begin(struct job *job);
void publish_begin(struct job *job);
/* Publishing is given up where it is: what is known of it is noted. */
void publish_stop(struct job *job);
