#include "model/task.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

static const char *const state_names[] = {
#define STATE(state, text, ...) [RUN_##state] = (text),
#include "model/run_states.def"
#undef STATE
};

static const char *const event_names[] = {
#define EVENT(event, text) [RUN_EVENT_##event] = (text),
	RUN_EVENTS(EVENT)
#undef EVENT
};

#define STATE(state, text, start, complete, fail, cancel)                                          \
	[RUN_##state] = {                                                                          \
		[RUN_EVENT_START] = RUN_##start,                                                   \
		[RUN_EVENT_COMPLETE] = RUN_##complete,                                             \
		[RUN_EVENT_FAIL] = RUN_##fail,                                                     \
		[RUN_EVENT_CANCEL] = RUN_##cancel,                                                 \
	},
static const enum run_state next[RUN_STATE_COUNT_][RUN_EVENT_COUNT_] = {
#include "model/run_states.def"
};
#undef STATE

static const struct {
	const char *name;
	enum run_event event;
} ends[] = {
#define END(id, text, event, about) [RUN_END_##id] = {text, RUN_EVENT_##event},
#include "model/run_ends.def"
#undef END
};

static const struct {
	const char *name;
	uint64_t timeout_ms;
	unsigned attempts;
} steps[] = {
#define STEP(id, text, timeout_ms, attempts, about) [RUN_STEP_##id] = {text, timeout_ms, attempts},
#include "model/run_steps.def"
#undef STEP
};

struct task *task_new(void)
{
	struct task *task = mem_new(struct task);

	task->id = id_new(TASK_PREFIX);
	task->visibility = VISIBILITY_TEAM;
	return task;
}

bool task_is_id(const char *text)
{
	return id_is_valid(text, TASK_PREFIX) || id_is_valid(text, TASK_SESSION_PREFIX);
}

void task_free(struct task *task)
{
	if (!task)
		return;
	mem_freep(&task->title);
	mem_freep(&task->instruction);
	mem_freep(&task->agent);
	mem_freep(&task->origin);
	mem_freep(&task->choices);
	mem_freep(&task->made_by);
	strings_done(&task->labels);
	mem_freep(&task);
}

void task_freep(struct task **task)
{
	task_free(*task);
	*task = NULL;
}

struct run *run_new(const struct task *task, uint64_t now_ms)
{
	struct run *run = mem_new(struct run);

	run->id = id_new("rn");
	run->task = task->id;
	run->team = task->team;
	run->number = task->run_count + 1;
	run->end = RUN_END_NONE;
	run->budget = UINT64_MAX;
	run->created_ms = now_ms;
	return run;
}

void run_free(struct run *run)
{
	if (!run)
		return;
	mem_freep(&run->detail);
	strings_done(&run->rights);
	mem_freep(&run->log);
	mem_freep(&run->output);
	mem_freep(&run);
}

void run_freep(struct run **run)
{
	run_free(*run);
	*run = NULL;
}

void run_progress_done(struct run_progress *progress)
{
	mem_freep(&progress->status);
	mem_freep(&progress->detail);
}

int run_apply(enum run_state state, enum run_event event, enum run_state *ret, struct err *err)
{
	must(state >= 0 && state < RUN_STATE_COUNT_ && event < RUN_EVENT_COUNT_);
	if (next[state][event] == RUN_NONE)
		return err_set(err, ERR_CONFLICT, "the run is %s: %s is not possible",
		               state_names[state], event_names[event]);
	*ret = next[state][event];
	return 0;
}

bool run_is_over(enum run_state state)
{
	return state != RUN_PENDING && state != RUN_RUNNING;
}

const char *run_state_name(enum run_state state)
{
	must(state >= 0 && state < RUN_STATE_COUNT_);
	return state_names[state];
}

enum run_state run_state_from(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(state_names); i++) {
		if (str_eq(state_names[i], name))
			return (enum run_state)i;
	}
	return RUN_NONE;
}

const char *run_end_name(enum run_end end)
{
	must(end >= 0 && end < RUN_END_COUNT_);
	return ends[end].name;
}

enum run_end run_end_from(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		if (str_eq(ends[i].name, name))
			return (enum run_end)i;
	}
	return RUN_END_NONE;
}

enum run_event run_end_event(enum run_end end)
{
	must(end >= 0 && end < RUN_END_COUNT_);
	return ends[end].event;
}

const char *run_step_name(enum run_step step)
{
	must(step < RUN_STEP_COUNT_);
	return steps[step].name;
}

bool run_step_from(const char *name, enum run_step *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		if (str_eq(steps[i].name, name)) {
			*ret = (enum run_step)i;
			return true;
		}
	}
	return false;
}

uint64_t run_step_timeout(enum run_step step)
{
	return steps[step].timeout_ms;
}

unsigned run_step_attempts(enum run_step step)
{
	return steps[step].attempts;
}

enum run_end run_end_of_exec(const char *reason, int signal, int exit_code)
{
	static const struct {
		const char *reason;
		enum run_end end;
	} known[] = {
		{"timeout", RUN_END_TIMEOUT},
		{"oom", RUN_END_OOM},
		{"disk", RUN_END_DISK},
		{"lost", RUN_END_SANDBOX_LOST},
		{"stopped", RUN_END_SANDBOX_LOST},
		{"ttl", RUN_END_TIMEOUT},
	};

	for (size_t i = 0; reason && i < ARRAY_LEN(known); i++) {
		if (str_eq(known[i].reason, reason))
			return known[i].end;
	}
	return signal == 0 && exit_code == 0 ? RUN_END_FINISHED : RUN_END_AGENT_ERROR;
}
