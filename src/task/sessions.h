/*
 * Sessions: tasks whose agent stays for as many turns as somebody has for it. The run of a session
 * is as any other (queue, steps, credential, budget, cleanup); what is different is that its agent
 * waits for turns, which are rows of their own. Lives in cloched, on the loop's thread.
 *
 * A turn is acknowledged when it is stored. From then on it is done once, and has an end that says
 * what came of it, whatever crashes: nothing is said to an agent before what is said is on disk.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/task.h"
#include "model/turn.h"
#include "task/tasks.h"

enum { SESSION_OPEN_MOST = 64 }; /* turns that wait or run, of one session */

/* Like tasks_create, with the turn it begins with (NULL: none). A first turn that does not succeed
 * ends the session. Takes all three. */
void sessions_create(struct tasks *tasks, struct task *task, struct run *run, struct turn *first,
                     tasks_on_done on_done, void *ctx);
/* Adds a turn, which is taken and numbered here; answered once it is stored. ERR_CONFLICT when the
 * session is over or has too many that wait. */
void sessions_add(struct tasks *tasks, const char *run, struct turn *turn, tasks_on_done on_done,
                  void *ctx);
/* An open turn that came as this message; NULL: none. Valid until the loop goes on. */
const struct turn *sessions_message(struct tasks *tasks, const char *run, const char *message);
/* Cancels an open turn; answered when that is under way. ERR_CONFLICT: it is over. */
void sessions_cancel(struct tasks *tasks, const char *run, const char *turn, tasks_on_done on_done,
                     void *ctx);
/* Ends the session; answered once that is stored, also when it was over already. */
void sessions_end(struct tasks *tasks, const char *run, enum run_end end, const char *detail,
                  tasks_on_done on_done, void *ctx);

/* Embedded by value; on_over is called once, after the end of the turn is committed. */
struct session_waiter {
	struct session_waiter *next;
	void (*on_over)(struct session_waiter *waiter, void *ctx);
	void *ctx;
	void *at; /* NULL: it does not wait */
};
/* false: it is over, or there is none. */
bool sessions_wait(struct tasks *tasks, const char *run, const char *turn,
                   struct session_waiter *waiter) NODISCARD;
/* Harmless when it does not wait. */
void sessions_unwait(struct session_waiter *waiter);

/* What its agent does. */
enum session_phase { SESSION_OVER, SESSION_WAITING, SESSION_STARTING, SESSION_IDLE, SESSION_BUSY };
struct session_now {
	enum session_phase phase;
	struct id turn; /* that runs; "": none */
	size_t queued;
	char agent[66]; /* what it calls itself */
};
void sessions_look(struct tasks *tasks, const char *run, struct session_now *ret);
/* The session that works in a sandbox which is not its own. */
bool sessions_in(const struct tasks *tasks, const char *sandbox, struct id *ret) NODISCARD;
