/*
 * Work that can wait: taking down what nobody waits for and filling the pool take the processors
 * from those who wait for a sandbox. It is done once nobody asked for one for a moment. It never
 * waits for long (CALM_MOST_MS), nor do many wait (`room`): then the oldest goes on, calm or not.
 * Nothing that waits here is known here only: rows say what is to be removed, so that the next
 * daemon does it when this one dies. One thread.
 */
#pragma once

#include "base/base.h"
#include "base/loop.h"

enum { CALM_MS = 25, CALM_MOST_MS = 2000 };

/* Embedded by value, zeroed before; stays where it is until it ran or was taken out. */
struct calm_job {
	struct calm_job *next;
	bool is_waiting;
	uint64_t since_ms;
	void (*run)(struct calm_job *job, void *ctx);
	void *ctx;
};

struct calm {
	struct loop *loop;
	struct loop_timer timer;
	uint64_t asked_ms; /* when somebody last asked; 0: never */
	size_t room;       /* so many may wait */
	size_t count;
	struct calm_job *first;
};

void calm_init(struct calm *calm, struct loop *loop, size_t room);
/* Forgets what waits. */
void calm_done(struct calm *calm);
/* Somebody waits for a sandbox, or for a command in one. */
void calm_disturb(struct calm *calm);
bool calm_is_reached(const struct calm *calm);
/* From the loop as soon as it is calm; does nothing for a job that waits already. */
void calm_wait(struct calm *calm, struct calm_job *job,
               void (*run)(struct calm_job *job, void *ctx), void *ctx);
/* Whether it waited. */
bool calm_forget(struct calm *calm, struct calm_job *job);
/* Does all that waits now. */
void calm_flush(struct calm *calm);
