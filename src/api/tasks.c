#include "api/tasks.h"

#include <strings.h>

#include "api/authz.h"
#include "api/encode.h"
#include "api/events.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "store/task.h"
#include "task/collect.h"
#include "task/output.h"
#include "task/redact.h"
#include "task/tasks.h"

enum { WAIT_MOST_MS = 600 * 1000 };

/* --- finding --- */

static bool writes(const struct call *call)
{
	return call->route->scope == SCOPE_TASKS_WRITE ||
	       call->route->scope == SCOPE_SESSIONS_WRITE;
}

/* A run changes its own task and those below it; with task:write alone it sees no other. */
static bool is_of_other_run(const struct call *call, const struct task *task)
{
	const struct caller *caller = call->caller;
	struct ownership made = {.made_by = task->made_by ? task->made_by : ""};
	auto_(run_freep) struct run *run = NULL;
	struct err err = {0};

	if (!caller->run.text[0] ||
	    (!writes(call) && scopes_has(&caller->scopes, call->route->scope)) ||
	    access_is_below(caller, &made))
		return false;
	return store_run_get(call->api->store, caller->run.text, &run, &err) < 0 ||
	       !str_eq(run->task.text, task->id.text);
}

struct ownership task_ownership(const struct call *call, const struct task *task)
{
	return (struct ownership){
		.owner = task->owner.text,
		.team = task->team.text,
		.visibility = task->visibility,
		.made_by = is_of_other_run(call, task) ? "" : NULL, /* below nobody: hidden */
	};
}

int task_of_path(struct call *call, struct task **ret)
{
	const char *id = call->params[0];
	struct ownership ownership;
	struct err err = {0};
	int r;

	if (store_task_get(call->api->store, id, ret, &err) < 0) {
		call_fail(call, &err);
		return -1;
	}
	ownership = task_ownership(call, *ret);
	/* As the store calls it when it is not there: both are both. */
	r = writes(call) ? authz_change(call, &ownership, "task", id, &err)
	                 : authz_look(call, &ownership, "task", id, &err);
	if (r == 0)
		return 0;
	task_freep(ret);
	call_fail(call, &err);
	return -1;
}

int task_run_of(struct call *call, const struct task *task, const char *id, struct run **ret,
                struct err *err)
{
	const char *wanted = id ? id : task->run.text;
	char shown[64];

	if (!wanted[0])
		return err_set(err, ERR_NOT_FOUND, "this task has no run yet");
	if (store_run_get(call->api->store, wanted, ret, err) < 0)
		return -1;
	if (str_eq((*ret)->task.text, task->id.text))
		return 0;
	run_freep(ret);
	str_escape(shown, sizeof(shown), wanted, strlen(wanted));
	return err_set(err, ERR_NOT_FOUND, "no run '%s' of this task", shown);
}

/* An answer with the output of a run, which may have to be read first. */
struct reply {
	struct call *call;
	struct task *task; /* NULL: about the run alone */
	struct run *run;
	int status;
};

static void on_ends(const struct task_ends *ends, void *ctx)
{
	struct reply *reply = ctx;
	struct api *api = reply->call->api;
	json_t *body = reply->task
	                       ? json_pack("{s:o}", "task",
	                                   task_encode(api, reply->task, reply->run, ends))
	                       : json_pack("{s:o}", "run", task_encode_run(api, reply->run, ends));

	call_answer(reply->call, reply->status, body);
	task_free(reply->task);
	run_free(reply->run);
	mem_freep(&reply);
}

/* Takes both. */
static void answer_with_output(struct call *call, struct task *task, struct run *run, int status)
{
	struct reply *reply = mem_new(struct reply);

	*reply = (struct reply){call, task, run, status};
	task_read_ends(call->api, run, on_ends, reply);
}

/* An answer that waits for nothing shows what was accepted. One whose turn it is begins with the
 * same commit, and of that nothing is to be seen yet. */
static void show_accepted(struct run *run)
{
	run->state = RUN_PENDING;
	run->started_ms = 0;
}

enum answer { AS_IT_IS, AS_ACCEPTED };

static void answer_task(struct call *call, const char *id, int status, enum answer how)
{
	auto_(task_freep) struct task *task = NULL;
	auto_(run_freep) struct run *run = NULL;
	struct api *api = call->api;
	struct err err = {0};

	if (store_task_get(api->store, id, &task, &err) < 0 ||
	    (task->run.text[0] && store_run_get(api->store, task->run.text, &run, &err) < 0)) {
		call_fail(call, &err);
		return;
	}
	if (run && how == AS_ACCEPTED && run->state == RUN_RUNNING)
		show_accepted(run);
	answer_with_output(call, take_ptr(task), take_ptr(run), status);
}

/* --- waiting: the answer comes when the run is over, or after as long as the client said --- */

struct wait {
	struct call *call;
	struct id task;
	int status;
	struct tasks_waiter waiter;
	struct loop_timer timer;
};

static void wait_end(struct wait *wait, int status)
{
	struct call *call = wait->call;
	struct id task = wait->task;

	tasks_unwait(&wait->waiter);
	loop_timer_stop(&wait->timer);
	mem_freep(&wait);
	answer_task(call, task.text, status, AS_IT_IS);
}

static void on_over(struct tasks_waiter *waiter, void *ctx)
{
	wait_end(ctx, 200);
}

static void on_late(struct loop_timer *timer, void *ctx)
{
	struct wait *wait = ctx;

	wait_end(wait, wait->status);
}

/* "Prefer: wait=N" of RFC 7240, in seconds; 0: not at all. */
static uint64_t wait_of(const struct call *call)
{
	const char *prefer = request_header(call->request, "Prefer");
	const char *at = prefer ? strcasestr(prefer, "wait=") : NULL;
	char digits[12] = "";
	uint64_t seconds;
	size_t len;

	if (!at)
		return 0;
	at += strlen("wait=");
	len = strspn(at, "0123456789");
	if (len == 0 || len >= sizeof(digits))
		return 0;
	memcpy(digits, at, len);
	return str_to_u64(digits, &seconds) == 0 ? MIN(seconds * 1000, (uint64_t)WAIT_MOST_MS) : 0;
}

static void answer_or_wait(struct call *call, const struct id *task, const struct id *run,
                           int status)
{
	uint64_t wait_ms = wait_of(call);
	struct wait *wait;
	char applied[32];

	if (wait_ms == 0 || !run->text[0]) {
		answer_task(call, task->text, status, status == 200 ? AS_IT_IS : AS_ACCEPTED);
		return;
	}
	wait = mem_new(struct wait);
	wait->call = call;
	wait->task = *task;
	wait->status = status;
	wait->waiter = (struct tasks_waiter){.on_over = on_over, .ctx = wait};
	/* How long it really is: a client may have wished for more than we keep a connection. */
	(void)snprintf(applied, sizeof(applied), "wait=%llu", (unsigned long long)wait_ms / 1000);
	request_add_header(call->request, "Preference-Applied", applied);
	if (tasks_wait(call->api->tasks, run->text, &wait->waiter)) {
		loop_timer_in(call->api->loop, &wait->timer, wait_ms, on_late, wait);
	} else {
		mem_freep(&wait);
		answer_task(call, task->text, 200, AS_IT_IS);
	}
}

/* --- making --- */

struct making {
	struct call *call;
	struct id task, run;
};

static void on_made(const struct err *err, void *ctx)
{
	auto_free struct making *making = ctx;
	struct call *call = making->call;

	if (err->code != ERR_OK)
		call_fail(call, err);
	else
		answer_or_wait(call, &making->task, &making->run, call->route->status);
}

/* Takes both; run may be NULL. */
static void make(struct call *call, struct task *task, struct run *run)
{
	struct making *making = mem_new(struct making);

	*making = (struct making){.call = call, .task = task->id};
	if (run)
		making->run = run->id;
	authz_made(call, task->id.text);
	tasks_create(call->api->tasks, task, run, on_made, making);
}

static void decode_and_make(struct call *call, bool starts)
{
	struct task *task = NULL;
	struct run *run = NULL;
	struct err err = {0};

	if (task_decode(call, &task, &run, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	if (!starts) {
		run_free(run);
		run = NULL;
	} else if (tasks_fits(call->api->tasks, task, run, &err) < 0) {
		run_free(run);
		task_free(task);
		call_fail(call, &err);
		return;
	}
	make(call, task, run);
}

void handle_task_run(struct call *call)
{
	const json_t *start = json_object_get(call->body, "start");

	decode_and_make(call, !start || json_is_true(start));
}

void handle_task_create(struct call *call)
{
	decode_and_make(call, json_is_true(json_object_get(call->body, "start")));
}

void handle_run_create(struct call *call)
{
	struct task *task = NULL;
	struct run *run = NULL;
	struct err err = {0};

	if (task_of_path(call, &task) < 0)
		return;
	if (task_decode_run(call, task, &run, &err) < 0 ||
	    tasks_fits(call->api->tasks, task, run, &err) < 0) {
		run_free(run);
		task_free(task);
		call_fail(call, &err);
		return;
	}
	make(call, task, run);
}

/* --- looking --- */

static int check_state(const char *state, struct err *err)
{
	if (!state || run_state_from(state) != RUN_NONE)
		return 0;
	return err_set(err, ERR_INVALID,
	               "'state' is pending, running, completed, failed or cancelled");
}

void handle_task_list(struct call *call)
{
	struct task_filter filter = {
		.viewer = call->caller,
		.state = call_query(call, "state", NULL),
		.cursor = call_query(call, "cursor", NULL),
		.limit = call_query_u64(call, "limit", 0),
	};
	struct task_page page = {0};
	struct err err = {0};
	json_t *items;

	if (check_state(filter.state, &err) < 0 ||
	    store_task_list(call->api->store, &filter, &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++) {
		auto_(run_freep) struct run *run = NULL;

		/* One whose run cannot be read is shown without. */
		if (page.items[i]->run.text[0])
			(void)!store_run_get(call->api->store, page.items[i]->run.text, &run, &err);
		json_array_append_new(items, task_encode(call->api, page.items[i], run, NULL));
	}
	call_answer(call, 200, encode_page(items, page.next_cursor));
	task_page_done(&page);
}

void handle_task_info(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;

	if (task_of_path(call, &task) == 0)
		answer_or_wait(call, &task->id, &task->run, 200);
}

void handle_run_list(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;
	struct run_page page = {0};
	struct err err = {0};
	json_t *items;

	if (task_of_path(call, &task) < 0)
		return;
	if (store_run_list(call->api->store, task->id.text, call_query(call, "cursor", NULL),
	                   call_query_u64(call, "limit", 0), &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, task_encode_run(call->api, page.items[i], NULL));
	call_answer(call, 200, encode_page(items, page.next_cursor));
	run_page_done(&page);
}

void handle_run_info(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;
	auto_(run_freep) struct run *run = NULL;
	struct err err = {0};

	if (task_of_path(call, &task) < 0)
		return;
	if (task_run_of(call, task, call->params[1], &run, &err) < 0)
		call_fail(call, &err);
	else
		answer_with_output(call, NULL, take_ptr(run), 200);
}

void handle_task_events(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;

	if (task_of_path(call, &task) == 0)
		events_answer(call, task->id.text);
}

/* --- stopping --- */

static void on_stopped(const struct err *err, void *ctx)
{
	auto_free struct making *making = ctx;
	struct call *call = making->call;

	if (err->code != ERR_OK)
		call_fail(call, err);
	else
		answer_or_wait(call, &making->task, &making->run, 200);
}

void handle_task_stop(struct call *call)
{
	const char *why = json_string_value(json_object_get(call->body, "reason"));
	auto_(task_freep) struct task *task = NULL;
	struct making *making;
	struct err err = {0};

	if (task_of_path(call, &task) < 0)
		return;
	if (why && strlen(why) > 500)
		(void)err_set(&err, ERR_INVALID, "'reason' has more than 500 bytes");
	else if (!task->run.text[0])
		(void)err_set(&err, ERR_CONFLICT, "this task has no run yet");
	if (err.code != ERR_OK) {
		call_fail(call, &err);
		return;
	}
	making = mem_new(struct making);
	*making = (struct making){call, task->id, task->run};
	tasks_stop(call->api->tasks, task->run.text, why, on_stopped, making);
}

/* --- the result --- */

void handle_output_get(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;
	auto_(run_freep) struct run *run = NULL;
	struct err err = {0};

	if (task_of_path(call, &task) < 0)
		return;
	if (task_run_of(call, task, NULL, &run, &err) < 0)
		call_fail(call, &err);
	else
		call_answer(call, 200,
		            json_pack("{s:o}", "output",
		                      run->output ? json_loads(run->output, JSON_DECODE_ANY, NULL)
		                                  : json_null()));
}

static void on_output_stored(const struct store_result *result, void *ctx)
{
	struct call *call = ctx;

	if (result->ok)
		call_answer_empty(call);
	else
		call_fail(call, &result->err);
}

static int check_output(const struct task *task, const char *text, struct err *err)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	int r = output_check(json_object_get(choices, "outputSchema"), text, strlen(text), err);

	json_decref(choices);
	return r;
}

/* Kept as it is shown: without secrets. */
static char *clean_output(struct call *call, const struct task *task)
{
	struct redact *redact = collect_redact(call->api->tasks, task);
	json_t *whole = json_pack("[O]", json_object_get(call->body, "output"));
	char *text;

	collect_clean(redact, whole);
	redact_free(redact);
	text = json_dumps(json_array_get(whole, 0),
	                  JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	json_decref(whole);
	return text;
}

void handle_output_set(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;
	auto_free char *text = NULL;
	struct event event = {.kind = EVENT_TASK_OUTPUT, .time_ms = io_real_ms()};
	struct store_write *write;
	struct err err = {0};

	if (task_of_path(call, &task) < 0)
		return;
	text = clean_output(call, task);
	if (check_output(task, text, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	write = store_write_new(call->api->store);
	store_set_output(write, task->run.text, text);
	event.sandbox = task->id;
	store_put_event(write, &event);
	store_write_submit(write, on_output_stored, call);
}
