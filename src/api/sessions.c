#include "api/sessions.h"

#include "api/authz.h"
#include "api/encode.h"
#include "api/events.h"
#include "api/tasks.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "store/task.h"
#include "store/turn.h"
#include "task/sessions.h"
#include "task/tasks.h"

enum { WAIT_MOST_S = 24 * 3600, ERROR_MOST = 500, TITLE_MOST = 1024 };

int session_of_path(struct call *call, struct task **ret)
{
	struct err err = {0};

	if (!str_has_prefix(call->params[0], TASK_SESSION_PREFIX "_")) {
		char shown[64];

		str_escape(shown, sizeof(shown), call->params[0], strlen(call->params[0]));
		(void)err_set(&err, ERR_NOT_FOUND, "no session '%s'", shown); /* always -1 */
		call_fail(call, &err);
		return -1;
	}
	return task_of_path(call, ret);
}

/* "Prefer: wait=N" and "respond-async" of RFC 7240. */
static uint64_t wait_of(const struct call *call, uint64_t otherwise)
{
	const char *prefer = request_header(call->request, "Prefer");
	const char *at = prefer ? strcasestr(prefer, "wait=") : NULL;
	char digits[8] = "";
	uint64_t seconds;
	size_t len;

	if (prefer && strcasestr(prefer, "respond-async"))
		otherwise = 0;
	if (!at)
		return otherwise;
	at += strlen("wait=");
	len = strspn(at, "0123456789");
	if (len == 0 || len >= sizeof(digits))
		return otherwise;
	memcpy(digits, at, len);
	return str_to_u64(digits, &seconds) == 0 ? MIN(seconds, (uint64_t)WAIT_MOST_S) * 1000
	                                         : otherwise;
}

/* --- asking --- */

struct asking {
	struct api *api;
	struct id session, run, turn;
	uint64_t wait_ms;
	bool is_duplicate;
	on_turn on_turn;
	void *ctx;
	struct session_waiter waiter;
	struct loop_timer timer;
};

static void answer(struct asking *asking)
{
	auto_(turn_freep) struct turn *turn = NULL;
	struct err err = {0};

	sessions_unwait(&asking->waiter);
	loop_timer_stop(&asking->timer);
	if (store_turn_get(asking->api->store, asking->session.text, asking->turn.text, &turn,
	                   &err) < 0)
		asking->on_turn(NULL, false, &err, asking->ctx);
	else
		asking->on_turn(turn, asking->is_duplicate, &err, asking->ctx);
	mem_freep(&asking);
}

static void on_over(struct session_waiter *waiter, void *ctx)
{
	answer(ctx);
}

static void on_late(struct loop_timer *timer, void *ctx)
{
	answer(ctx);
}

static void await(struct asking *asking)
{
	asking->waiter = (struct session_waiter){.on_over = on_over, .ctx = asking};
	if (asking->wait_ms == 0 || !sessions_wait(asking->api->tasks, asking->run.text,
	                                           asking->turn.text, &asking->waiter)) {
		answer(asking);
		return;
	}
	if (asking->wait_ms != UINT64_MAX)
		loop_timer_in(asking->api->loop, &asking->timer, asking->wait_ms, on_late, asking);
}

static void on_added(const struct err *err, void *ctx)
{
	struct asking *asking = ctx;

	if (err->code == ERR_OK) {
		await(asking);
		return;
	}
	asking->on_turn(NULL, false, err, asking->ctx);
	mem_freep(&asking);
}

/* Whether this message came before: then *ret_turn is its turn. ERR_CONFLICT: with other words. */
static int find_message(struct asking *asking, const struct turn *turn, struct err *err)
{
	const struct turn *open =
		sessions_message(asking->api->tasks, asking->run.text, turn->message_id);
	auto_(turn_freep) struct turn *stored = NULL;
	struct err none = {0};

	if (!open && store_turn_by_message(asking->api->store, asking->session.text,
	                                   turn->message_id, &stored, &none) < 0)
		return none.code == ERR_NOT_FOUND ? 0 : err_set(err, none.code, "%s", none.msg);
	open = open ? open : stored;
	if (!str_eq(open->prompt, turn->prompt))
		return err_set(err, ERR_CONFLICT,
		               "'messageId' came before, with another prompt (turn %s)",
		               open->id.text);
	asking->turn = open->id;
	asking->is_duplicate = true;
	return 0;
}

void session_ask(struct api *api, const struct task *task, struct turn *turn, uint64_t wait_ms,
                 on_turn on_over_turn, void *ctx)
{
	struct asking *asking = mem_new(struct asking);
	struct err err = {0};

	*asking = (struct asking){.api = api,
	                          .session = task->id,
	                          .run = task->run,
	                          .turn = turn->id,
	                          .wait_ms = wait_ms,
	                          .on_turn = on_over_turn,
	                          .ctx = ctx};
	if (turn->message_id && find_message(asking, turn, &err) < 0) {
		turn_free(turn);
		on_over_turn(NULL, false, &err, ctx);
		mem_freep(&asking);
	} else if (asking->is_duplicate) {
		turn_free(turn);
		await(asking);
	} else {
		sessions_add(api->tasks, task->run.text, turn, on_added, asking);
	}
}

/* --- turns --- */

static void answer_turn(const struct turn *turn, bool is_duplicate, const struct err *err,
                        void *ctx)
{
	struct call *call = ctx;
	json_t *object;

	if (!turn) {
		call_fail(call, err);
		return;
	}
	object = json_pack("{s:o}", "turn", turn_encode(turn, true));
	if (is_duplicate)
		json_object_set_new(object, "duplicate", json_true());
	call_answer(call, turn_is_over(turn) ? 200 : 202, object);
}

void handle_turn_create(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;
	struct turn *turn = NULL;
	struct err err = {0};

	if (session_of_path(call, &task) < 0)
		return;
	if (authz_run(call, task->run.text, "session", task->id.text, &err) < 0 ||
	    turn_decode(call, call->body, &turn, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	session_ask(call->api, task, turn, wait_of(call, UINT64_MAX), answer_turn, call);
}

void handle_turn_list(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;
	struct turn_page page = {0};
	struct err err = {0};
	json_t *items;

	if (session_of_path(call, &task) < 0)
		return;
	if (store_turn_list(call->api->store, task->id.text, call_query(call, "cursor", NULL),
	                    call_query_u64(call, "limit", 0), &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, turn_encode(page.items[i], false));
	call_answer(call, 200, encode_page(items, page.next_cursor));
	turn_page_done(&page);
}

/* Waits for a turn that is there. */
static void answer_known(struct call *call, const struct task *task, uint64_t wait_ms)
{
	auto_(turn_freep) struct turn *turn = NULL;
	struct asking *asking;
	struct err err = {0};

	if (store_turn_get(call->api->store, task->id.text, call->params[1], &turn, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	if (turn_is_over(turn) || wait_ms == 0) {
		call_answer(call, 200, json_pack("{s:o}", "turn", turn_encode(turn, true)));
		return;
	}
	asking = mem_new(struct asking);
	*asking = (struct asking){.api = call->api,
	                          .session = task->id,
	                          .run = task->run,
	                          .turn = turn->id,
	                          .wait_ms = wait_ms,
	                          .on_turn = answer_turn,
	                          .ctx = call};
	await(asking);
}

void handle_turn_info(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;

	if (session_of_path(call, &task) == 0)
		answer_known(call, task, wait_of(call, 0));
}

struct cancelling {
	struct call *call;
	struct task *task;
};

static void on_cancelled(const struct err *err, void *ctx)
{
	auto_free struct cancelling *cancelling = ctx;

	/* One that is over is no mistake: it is what was wanted. */
	if (err->code != ERR_OK && err->code != ERR_CONFLICT)
		call_fail(cancelling->call, err);
	else
		answer_known(cancelling->call, cancelling->task, UINT64_MAX);
	task_free(cancelling->task);
}

void handle_turn_cancel(struct call *call)
{
	struct cancelling *cancelling;
	struct task *task = NULL;

	if (session_of_path(call, &task) < 0)
		return;
	cancelling = mem_new(struct cancelling);
	*cancelling = (struct cancelling){call, task};
	sessions_cancel(call->api->tasks, task->run.text, call->params[1], on_cancelled,
	                cancelling);
}

/* --- sessions --- */

static int read_session(struct api *api, const char *id, json_t **ret, struct err *err)
{
	auto_(task_freep) struct task *task = NULL;
	auto_(run_freep) struct run *run = NULL;

	if (store_task_get(api->store, id, &task, err) < 0 ||
	    (task->run.text[0] && store_run_get(api->store, task->run.text, &run, err) < 0))
		return -1;
	*ret = session_encode(api, task, run);
	return 0;
}

static void answer_session(struct call *call, const char *id)
{
	struct err err = {0};
	json_t *session;

	if (read_session(call->api, id, &session, &err) < 0)
		call_fail(call, &err);
	else
		call_answer(call, 200, json_pack("{s:o}", "session", session));
}

void handle_session_list(struct call *call)
{
	struct task_filter filter = {
		.viewer = call->caller,
		.is_session = true,
		.state = call_query(call, "state", NULL),
		.cursor = call_query(call, "cursor", NULL),
		.limit = call_query_u64(call, "limit", 0),
	};
	struct task_page page = {0};
	struct err err = {0};
	json_t *items;

	if (filter.state && run_state_from(filter.state) == RUN_NONE)
		(void)err_set(&err, ERR_INVALID,
		              "'state' is pending, running, completed, failed or cancelled");
	if (err.code != ERR_OK || store_task_list(call->api->store, &filter, &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++) {
		auto_(run_freep) struct run *run = NULL;

		if (page.items[i]->run.text[0])
			(void)!store_run_get(call->api->store, page.items[i]->run.text, &run, &err);
		json_array_append_new(items, session_encode(call->api, page.items[i], run));
	}
	call_answer(call, 200, encode_page(items, page.next_cursor));
	task_page_done(&page);
}

struct wait {
	struct call *call;
	struct id session;
	struct tasks_waiter waiter;
	struct loop_timer timer;
};

static void wait_end(struct wait *wait)
{
	struct call *call = wait->call;
	struct id session = wait->session;

	tasks_unwait(&wait->waiter);
	loop_timer_stop(&wait->timer);
	mem_freep(&wait);
	answer_session(call, session.text);
}

static void on_session_over(struct tasks_waiter *waiter, void *ctx)
{
	wait_end(ctx);
}

static void on_wait_late(struct loop_timer *timer, void *ctx)
{
	wait_end(ctx);
}

static void answer_or_wait(struct call *call, const struct task *task, uint64_t wait_ms)
{
	struct wait *wait = mem_new(struct wait);

	wait->call = call;
	wait->session = task->id;
	wait->waiter = (struct tasks_waiter){.on_over = on_session_over, .ctx = wait};
	if (wait_ms == 0 || !tasks_wait(call->api->tasks, task->run.text, &wait->waiter))
		wait_end(wait);
	else
		loop_timer_in(call->api->loop, &wait->timer, wait_ms, on_wait_late, wait);
}

void handle_session_info(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;

	if (session_of_path(call, &task) == 0)
		answer_or_wait(call, task, wait_of(call, 0));
}

void handle_session_events(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;

	if (session_of_path(call, &task) == 0)
		events_answer(call, task->id.text);
}

/* --- the end --- */

static int end_of(const json_t *body, enum run_end *ret, struct err *err)
{
	static const struct {
		const char *status;
		enum run_end end;
	} ends[] = {{"completed", RUN_END_FINISHED},
	            {"failed", RUN_END_GIVEN_UP},
	            {"cancelled", RUN_END_STOPPED}};
	const char *status = json_string_value(json_object_get(body, "status"));
	const char *error = json_string_value(json_object_get(body, "error"));

	*ret = RUN_END_NONE;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		if (str_eq(ends[i].status, status ? status : "completed"))
			*ret = ends[i].end;
	}
	if (*ret == RUN_END_NONE)
		return err_set(err, ERR_INVALID, "'status' is completed, failed or cancelled");
	if (error && strlen(error) > ERROR_MOST)
		return err_set(err, ERR_INVALID, "'error' has more than %d bytes", ERROR_MOST);
	if (error && *ret == RUN_END_FINISHED)
		return err_set(err, ERR_INVALID, "'error': a session that completed has none");
	return 0;
}

static void on_ended(const struct err *err, void *ctx)
{
	auto_free struct cancelling *ending = ctx;

	if (err->code != ERR_OK)
		call_fail(ending->call, err);
	else
		answer_or_wait(ending->call, ending->task,
		               wait_of(ending->call, (uint64_t)WAIT_MOST_S * 1000));
	task_free(ending->task);
}

void handle_session_end(struct call *call)
{
	const char *error = json_string_value(json_object_get(call->body, "error"));
	struct cancelling *ending;
	struct task *task = NULL;
	struct err err = {0};
	enum run_end end;

	if (session_of_path(call, &task) < 0)
		return;
	if (end_of(call->body, &end, &err) < 0) {
		task_free(task);
		call_fail(call, &err);
		return;
	}
	ending = mem_new(struct cancelling);
	*ending = (struct cancelling){call, task};
	sessions_end(call->api->tasks, task->run.text, end, error, on_ended, ending);
}

/* --- the beginning --- */

struct making {
	struct call *call;
	struct id session, run, turn;
	struct session_waiter waiter;
	struct loop_timer timer;
};

static void answer_made(struct making *making)
{
	struct call *call = making->call;
	auto_(turn_freep) struct turn *turn = NULL;
	struct err err = {0};
	json_t *session = NULL;

	sessions_unwait(&making->waiter);
	loop_timer_stop(&making->timer);
	if ((making->turn.text[0] && store_turn_get(call->api->store, making->session.text,
	                                            making->turn.text, &turn, &err) < 0) ||
	    read_session(call->api, making->session.text, &session, &err) < 0)
		call_fail(call, &err);
	else
		call_answer(call, turn && !turn_is_over(turn) ? 202 : call->route->status,
		            json_pack("{s:o, s:o}", "session", session, "turn",
		                      turn ? turn_encode(turn, true) : json_null()));
	mem_freep(&making);
}

static void on_made_over(struct session_waiter *waiter, void *ctx)
{
	answer_made(ctx);
}

static void on_made_late(struct loop_timer *timer, void *ctx)
{
	answer_made(ctx);
}

static void on_made(const struct err *err, void *ctx)
{
	struct making *making = ctx;
	struct call *call = making->call;
	uint64_t wait_ms = wait_of(call, UINT64_MAX);

	if (err->code != ERR_OK) {
		call_fail(call, err);
		mem_freep(&making);
		return;
	}
	making->waiter = (struct session_waiter){.on_over = on_made_over, .ctx = making};
	if (!making->turn.text[0] || wait_ms == 0 ||
	    !sessions_wait(call->api->tasks, making->run.text, making->turn.text, &making->waiter))
		answer_made(making);
	else if (wait_ms != UINT64_MAX)
		loop_timer_in(call->api->loop, &making->timer, wait_ms, on_made_late, making);
}

static void move(json_t *from, const char *name, json_t *to, const char *as)
{
	json_t *value = json_object_get(from, name);

	if (value && !json_is_null(value) && to)
		json_object_set(to, as, value);
	json_object_del(from, name);
}

/* Cuts between characters. */
static json_t *instruction_of(const char *prompt)
{
	size_t len = prompt ? MIN(strlen(prompt), (size_t)TITLE_MOST) : 0;

	while (len > 0 && !str_is_utf8(prompt, len))
		len--;
	return len > 0 ? json_stringn(prompt, len) : json_string("a session");
}

/* What is of the first turn goes into a TurnRequest, the rest becomes a TaskRequest. */
static int split(struct call *call, struct turn **ret_turn, struct err *err)
{
	json_t *body = call->body, *asked = json_object();
	const char *prompt = json_string_value(json_object_get(body, "prompt"));
	bool has_turn = prompt != NULL;
	int r = 0;

	json_object_set_new(body, "instruction", instruction_of(prompt));
	json_object_set_new(body, "mode", json_string("interactive"));
	if (!json_object_get(body, "agent"))
		json_object_set_new(body, "agent", json_string("cloche-agent"));
	if (!json_object_get(body, "createPr"))
		json_object_set_new(body, "createPr", json_false());
	move(body, "prompt", asked, "prompt");
	move(body, "outputSchema", asked, "outputSchema");
	move(body, "stepName", asked, "label");
	move(body, "messageId", asked, "messageId");
	move(body, "turnTimeout", asked, "timeout");
	move(body, "sandbox", body, "guest");
	if (has_turn) {
		json_object_set_new(body, "begins", json_true());
		r = turn_decode(call, asked, ret_turn, err);
	} else if (json_object_size(asked) > 0) {
		r = err_set(err, ERR_INVALID,
		            "'%s' is about the first turn: give its 'prompt', too",
		            json_object_iter_key(json_object_iter(asked)));
	}
	json_decref(asked);
	return r;
}

void handle_session_create(struct call *call)
{
	struct turn *turn = NULL;
	struct task *task = NULL;
	struct run *run = NULL;
	struct making *making;
	struct err err = {0};

	if (split(call, &turn, &err) < 0 || task_decode(call, &task, &run, &err) < 0 ||
	    tasks_fits(call->api->tasks, task, run, &err) < 0) {
		turn_free(turn);
		run_free(run);
		task_free(task);
		call_fail(call, &err);
		return;
	}
	making = mem_new(struct making);
	*making = (struct making){.call = call, .session = task->id, .run = run->id};
	if (turn)
		making->turn = turn->id;
	authz_made(call, task->id.text);
	sessions_create(call->api->tasks, task, run, turn, on_made, making);
}
