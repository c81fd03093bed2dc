/*
 * Inputs of a task: files that are written inside before the agent starts, as the sandbox's own
 * user, each whole or not at all. Repeating it writes the same files again.
 */
#include <stdio.h>

#include <sodium.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "task/git.h"
#include "task/job.h"
#include "task/workspace.h"

#define PROGRAM "/run/cloche/cloche"

struct sync {
	struct job *job; /* NULL: given up */
	unsigned serial;
	size_t index; /* of the file */
	struct buf bytes;
	struct exec_watch watch;
	struct id exec;
	bool is_started, is_over, is_fed;
	struct exec *final;
};

static void next_file(struct sync *sync);

static void sync_free(struct sync *sync)
{
	buf_done(&sync->bytes);
	exec_free(sync->final);
	mem_freep(&sync);
}

static void feed(struct sync *sync)
{
	struct engine *engine = sync->job->tasks->config.engine;
	ssize_t r;

	while (!sync->is_fed) {
		r = engine->ops->input(engine, &sync->watch, buf_head(&sync->bytes),
		                       buf_len(&sync->bytes), true);
		if (r < 0 || (size_t)r == buf_len(&sync->bytes)) {
			sync->is_fed = true;
		} else if (r == 0) {
			return;
		} else {
			buf_consume(&sync->bytes, (size_t)r);
		}
	}
}

/* The file is there, or not: the next one, or the end. */
static void file_over(struct sync *sync)
{
	struct job *job = sync->job;
	struct engine *engine = job->tasks->config.engine;
	struct err err = {0};

	engine->ops->release(engine, job->run->sandbox.text, sync->exec.text);
	if (sync->final && sync->final->signal == 0 && sync->final->exit_code == 0) {
		sync->index++;
		next_file(sync);
		return;
	}
	(void)err_set(&err, sync->final ? ERR_INVALID : ERR_UNAVAILABLE,
	              "input %zu cannot be written to its place", sync->index + 1); /* always -1 */
	job->sync = NULL;
	sync_free(sync);
	job_step_failed(job, &err);
}

static void on_output(struct exec_watch *watch, void *ctx)
{
}

static void on_room(struct exec_watch *watch, void *ctx)
{
	struct sync *sync = ctx;

	if (sync->job && sync->is_started)
		feed(sync);
}

static void on_over(struct exec_watch *watch, const struct exec *exec, void *ctx)
{
	struct sync *sync = ctx;

	if (!sync->job || !exec)
		return;
	sync->is_over = true;
	sync->final = exec_copy(exec);
	if (sync->is_started)
		file_over(sync);
}

static void on_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct sync *sync = ctx;
	struct job *job = sync->job;

	if (!job) {
		sync_free(sync);
		return;
	}
	job->pending--;
	if (job->tasks->is_shut)
		return;
	sync->is_started = true;
	if (!exec) {
		job->sync = NULL;
		sync_free(sync);
		job_step_failed(job, err);
		return;
	}
	feed(sync);
	if (sync->is_over)
		file_over(sync);
}

static int take_content(struct sync *sync, const json_t *input, struct err *err)
{
	const json_t *text = json_object_get(input, "content");
	const json_t *coded = json_object_get(input, "contentBase64");
	size_t size = json_string_length(coded);
	auto_free uint8_t *bytes = mem_zalloc(size + 1);
	size_t len = 0;

	buf_reset(&sync->bytes);
	if (text) {
		must(buf_put(&sync->bytes, json_string_value(text), json_string_length(text)) == 0);
		return 0;
	}
	if (coded && sodium_base642bin(bytes, size + 1, json_string_value(coded), size, "\r\n",
	                               &len, NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
		return err_set(err, ERR_INVALID, "input %zu is not base64", sync->index + 1);
	must(buf_put(&sync->bytes, bytes, len) == 0);
	return 0;
}

static struct exec *command(struct sync *sync, const json_t *input, const struct sandbox *sandbox)
{
	const char *mode = json_string_value(json_object_get(input, "mode"));
	struct exec *exec = exec_new(&sandbox->id);
	char size[24];

	(void)snprintf(size, sizeof(size), "%zu", buf_len(&sync->bytes));
	strings_add(&exec->argv, PROGRAM);
	strings_add(&exec->argv, "inside");
	strings_add(&exec->argv, "write");
	strings_add(&exec->argv, "--parents");
	strings_add(&exec->argv, "--size");
	strings_add(&exec->argv, size);
	if (mode) {
		strings_add(&exec->argv, "--mode");
		strings_add(&exec->argv, mode);
	}
	strings_add(&exec->argv, "--");
	strings_add(&exec->argv, json_string_value(json_object_get(input, "path")));
	spec_set(&exec->user, sandbox->spec.user);
	exec->cwd = git_cwd(sync->job, sandbox);
	return exec;
}

static int start_file(struct sync *sync, const json_t *input, struct err *err)
{
	static const struct exec_watch_ops ops = {on_output, on_room, on_over};
	struct job *job = sync->job;
	struct engine *engine = job->tasks->config.engine;
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct exec_start start = {
		.is_internal = true, .is_attached = true, .has_stdin = true, .watch = &sync->watch};

	if (take_content(sync, input, err) < 0 ||
	    store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, err) < 0)
		return -1;
	exec = command(sync, input, sandbox);
	sync->exec = exec->id;
	sync->is_started = sync->is_over = sync->is_fed = false;
	exec_freep(&sync->final);
	sync->watch = (struct exec_watch){.ops = &ops, .ctx = sync, .is_holder = true};
	start.exec = exec;
	job->pending++;
	engine->ops->exec(engine, &start, on_started, sync);
	return 0;
}

static void next_file(struct sync *sync)
{
	struct job *job = sync->job;
	const json_t *input = json_array_get(job->files, sync->index);
	struct err err = {0};

	if (input && start_file(sync, input, &err) == 0)
		return;
	job->sync = NULL;
	sync_free(sync);
	if (err.code != ERR_OK)
		job_step_failed(job, &err);
	else
		workspace_begin(job, "completed");
}

/* The rows of the sandbox may still be on their way to the disk: after them, everything is. */
static void begin(struct job *job)
{
	struct sync *sync = mem_new(struct sync);

	sync->job = job;
	buf_init(&sync->bytes, 2 * 1024 * 1024);
	job->sync = sync;
	next_file(sync);
}

void sync_begin(struct job *job)
{
	job_commit(job, begin);
}

void sync_cancel(struct job *job)
{
	struct sync *sync = take_ptr(job->sync);
	struct engine *engine = job->tasks->config.engine;

	if (!sync)
		return;
	if (!job->tasks->is_shut)
		engine->ops->unwatch(engine, &sync->watch);
	sync->job = NULL;
	if (sync->is_started)
		sync_free(sync);
	else
		job->pending--; /* on_started frees it */
}
