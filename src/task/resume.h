/*
 * Going on with the files of a run. What is kept of a run is its sandbox, stopped (or, when its
 * disk is in memory, empty of processes): no copy is made, whatever its size, and the next run
 * starts that sandbox again, with a credential of its own. A record (store/resume.h) says what it
 * is and until when; one that is used belongs to the run that uses it, which leaves a record of its
 * own. Private to src/task, but for the first two.
 */
#pragma once

#include "base/base.h"

struct job;
struct sandbox;
struct store_write;
struct tasks;

/* What the files belong to (runtime, image, disk); the caller frees. */
char *resume_fingerprint(const struct sandbox *sandbox) NODISCARD;
/* Its files live as long as its processes do: it is kept running, not stopped. */
bool resume_is_in_memory(const struct sandbox *sandbox);

/* Whether the run's files will be kept; sandbox as it is at the end, NULL: it is gone. */
void resume_decide(struct job *job, const struct sandbox *sandbox);
/* Step `provision` of a run that goes on with the files of another, from any state. */
void resume_provision(struct job *job);
/* Step `cleanup` of a run whose files are kept. */
void resume_cleanup(struct job *job);
/* Adds the record to the write that ends the run. */
void resume_put(struct job *job, struct store_write *write);

/* Removes what is too old or too much, now and from time to time. */
void resume_sweep(struct tasks *tasks);
void resume_sweep_stop(struct tasks *tasks);
