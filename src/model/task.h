/*
 * A task is an instruction for an agent; a run is one durable execution of it, made of steps. Pure:
 * run_apply is the only place that says which state follows which.
 *
 * pending    True: the run is stored, nothing of it exists. It waits for its turn. Allowed: stop.
 *            After a crash: it waits again.
 * running    True: `step` is the one being done; whatever it makes can be found by the run's id.
 *            Allowed: stop. After a crash: the step is taken up again (task/job.c).
 * completed, failed, cancelled
 *            True: `end` says why, its sandbox is given up and its credential revoked. Final.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "model/access.h"
#include "model/sandbox.h"
#include "model/strings.h"

enum run_state {
#define STATE(state, text, ...) RUN_##state,
#include "model/run_states.def"
#undef STATE
	RUN_STATE_COUNT_,
	RUN_NONE = -1 /* an empty cell; never stored */
};

/* The columns of run_states.def, in order. */
#define RUN_EVENTS(EVENT)                                                                          \
	EVENT(START, "start")       /* its turn has come */                                        \
	EVENT(COMPLETE, "complete") /* as run_ends.def says */                                     \
	EVENT(FAIL, "fail")                                                                        \
	EVENT(CANCEL, "cancel")

enum run_event {
#define EVENT(event, text) RUN_EVENT_##event,
	RUN_EVENTS(EVENT)
#undef EVENT
		RUN_EVENT_COUNT_
};

enum run_end {
#define END(id, text, event, about) RUN_END_##id,
#include "model/run_ends.def"
#undef END
	RUN_END_COUNT_,
	RUN_END_NONE = -1 /* nothing ends it yet */
};

enum run_step {
#define STEP(id, text, timeout_ms, attempts, about) RUN_STEP_##id,
#include "model/run_steps.def"
#undef STEP
	RUN_STEP_COUNT_
};

enum {
	TASK_TITLE_BYTES = 255,
	TASK_INSTRUCTION_BYTES = 64 * 1024, /* it travels in an argument list */
	TASK_LOG_INLINE_BYTES = 64 * 1024,  /* a longer log is a file of its own */
	TASK_PRIORITY_MOST = 100,
};

#define TASK_PREFIX         "tsk"
#define TASK_SESSION_PREFIX "ses"

struct task {
	struct id id; /* tsk_…; ses_…: a session, which is a task that goes on for many turns */
	char *title;
	char *instruction;
	char *agent;
	char *origin;  /* which product it comes from; NULL: not said */
	char *choices; /* all else that was asked for: one JSON object (task/choices.h) */
	struct strings labels;
	struct id owner, team;
	enum visibility visibility;
	uint64_t created_ms; /* all times: CLOCK_REALTIME in ms, 0 = not yet */
	uint64_t run_count;
	struct id run; /* the newest; "": none yet */
	char *made_by; /* credentials it was made on, the last one its maker's; NULL: none */
};

struct run {
	struct id id; /* rn_… */
	struct id task;
	struct id team;
	uint64_t number; /* 1, 2, 3 … of its task */
	uint64_t priority;
	enum run_state state;
	enum run_step step; /* while it runs */
	enum run_end end;   /* set as soon as something ends it, before it has ended */
	char *detail;       /* a sentence for people; may be NULL */
	struct id sandbox, exec, token;
	struct id parent;      /* credential its token comes from; "": the socket's */
	struct strings rights; /* what its token may do: lines of model/rights.h */
	uint64_t budget;       /* millionths of a dollar; UINT64_MAX: no limit */
	uint64_t timeout_ms, idle_ms;
	uint64_t created_ms, started_ms, ended_ms;
	bool has_exit;
	int exit_code; /* valid when signal is 0 */
	int signal;
	uint64_t input_tokens, output_tokens, cached_tokens;
	struct meters meters;
	uint64_t charged; /* for calls of models; in millionths of a dollar, as all money */
	uint64_t cost;    /* of its sandbox, and what it was charged */
	char *log;        /* frames of task/log.h in base64; NULL: none, or in a file */
	bool has_log_file;
	char *output;          /* the result, as JSON; NULL: none */
	struct id resume_from; /* the run whose files it goes on with; "": none */
	bool keeps;            /* its sandbox is stopped at the end, not removed */
};

/* One step of a run, as far as it came. */
struct run_progress {
	enum run_step step;
	char *status; /* started, completed, failed, skipped */
	char *detail; /* may be NULL */
	uint64_t attempts;
	uint64_t started_ms, ended_ms;
};

struct task *task_new(void);
/* Of a task or a session. */
bool task_is_id(const char *text);
void task_free(struct task *task);
void task_freep(struct task **task);
struct run *run_new(const struct task *task, uint64_t now_ms);
void run_free(struct run *run);
void run_freep(struct run **run);
void run_progress_done(struct run_progress *progress);

/* The state that follows. ERR_CONFLICT names both. */
int run_apply(enum run_state state, enum run_event event, enum run_state *ret,
              struct err *err) NODISCARD;
bool run_is_over(enum run_state state);

const char *run_state_name(enum run_state state);
/* RUN_NONE for an unknown word. */
enum run_state run_state_from(const char *name);
const char *run_end_name(enum run_end end);
enum run_end run_end_from(const char *name);
/* What a run that ends so becomes. */
enum run_event run_end_event(enum run_end end);
const char *run_step_name(enum run_step step);
bool run_step_from(const char *name, enum run_step *ret) NODISCARD;
uint64_t run_step_timeout(enum run_step step);
unsigned run_step_attempts(enum run_step step);
/* Why a run whose agent ended like that ended: reason is an exec's. */
enum run_end run_end_of_exec(const char *reason, int signal, int exit_code);
