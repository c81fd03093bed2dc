/*
 * The open turns of a session, inside its job: which one the agent has, which wait, what follows
 * from an answer. Private to src/task. drive.c asks for the next prompt and tells how it ended;
 * job.c stores the rows in the same commit as where the talk is.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "task/sessions.h"

struct acp_stop;
struct job;
struct store_write;
struct turns;

bool turns_is_session(const struct job *job);
struct turns *turns_new(struct job *job);
/* Of a session that a daemon before this one had. */
int turns_load(struct turns *turns, struct err *err) NODISCARD;
void turns_free(struct turns *turns);
/* Takes the turn; it is about to be stored by somebody else. */
void turns_arrive(struct turns *turns, struct turn *turn);
/* It was stored, or (false) never will be. */
void turns_stored(struct turns *turns, const char *id, bool is_stored);

/* One that the agent does not have yet is not wanted any more. */
void turns_drop(struct turns *turns, const char *id);
/* The event of a turn that comes; part of the write that stores it. */
void turns_note_queued(struct store_write *write, const struct turn *turn);

/* What the agent shall be asked now, as content of the protocol; NULL: nothing. */
json_t *turns_next(struct turns *turns);
/* The agent answered what it was asked; the text is free of secrets. */
void turns_stopped(struct turns *turns, const struct acp_stop *stop, const char *text, size_t len);
/* It did something. */
void turns_heard(struct turns *turns);
/* Whether one is with the agent. */
bool turns_is_busy(const struct turns *turns);
/* The talk was taken up: the turn that runs has the time it had. */
void turns_take_up(struct turns *turns);
/* The run has an end: so has every turn. */
void turns_close(struct turns *turns);

/* With each commit of the job, and after it. */
void turns_save(struct turns *turns, struct store_write *write);
void turns_committed(struct turns *turns, bool is_ok);
/* Nobody is told anything any more. */
void turns_shut(struct turns *turns);
