/* Tasks and runs as the JSON of the API. */
#include "api/encode.h"
#include "api/repository.h"
#include "api/tasks.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/money.h"
#include "model/rights.h"
#include "store/identity.h"
#include "store/task.h"
#include "task/fetch.h"
#include "task/log.h"
#include "task/tasks.h"

/* --- output: the end of each stream --- */

struct task_ends {
	struct buf streams[2];
	bool is_cut;
	bool is_there;
	task_on_ends on_ends;
	void *ctx;
};

static bool keep_end(char stream, const uint8_t *bytes, size_t len, void *ctx)
{
	struct task_ends *ends = ctx;
	struct buf *buf = &ends->streams[stream == '2'];

	if (stream == '!') {
		ends->is_cut = true;
		return true;
	}
	if (len > TASK_LOG_INLINE_BYTES) {
		bytes += len - TASK_LOG_INLINE_BYTES;
		len = TASK_LOG_INLINE_BYTES;
		ends->is_cut = true;
	}
	if (buf_len(buf) + len > TASK_LOG_INLINE_BYTES) {
		buf_consume(buf, buf_len(buf) + len - TASK_LOG_INLINE_BYTES);
		ends->is_cut = true;
	}
	must(buf_put(buf, bytes, len) == 0);
	return true;
}

static void on_read(const struct err *err, void *ctx)
{
	struct task_ends *ends = ctx;

	ends->is_there = err->code == ERR_OK;
	if (!ends->is_there)
		log_error("the output of a run cannot be read", LOG_ERR(err));
	ends->on_ends(ends, ends->ctx);
	for (size_t i = 0; i < ARRAY_LEN(ends->streams); i++)
		buf_done(&ends->streams[i]);
	mem_freep(&ends);
}

void task_read_ends(struct api *api, const struct run *run, task_on_ends on_ends, void *ctx)
{
	struct task_ends *ends;
	struct err err = {0};

	if (!run || (!run->log && !run->has_log_file)) {
		on_ends(&(struct task_ends){0}, ctx);
		return;
	}
	ends = mem_new(struct task_ends);
	ends->on_ends = on_ends;
	ends->ctx = ctx;
	for (size_t i = 0; i < ARRAY_LEN(ends->streams); i++)
		buf_init(&ends->streams[i], TASK_LOG_INLINE_BYTES);
	if (run->log) {
		(void)!log_read(-1, run->id.text, run->log, keep_end, ends,
		                &err); /* on_read says so */
		on_read(&err, ends);
	} else {
		fetch_log(api->tasks, run->id.text, keep_end, on_read, ends);
	}
}

static void put_output(json_t *object, const struct task_ends *ends)
{
	if (ends->is_there) {
		encode_put_bytes(object, "stdout", buf_head(&ends->streams[0]),
		                 buf_len(&ends->streams[0]));
		encode_put_bytes(object, "stderr", buf_head(&ends->streams[1]),
		                 buf_len(&ends->streams[1]));
	} else {
		json_object_set_new(object, "stdout", json_null());
		json_object_set_new(object, "stderr", json_null());
	}
	json_object_set_new(object, "truncated", json_boolean(ends->is_cut));
}

/* --- runs --- */

static json_t *number_of(uint64_t number)
{
	return json_integer((json_int_t)number);
}

static json_t *dollars(uint64_t millionths)
{
	return millionths == MONEY_UNLIMITED ? json_null()
	                                     : json_real(money_to_dollars(millionths));
}

static json_t *scopes_of(const struct run *run)
{
	struct strings names = {0};
	struct rights rights = {0};
	struct err err = {0};
	json_t *list = json_array();

	if (rights_load(&run->rights, &rights, &err) == 0)
		scopes_list(&rights.scopes, &names);
	for (size_t i = 0; i < names.count; i++)
		json_array_append_new(list, json_string(names.items[i]));
	strings_done(&names);
	rights_done(&rights);
	return list;
}

static void put_token(json_t *object, struct api *api, const struct run *run)
{
	auto_(credential_freep) struct credential *token = NULL;
	struct err err = {0};

	if (!run->token.text[0] ||
	    store_credential_get(api->store, run->token.text, &token, &err) < 0)
		return;
	json_object_set_new(object, "tokenRevokedAt", encode_time(token->revoked_ms));
}

static void put_steps(json_t *object, struct api *api, const struct run *run)
{
	struct progress_list steps = {0};
	struct err err = {0};
	json_t *list = json_array();

	if (store_run_steps(api->store, run->id.text, &steps, &err) < 0)
		log_error("the steps of a run cannot be read", LOG_ERR(&err));
	for (size_t i = 0; i < steps.count; i++) {
		const struct run_progress *at = &steps.items[i];
		json_t *step = json_object();

		json_object_set_new(step, "step", json_string(run_step_name(at->step)));
		json_object_set_new(step, "status", encode_text(at->status));
		json_object_set_new(step, "detail", encode_text(at->detail));
		json_object_set_new(step, "attempts", number_of(at->attempts));
		json_object_set_new(step, "startedAt", encode_time(at->started_ms));
		json_object_set_new(step, "endedAt", encode_time(at->ended_ms));
		json_array_append_new(list, step);
	}
	progress_list_done(&steps);
	json_object_set_new(object, "steps", list);
}

static void put_end(json_t *object, const struct run *run)
{
	bool is_over = run_is_over(run->state);

	json_object_set_new(object, "endReason",
	                    is_over ? json_string(run_end_name(run->end)) : json_null());
	json_object_set_new(object, "exitCode",
	                    run->has_exit && run->signal == 0 ? json_integer(run->exit_code)
	                                                      : json_null());
	json_object_set_new(object, "inputTokens", number_of(run->input_tokens));
	json_object_set_new(object, "outputTokens", number_of(run->output_tokens));
	json_object_set_new(object, "cachedTokens", number_of(run->cached_tokens));
	json_object_set_new(object, "usage", encode_meters(&run->meters));
	json_object_set_new(object, "cost", dollars(run->cost));
}

static void put_money(json_t *object, struct api *api, const struct run *run)
{
	auto_(credential_freep) struct credential *token = NULL;
	uint64_t total = run->cost, left = MONEY_UNLIMITED;
	struct err err = {0};

	if (tasks_money(api->tasks, run->id.text, &total, &left)) {
		/* as it is now */
	} else if (run->token.text[0] &&
	           store_credential_get(api->store, run->token.text, &token, &err) == 0) {
		total = token->spent;
	}
	json_object_set_new(object, "totalCost", dollars(total));
	json_object_set_new(object, "budget", dollars(run->budget));
	json_object_set_new(object, "budgetLeft", dollars(left));
	json_object_set_new(object, "frozenAt",
	                    encode_time(tasks_frozen_ms(api->tasks, run->id.text)));
}

static void put_chain(json_t *object, struct api *api, const struct run *run)
{
	auto_(credential_freep) struct credential *parent = NULL;
	struct strings ids = {0};
	json_t *chain = json_array();
	struct err err = {0};

	if (run->parent.text[0] &&
	    store_credential_get(api->store, run->parent.text, &parent, &err) == 0) {
		if (parent->chain)
			strings_split(&ids, parent->chain);
		strings_add(&ids, parent->id.text);
	}
	for (size_t i = 0; i < ids.count; i++)
		json_array_append_new(chain, json_string(ids.items[i]));
	strings_done(&ids);
	json_object_set_new(object, "parent", encode_text(parent ? parent->run.text : NULL));
	json_object_set_new(object, "chain", chain);
}

json_t *task_encode_run(struct api *api, const struct run *run, const struct task_ends *ends)
{
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(run->id.text));
	json_object_set_new(object, "task", json_string(run->task.text));
	json_object_set_new(object, "number", number_of(run->number));
	json_object_set_new(object, "status", json_string(run_state_name(run->state)));
	put_end(object, run);
	json_object_set_new(object, "detail", encode_text(run->detail));
	json_object_set_new(object, "step",
	                    run->state == RUN_RUNNING ? json_string(run_step_name(run->step))
	                                              : json_null());
	json_object_set_new(object, "signal",
	                    run->has_exit && run->signal ? json_integer(run->signal) : json_null());
	put_money(object, api, run);
	put_chain(object, api, run);
	json_object_set_new(object, "resumeFrom", encode_text(run->resume_from.text));
	json_object_set_new(object, "sandbox", encode_text(run->sandbox.text));
	json_object_set_new(object, "exec", encode_text(run->exec.text));
	json_object_set_new(object, "token", encode_text(run->token.text));
	json_object_set_new(object, "scopes", scopes_of(run));
	json_object_set_new(object, "timeout", number_of(run->timeout_ms));
	json_object_set_new(object, "idleTimeout",
	                    run->idle_ms ? number_of(run->idle_ms) : json_null());
	json_object_set_new(object, "priority", number_of(run->priority));
	json_object_set_new(object, "createdAt", encode_time(run->created_ms));
	json_object_set_new(object, "startedAt", encode_time(run->started_ms));
	json_object_set_new(object, "completedAt", encode_time(run->ended_ms));
	if (!ends)
		return object;
	json_object_set_new(object, "resume", task_encode_resume(api, run));
	json_object_set_new(object, "pullRequest", repository_encode_pull(api, run->id.text));
	put_steps(object, api, run);
	put_token(object, api, run);
	put_output(object, ends);
	json_object_set_new(object, "output",
	                    run->output ? json_loads(run->output, JSON_DECODE_ANY, NULL)
	                                : json_null());
	return object;
}

/* --- tasks --- */

static void put_labels(json_t *object, const struct strings *labels)
{
	json_t *map = json_object();

	for (size_t i = 0; i < labels->count; i++) {
		size_t len = strcspn(labels->items[i], "=");
		auto_free char *key = mem_strndup(labels->items[i], len);

		json_object_set_new(
			map, key,
			json_string(labels->items[i][len] ? labels->items[i] + len + 1 : ""));
	}
	json_object_set_new(object, "labels", map);
}

static void put_mode(json_t *object, const struct task *task)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	json_t *mode = json_object_get(choices, "mode");

	json_object_set_new(object, "mode", mode ? json_incref(mode) : json_string("background"));
	json_decref(choices);
}

/* What clients of one-shot tasks look for is on the task itself, too. */
static void lift(json_t *object, const json_t *run)
{
	static const char *const names[] = {
		"status",       "endReason",    "exitCode",   "inputTokens", "usage",
		"cost",         "outputTokens", "stdout",     "stderr",      "completedAt",
		"stdoutBase64", "stderrBase64", "pullRequest"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		json_t *value = json_object_get(run, names[i]);

		if (value)
			json_object_set(object, names[i], value);
	}
}

json_t *task_encode(struct api *api, const struct task *task, const struct run *run,
                    const struct task_ends *ends)
{
	json_t *object = json_object();
	json_t *newest = run ? task_encode_run(api, run, ends) : json_null();

	json_object_set_new(object, "id", json_string(task->id.text));
	json_object_set_new(object, "title", encode_text(task->title));
	json_object_set_new(object, "instruction", encode_text(task->instruction));
	json_object_set_new(object, "agent", json_string(task->agent));
	json_object_set_new(object, "originProduct", encode_text(task->origin));
	put_mode(object, task);
	repository_encode(object, task);
	put_labels(object, &task->labels);
	json_object_set_new(object, "status", json_string("created"));
	json_object_set_new(object, "endReason", json_null());
	json_object_set_new(object, "exitCode", json_null());
	json_object_set_new(object, "inputTokens", json_integer(0));
	json_object_set_new(object, "outputTokens", json_integer(0));
	json_object_set_new(object, "cost", json_real(0));
	json_object_set_new(object, "completedAt", json_null());
	json_object_set_new(object, "runs", number_of(task->run_count));
	json_object_set_new(object, "createdAt", encode_time(task->created_ms));
	lift(object, newest);
	json_object_set_new(object, "run", newest);
	return object;
}
