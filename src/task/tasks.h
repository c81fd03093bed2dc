/*
 * Runs of tasks: the queue, the engine that takes each run through its steps, and what is left of
 * it. Lives in cloched, on the loop's thread; reaches sandboxes only through struct engine, so a
 * test can fake them.
 *
 * Whatever is acknowledged is committed before. A run that was acknowledged ends, with a reason,
 * whatever crashes: the journal (runs.steps_list) says how far it came, and tasks_start takes it up
 * again.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "model/budget.h"
#include "model/spec.h"
#include "model/task.h"

struct config;
struct engine;
struct loop;
struct store;
struct tasks;
struct tasks_waiter;
struct skill;

/* The sandbox of a run from what was asked for (choices, "sandbox"). */
typedef int (*tasks_make_spec)(const json_t *wish, const struct config *config, struct spec *ret,
                               struct err *err);

/* Appends NAME=value for whatever a sandbox of this gets that must not be shown. The caller wipes
 * them. */
typedef void (*tasks_secrets)(const struct spec *spec, struct strings *ret, void *ctx);

struct tasks_skills {
	const char *team, *run;
	const struct strings *names;
};

struct tasks_config {
	struct loop *loop;
	struct store *store;
	const struct config *config;
	struct engine *engine;
	int sandboxes_fd; /* $STATE/sandboxes; not owned */
	int files_fd;     /* where logs and artifacts are kept; taken */
	tasks_make_spec make_spec;
	tasks_secrets secrets; /* NULL: there are none */
	/* The agent of a run has ended: whoever charges it does so now or never. NULL: nobody. */
	void (*settle)(const char *run, void *ctx);
	/* Adds what shows these skills of the team inside. `run`: in a folder of its own that more
	 * can be added to; NULL: in one that others may have, too. NULL: there are none. */
	int (*show_skills)(const struct tasks_skills *asked, struct spec *spec, void *ctx,
	                   struct err *err);
	/* Shows these in such a folder, instead of those that were shown by this before. */
	int (*fill_skills)(const char *bundle, struct skill *const *list, size_t count, void *ctx,
	                   struct err *err);
	void *ctx;
};

struct tasks *tasks_new(const struct tasks_config *config);
/* Takes up what the daemon before left: once sandboxes are matched, before anybody is served. */
int tasks_start(struct tasks *tasks, struct err *err) NODISCARD;
/* Nothing new is begun and nobody is told anything more; runs stay as they are. */
void tasks_shut(struct tasks *tasks);
/* After the store was closed. Accepts NULL. */
void tasks_free(struct tasks *tasks);

typedef void (*tasks_on_done)(const struct err *err, void *ctx);
/* Stores a new task (NULL: it is there) with a run of it (NULL: none yet), then lets the run queue.
 * Copies nothing and takes both. */
void tasks_create(struct tasks *tasks, struct task *task, struct run *run, tasks_on_done on_done,
                  void *ctx);
/* Ends a run; answered once that is stored, also when it was over already. ERR_NOT_FOUND. */
void tasks_stop(struct tasks *tasks, const char *run, const char *why, tasks_on_done on_done,
                void *ctx);

/* After credentials were revoked: ends the runs that live on them, and all below these. */
void tasks_recheck(struct tasks *tasks);

/* After budgets were changed in the store. */
int tasks_reload_budgets(struct tasks *tasks, struct err *err) NODISCARD;
struct tasks_budget {
	const struct budget *budget;
	uint64_t spent, reserved;
};
/* All there are, as they are now; false after the last. */
bool tasks_budget_at(const struct tasks *tasks, size_t index, struct tasks_budget *ret) NODISCARD;
/* Whether what a new run may cost is left in all budgets that would pay for it. ERR_BUDGET has the
 * numbers. */
int tasks_fits(struct tasks *tasks, struct task *task, struct run *run, struct err *err) NODISCARD;

/* Embedded by value; on_over is called once, after the end of the run is committed, or when the
 * daemon ends. on_output (may be NULL) when its agent began: tasks_output says where. */
struct tasks_waiter {
	struct tasks_waiter *next;
	void (*on_output)(struct tasks_waiter *waiter, void *ctx);
	void (*on_over)(struct tasks_waiter *waiter, void *ctx);
	void *ctx;
	struct job *job; /* NULL: it does not wait */
};
/* false: the run is over, or there is none. */
bool tasks_wait(struct tasks *tasks, const char *run, struct tasks_waiter *waiter) NODISCARD;
/* Harmless when it does not wait. */
void tasks_unwait(struct tasks_waiter *waiter);

/* Where the output of a run is right now. */
struct tasks_place {
	struct id sandbox, exec;
};
/* false: it has none yet, or its log is kept already. */
bool tasks_output(struct tasks *tasks, const char *run, struct tasks_place *ret) NODISCARD;
/* What a run and all below it cost up to now, and what it may still spend (UINT64_MAX: no limit).
 * false: it is not under way. */
bool tasks_money(const struct tasks *tasks, const char *run, uint64_t *ret_total,
                 uint64_t *ret_left) NODISCARD;
/* Since when it stands still for want of money; 0: it does not. */
uint64_t tasks_frozen_ms(const struct tasks *tasks, const char *run);
/* The run that works in a sandbox, as long as it does. */
bool tasks_run_in(const struct tasks *tasks, const char *sandbox, struct id *ret) NODISCARD;
/* The repository of the run in a sandbox, from its clone to its push; where several are at work
 * there, of the one that `target` is for. Texts are valid until the loop goes on. false: there is
 * none. */
struct tasks_git {
	struct id run;
	const char *forge, *path, *branch;
};
bool tasks_git_in(const struct tasks *tasks, const char *sandbox, const char *target,
                  struct tasks_git *ret) NODISCARD;
/* The run makes sandboxes besides its own: they go with it. */
void tasks_note_maker(struct tasks *tasks, const char *run);
int tasks_files_fd(const struct tasks *tasks);
/* Removes what is kept of runs on this image, unless a run goes on with it; done comes once, also
 * when there is nothing. */
void tasks_drop_kept(struct tasks *tasks, const char *image, void (*done)(void *ctx), void *ctx);
/* One of those files; 0 too when it is gone already. */
int tasks_remove_file(struct tasks *tasks, const char *name);

struct tasks_stats {
	size_t queued, running;
	uint64_t started, finished;
};
void tasks_get_stats(const struct tasks *tasks, struct tasks_stats *ret);
