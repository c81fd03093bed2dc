/*
 * The agent of a run that speaks the Agent Client Protocol: reads what it prints, writes what it is
 * told, and keeps what happens as events. Private to src/task; on the loop's thread.
 *
 * After a crash: the keeper keeps the agent and its output. What is needed to go on (how far its
 * output was taken, which answer is awaited, how much it was sent) is committed together with the
 * events that came of it, so none is lost and none comes twice; what we said after the last commit
 * is put together again in the same way and dropped as far as the agent has it.
 *
 * In a session nothing is said that is not committed: what somebody asks for at any moment cannot
 * be put together again.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/task.h"

struct drive;
struct exec;
struct job;
struct store_write;

/* Before the agent is started. */
void drive_begin(struct job *job, const char *cwd);
/* Of an agent that a daemon before this one started: once it is watched. */
void drive_resume(struct job *job, const char *cwd);
void drive_free(struct drive *drive);

/* What the watch of the agent hears. */
void drive_output(struct job *job);
void drive_room(struct job *job);
/* The agent is over: what is left of its output is taken, then the run has its end. */
void drive_over(struct job *job, const struct exec *exec);
/* A commit of the job is done: there is room for more events. */
void drive_committed(struct job *job);
/* Adds where it is to a write of the job. */
void drive_save(struct job *job, struct store_write *write);
/* The turn shall end soon. */
void drive_cancel(struct job *job);
/* Somebody stops the run: its turn is cancelled first, and the agent killed when it does not end
 * it in time. false: there is no turn, it is killed at once. */
bool drive_stop(struct job *job);

/* --- of a session (task/turns.h) --- */
/* There may be something to ask the agent. */
void drive_next(struct job *job);
/* Lets the agent leave, and the run end so. false: there is no agent that could. */
bool drive_leave(struct job *job, enum run_end end, const char *detail) NODISCARD;
/* Whether it can be asked; *agent gets what it calls itself. */
bool drive_is_ready(const struct job *job, char *agent, size_t size);
