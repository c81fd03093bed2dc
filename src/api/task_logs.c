/*
 * Output of a run, as it is written or as it was kept. What is shown while it is written goes
 * through the same redaction as what is kept.
 */
#include "acp/transcript.h"
#include "api/encode.h"
#include "api/tail.h"
#include "api/tasks.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/request.h"
#include "store/task.h"
#include "task/collect.h"
#include "task/fetch.h"
#include "task/log.h"
#include "task/redact.h"
#include "task/tasks.h"

enum { READY_MOST = 4 * 1024 * 1024, WANT_STDOUT = 1, WANT_STDERR = 2 };

struct view {
	struct tail tail;
	struct request *request;
	struct redact *redact;
	struct transcript *transcript; /* NULL: output is what it prints */
	struct buf ready;              /* to be sent */
	unsigned wanted;
	bool follows, is_at_end;
};

static int wanted_of(const struct call *call, unsigned *ret, struct err *err)
{
	const char *stream = call_query(call, "stream", "all");

	*ret = str_eq(stream, "all")      ? WANT_STDOUT | WANT_STDERR
	       : str_eq(stream, "stdout") ? WANT_STDOUT
	                                  : WANT_STDERR;
	if (*ret == WANT_STDERR && !str_eq(stream, "stderr"))
		return err_set(err, ERR_INVALID, "'stream' is stdout, stderr or all");
	return 0;
}

/* --- while it is written --- */

static void view_free(struct view *view)
{
	tail_done(&view->tail);
	redact_free(view->redact);
	if (view->transcript)
		transcript_done(view->transcript);
	mem_freep(&view->transcript);
	buf_done(&view->ready);
	request_unref(view->request);
	mem_freep(&view);
}

static int put_ready(void *ctx, const void *bytes, size_t len)
{
	return buf_put(ctx, bytes, len);
}

static int take_record(struct view *view, const struct outlog_record *record)
{
	bool is_err = record->stream == OUTLOG_STDERR;
	int r;

	if (record->stream != OUTLOG_STDOUT && !is_err)
		return 0;
	if (!(view->wanted & (is_err ? WANT_STDERR : WANT_STDOUT)))
		return 0;
	if (is_err || !view->transcript)
		return redact_feed(view->redact, is_err, record->bytes, record->len, put_ready,
		                   &view->ready);
	transcript_feed(view->transcript, record->bytes, record->len);
	r = redact_feed(view->redact, false, buf_head(&view->transcript->text),
	                buf_len(&view->transcript->text), put_ready, &view->ready);
	buf_reset(&view->transcript->text);
	return r;
}

/* <0: the log cannot be read. */
static int fill(struct view *view)
{
	struct outlog_record record;
	struct err err = {0};
	int r = TAIL_RECORD;

	while (buf_len(&view->ready) == 0 && r == TAIL_RECORD) {
		r = tail_next(&view->tail, &record, &err);
		if (r == TAIL_RECORD && take_record(view, &record) < 0)
			return -1;
	}
	if (r < 0) {
		log_error("an output cannot be read", LOG_ERR(&err));
		return -1;
	}
	if (r != TAIL_END && (r != TAIL_NOTHING_YET || view->follows))
		return 0;
	view->is_at_end = true;
	for (int i = 0; i < REDACT_STREAMS; i++) {
		if (redact_end(view->redact, i, put_ready, &view->ready) < 0)
			return -1;
	}
	return 0;
}

static ssize_t on_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	struct view *view = ctx;
	size_t take;

	if (buf_len(&view->ready) == 0 && !view->is_at_end && fill(view) < 0)
		return REQUEST_STREAM_ABORT;
	take = MIN(max, buf_len(&view->ready));
	if (take == 0)
		return view->is_at_end ? REQUEST_STREAM_END : 0;
	memcpy(to, buf_head(&view->ready), take);
	buf_consume(&view->ready, take);
	return (ssize_t)take;
}

static void on_request_end(struct request *request, bool gone, void *ctx)
{
	view_free(ctx);
}

static void on_ready(struct tail *tail, void *ctx)
{
	struct view *view = ctx;

	request_more(view->request);
}

static void answer_live(struct call *call, const struct task *task, const struct tasks_place *place,
                        unsigned wanted)
{
	static const struct tail_ops ops = {on_ready, NULL};
	struct view *view = mem_new(struct view);
	struct tail_target target = {place->sandbox.text, place->exec.text, 0, 0};
	struct err err = {0};

	view->request = request_ref(call->request);
	view->redact = collect_redact(call->api->tasks, task);
	if (collect_is_talk(call->api->tasks, task)) {
		view->transcript = mem_new(struct transcript);
		transcript_init(view->transcript);
	}
	view->wanted = wanted;
	view->follows = call_query_bool(call, "follow");
	buf_init(&view->ready, READY_MOST);
	tail_init(&view->tail, call->api, &target, &ops, view);
	if (tail_join(&view->tail, 0, &err) < 0) {
		view_free(view);
		call_fail(call, &err);
		return;
	}
	request_set_on_end(call->request, on_request_end, view);
	request_answer_stream(call->request, 200, "application/octet-stream", UINT64_MAX, on_pull,
	                      view);
	call_done(call);
}

/* --- as it was kept --- */

struct kept {
	struct call *call;
	struct buf bytes;
	unsigned wanted;
};

static bool keep_frame(char stream, const uint8_t *bytes, size_t len, void *ctx)
{
	struct kept *kept = ctx;

	if (stream == '!' || !(kept->wanted & (stream == '2' ? WANT_STDERR : WANT_STDOUT)))
		return true;
	return buf_put(&kept->bytes, bytes, len) == 0;
}

static void on_kept(const struct err *err, void *ctx)
{
	struct kept *kept = ctx;
	struct call *call = kept->call;

	if (err->code != ERR_OK) {
		call_fail(call, err);
	} else {
		request_answer(call->request, 200, "application/octet-stream",
		               buf_head(&kept->bytes), buf_len(&kept->bytes));
		call_done(call);
	}
	buf_done(&kept->bytes);
	mem_freep(&kept);
}

/* At most what an exec keeps (base/limits.h), so it fits into one answer. */
static void answer_kept(struct call *call, const struct run *run, unsigned wanted)
{
	struct kept *kept = mem_new(struct kept);
	struct err err = {0};

	kept->call = call;
	kept->wanted = wanted;
	buf_init(&kept->bytes, 32 * 1024 * 1024);
	if (run->has_log_file) {
		fetch_log(call->api->tasks, run->id.text, keep_frame, on_kept, kept);
		return;
	}
	if (run->log)
		(void)!log_read(-1, run->id.text, run->log, keep_frame, kept,
		                &err); /* on_kept says so */
	on_kept(&err, kept);
}

/* --- before there is any --- */

struct early {
	struct call *call;
	struct tasks_waiter waiter;
	struct id task, run;
	unsigned wanted;
};

static void early_free(struct early *early)
{
	tasks_unwait(&early->waiter);
	request_set_on_end(early->call->request, NULL, NULL);
	mem_freep(&early);
}

/* It began, or it is over: there is output now, or there will be none. */
static void on_news(struct tasks_waiter *waiter, void *ctx)
{
	struct early *early = ctx;
	struct call *call = early->call;
	struct id task_id = early->task, run_id = early->run;
	auto_(task_freep) struct task *task = NULL;
	auto_(run_freep) struct run *run = NULL;
	unsigned wanted = early->wanted;
	struct tasks_place place;
	struct err err = {0};

	early_free(early);
	if (store_task_get(call->api->store, task_id.text, &task, &err) < 0 ||
	    store_run_get(call->api->store, run_id.text, &run, &err) < 0) {
		call_fail(call, &err);
	} else if (tasks_output(call->api->tasks, run_id.text, &place)) {
		answer_live(call, task, &place, wanted);
	} else if (run_is_over(run->state)) {
		answer_kept(call, run, wanted);
	} else {
		(void)err_set(&err, ERR_UNAVAILABLE, "the daemon is ending"); /* always -1 */
		call_fail(call, &err);
	}
}

static void on_gone(struct request *request, bool gone, void *ctx)
{
	struct early *early = ctx;
	struct call *call = early->call;

	early_free(early);
	call_done(call);
}

/* False: nobody is there to wait for. */
static bool wait_for_output(struct call *call, const struct task *task, const struct run *run,
                            unsigned wanted)
{
	struct early *early = mem_new(struct early);

	*early = (struct early){.call = call, .task = task->id, .run = run->id, .wanted = wanted};
	early->waiter =
		(struct tasks_waiter){.on_output = on_news, .on_over = on_news, .ctx = early};
	if (!tasks_wait(call->api->tasks, run->id.text, &early->waiter)) {
		mem_freep(&early);
		return false;
	}
	request_set_on_end(call->request, on_gone, early);
	return true;
}

void handle_task_logs(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;
	auto_(run_freep) struct run *run = NULL;
	struct tasks_place place;
	struct err err = {0};
	unsigned wanted;

	if (task_of_path(call, &task) < 0)
		return;
	if (wanted_of(call, &wanted, &err) < 0 ||
	    task_run_of(call, task, call_query(call, "run", NULL), &run, &err) < 0)
		call_fail(call, &err);
	else if (tasks_output(call->api->tasks, run->id.text, &place))
		answer_live(call, task, &place, wanted);
	else if (run_is_over(run->state) || !call_query_bool(call, "follow") ||
	         !wait_for_output(call, task, run, wanted))
		answer_kept(call, run, wanted);
}
