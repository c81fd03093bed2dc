/*
 * One run on its way. Private to src/task: job.c is the machine (journal, deadlines, repetitions),
 * steps.c what each step does and undoes, watch.c what happens while the agent works, tasks.c who
 * has jobs.
 *
 * Invariants: a step begins after the commit that says so, but for those that change nothing
 * outside, and for a clean-up that is part of a commit itself: where nothing is kept, the sandbox
 * is given up with the commit of the end, and taken down after it. At most one commit of a job is
 * under way; what is noted meanwhile goes with the next. A run that need not wait for its turn
 * begins with the commit that creates it. Answers that come after their step was given up carry an
 * old serial and are only cleaned up.
 */
#pragma once

#include "api/engine.h"
#include "base/loop.h"
#include "store/task.h"
#include "task/everybody.h"
#include "task/tasks.h"

struct agent;
struct drive;
struct fetch;
struct keeping;
struct redact;
struct turns;

/* A label nobody else may set (api/decode.c): by it a sandbox is found whose id was not noted yet.
 */
#define JOB_LABEL "cloche/run"

/* A sandbox outlives its run's time by this if nobody ends it: then its keeper does. */
enum { JOB_TTL_MARGIN_MS = 10 * 60 * 1000 };

typedef void (*job_then)(struct job *job);

struct job {
	struct tasks *tasks;
	struct job *next, *prev; /* of all there are, or of the queue */
	struct run *run;
	struct task *task;
	json_t *choices;
	struct strings chain; /* credentials above its own, oldest first */
	unsigned depth;       /* runs above it */
	unsigned pending;     /* answers that will come */
	bool is_started;      /* it left the queue */
	uint64_t begun_ms;    /* then, on the boot clock; 0: under a daemon before */
	bool is_over;         /* nothing follows */
	bool is_resumed;      /* more than one sandbox may have been made for it */
	bool has_made;        /* sandboxes besides its own */
	bool may_have_begun;  /* its agent's start was asked for and nobody knows what became of it
	                       */

	/* the journal */
	struct run_progress progress[RUN_STEP_COUNT_];
	struct event *events; /* noted since the last commit */
	size_t event_count;
	size_t sent_count; /* of these, in the commit under way */
	size_t begun_at;   /* among these, behind the one that a step began; 0: it is on its way */
	bool is_committing, has_more;
	bool add_token, revoke_token;
	bool is_last;      /* commit: what is kept goes with it */
	unsigned refusals; /* commits that failed one after another */
	job_then then;     /* after the next commit */
	struct loop_timer commit_retry, commit_soon;
	struct creation *creation; /* tasks.c: the commit under way is that of its creation, too */
	struct store_write *birth; /* what that one has already; NULL: nothing */
	bool gives_up;             /* its sandbox, with its last commit */
	bool is_giving_up;         /* that is in the commit under way */
	bool has_left_it;          /* it ended or was removed meanwhile: what is left of it goes */

	/* the step */
	unsigned serial;
	unsigned attempts;
	unsigned sandboxes;           /* that went before anything ran in them */
	struct loop_timer step_timer; /* its deadline, or the pause before it is repeated */
	struct err err;               /* why the last attempt failed */

	/* steps.c: the sandbox as it was made, for its agent; NULL: it is in the store */
	struct sandbox *made;

	/* resume.c: the sandbox of an earlier run was asked to start and has not answered; the step
	 * with this serial goes on when it does */
	bool is_starting;
	unsigned awaits_start;

	/* sync.c */
	json_t *files; /* what it finds: its agent's, then its inputs; NULL: not put together yet */
	struct sync *sync;

	/* drive.c; NULL: its agent speaks no protocol, or is not there */
	struct drive *drive;

	/* turns.h; NULL: it is no session */
	struct turns *turns;

	/* inside.h: a command of a step's own */
	struct inside *inside;

	/* git.h */
	json_t *git;  /* what is known of its repository; NULL: nothing */
	bool has_git; /* to be stored */

	/* keep.h; NULL: no thread of it runs */
	struct keeping *keeping;

	/* output.h */
	job_then on_output;
	bool has_output;     /* to be stored */
	bool is_output_sent; /* it is in the commit under way */

	/* watch.c */
	struct exec_watch watch;
	struct loop_timer deadline, tick, kill_timer;
	uint64_t deadline_ms; /* on the boot clock */
	uint64_t active_ms;   /* the last sign of life */
	uint64_t cpu_us;      /* used up to then */
	bool is_measuring;

	/* ledger.c */
	uint64_t below; /* what runs below it cost that are over */
	uint64_t held;  /* for calls under way */
	bool has_warned;
	struct loop_timer charged;

	/* freeze.c */
	bool is_frozen, is_freezing; /* it is; somebody was asked to change that */
	uint64_t frozen_ms;          /* since when */
	char *frozen_why;
	struct loop_timer frozen;

	struct tasks_waiter *waiters;
	struct job_stop *stops;
};

/* A question under way: which job, and whether it still wants the answer. */
struct job_call {
	struct job *job;
	unsigned serial;
};

/* --- job.c --- */
struct job *job_new(struct tasks *tasks, struct run *run, struct task *task);
void job_free(struct job *job);
/* Fills job->chain. */
void job_find_chain(struct job *job);
/* From the queue to the first step. */
void job_begin(struct job *job);
/* One that was running when the daemon before ended. */
void job_resume(struct job *job);
/* The step succeeded, or (status "skipped") had nothing to do. */
void job_step_done(struct job *job, const char *status, const char *detail);
/* This attempt failed: it is repeated, or the run ends. */
void job_step_failed(struct job *job, const struct err *err);
/* Something ends the run: the first that does says why. An end by its agent is not the last word
 * until the work is published: until then it can be stopped. */
void job_end(struct job *job, enum run_end end, const char *detail);
/* Whether that would. */
bool job_can_end(const struct job *job, enum run_end end);
/* The agent is over: go on. */
void job_wait_over(struct job *job);
/* Everything noted goes to the store, then `then` is called. */
void job_commit(struct job *job, job_then then);
/* The same in a moment, unless another commit comes before. */
void job_commit_soon(struct job *job);
/* The last step was done: the end is stored, whoever waits is told. */
void job_finish(struct job *job);

/* The sandbox that it works in and that is not its own; NULL: it has one of its own. */
const char *job_guest(const struct job *job);

struct job_call *job_ask(struct job *job);
/* The job if it still wants this answer, else NULL. Frees the call. */
struct job *job_answer(struct job_call *call);
/* As job_answer; *ret_any is the job in any case, to be used at once or not at all. */
struct job *job_answer_any(struct job_call *call, struct job **ret_any);

/* --- notes.c --- */
void job_note(struct job *job, enum event_kind kind, json_t *data);
void job_note_step(struct job *job, enum run_step step, const char *status, const char *detail);

/* --- steps.c --- */
void step_do(struct job *job);
/* Whether it may begin before its journal is on disk: it changes nothing outside. */
bool step_is_harmless(enum run_step step);
/* Its sandbox goes with its last commit: the clean-up needs none of its own. */
bool step_gives_up(const struct job *job);
/* Whatever there still is of its sandbox goes; nobody waits for that. */
void step_remove_left(struct job *job);
/* After a crash: what became of the step that was under way. */
void step_take_up(struct job *job);

/* --- watch.c --- */
void watch_init(struct job *job);
/* The wall clock runs from here on. */
void watch_clock(struct job *job, uint64_t left_ms);
void watch_begin(struct job *job);
/* What it uses is looked at from here on. */
void watch_count(struct job *job);
void watch_end(struct job *job);
void watch_kill(struct job *job);
/* Of the run's sandbox, as it is now; SANDBOX_NONE: there is none. */
enum sandbox_state watch_sandbox_state(const struct job *job);
/* How its agent ended, from its row. */
void watch_take_exec(struct job *job, const struct exec *exec);

/* --- steps.c --- */
/* What works on it. ERR_NOT_FOUND when config.toml has it no longer. */
int step_agent(const struct job *job, struct agent *ret, struct err *err) NODISCARD;

/* --- sync.c --- */
/* Brings the inputs in, one file after another; job_step_done or job_step_failed follow. */
void sync_begin(struct job *job);
void sync_cancel(struct job *job);

/* --- artifacts.c --- */
/* Removes artifacts that are too old, some at a time; true: there are more. */
bool artifacts_sweep(struct tasks *tasks);

/* --- family.c --- */
/* Ends every run below it. */
void family_end(struct job *job);

/* --- token.c --- */
/* Credentials with blanks between; NULL: none. The caller frees. */
char *token_join(const struct strings *chain);
/* Those above it and its own; the caller frees. */
char *token_chain(const struct job *job);
/* Adds the run's credential to the write. */
void token_mint(struct job *job, struct store_write *write);

/* --- tasks.c --- */
struct store *job_store(const struct job *job);
/* Running or queued; NULL: neither. */
struct job *tasks_find_job(const struct tasks *tasks, const char *run);
void tasks_job_over(struct job *job);
/* Its agent began: whoever waits for its output is told. */
void tasks_job_speaks(struct job *job);
/* What became of the commit that has its creation. False: there is no such job any more. */
bool tasks_born(struct job *job, const struct store_result *result);
/* Begins those of the queue for whom there is room. */
void tasks_serve(struct tasks *tasks);
/* Answers once what is noted of the run is stored. ERR_NOT_FOUND. */
void tasks_say(struct tasks *tasks, const char *run, tasks_on_done on_done, void *ctx);
