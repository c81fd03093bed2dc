#include "task/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "task/job.h"
#include "wire/outlog.h"

struct inside {
	struct job *job; /* NULL: given up */
	struct exec_watch watch;
	struct id exec;
	size_t most;
	bool is_started, is_over;
	struct exec *final;
	inside_on_end on_end;
};

static void inside_free(struct inside *inside)
{
	exec_free(inside->final);
	mem_freep(&inside);
}

/* --- what it wrote --- */

static void keep(struct buf *buf, const struct outlog_record *record, bool *is_cut)
{
	size_t room = buf->max - buf_len(buf);
	size_t len = MIN((size_t)record->len, room);

	*is_cut = *is_cut || len < record->len;
	(void)!buf_put(buf, record->bytes, len); /* it fits */
}

static void read_output(const struct inside *inside, struct buf *out, struct buf *errors,
                        bool *ret_cut)
{
	const struct job *job = inside->job;
	struct outlog_reader reader;
	struct outlog_record record;
	char path[96];
	int fd, r;

	/* Both ids were made by us: no slash can be in them. */
	(void)snprintf(path, sizeof(path), "%s/out/%s", job->run->sandbox.text, inside->exec.text);
	fd = openat(job->tasks->config.sandboxes_fd, path,
	            O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || outlog_reader_open(&reader, fd, 0) < 0) {
		*ret_cut = true;
		return;
	}
	while ((r = outlog_next(&reader, &record)) > 0 && record.stream != OUTLOG_EXIT) {
		if (record.stream == OUTLOG_STDOUT)
			keep(out, &record, ret_cut);
		else if (record.stream == OUTLOG_STDERR)
			keep(errors, &record, ret_cut);
		else if (record.stream == OUTLOG_GAP)
			*ret_cut = true;
	}
	*ret_cut |= r < 0;
	outlog_reader_close(&reader);
}

/* --- its end --- */

static void tell(struct inside *inside, const struct err *err)
{
	struct job *job = inside->job;
	struct engine *engine = job->tasks->config.engine;
	struct buf out, errors;
	struct inside_end end = {.exec = inside->final, .err = err, .out = &out, .errors = &errors};

	buf_init(&out, inside->most);
	buf_init(&errors, inside->most);
	if (inside->final) {
		read_output(inside, &out, &errors, &end.is_cut);
		engine->ops->release(engine, job->run->sandbox.text, inside->exec.text);
	}
	job->inside = NULL;
	inside->on_end(job, &end);
	buf_done(&out);
	buf_done(&errors);
	inside_free(inside);
}

static void on_output(struct exec_watch *watch, void *ctx)
{
}

static void on_over(struct exec_watch *watch, const struct exec *exec, void *ctx)
{
	static const struct err none;
	struct inside *inside = ctx;

	if (!inside->job || !exec)
		return;
	inside->is_over = true;
	inside->final = exec_copy(exec);
	if (inside->is_started)
		tell(inside, &none);
}

static void on_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct inside *inside = ctx;
	struct job *job = inside->job;

	if (!job) {
		inside_free(inside);
		return;
	}
	job->pending--;
	if (job->tasks->is_shut)
		return;
	inside->is_started = true;
	if (!exec || inside->is_over)
		tell(inside, err);
}

/* --- its beginning --- */

int inside_run(struct job *job, const struct inside_command *command, inside_on_end on_end,
               struct err *err)
{
	static const struct exec_watch_ops ops = {on_output, NULL, on_over};
	struct engine *engine = job->tasks->config.engine;
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct exec_start start = {.is_internal = true, .timeout_ms = command->timeout_ms};
	struct inside *inside;

	if (store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, err) < 0)
		return -1;
	exec = exec_new(&sandbox->id);
	strings_copy(&exec->argv, command->argv);
	spec_set(&exec->user, sandbox->spec.user);
	spec_set(&exec->cwd, command->cwd ? command->cwd : sandbox->spec.cwd);
	inside = mem_new(struct inside);
	*inside = (struct inside){.job = job,
	                          .exec = exec->id,
	                          .most = command->most,
	                          .on_end = on_end,
	                          .watch = {.ops = &ops, .ctx = inside}};
	start.exec = exec;
	start.env = command->env ? command->env : &sandbox->spec.env;
	start.watch = &inside->watch;
	job->inside = inside;
	job->pending++;
	engine->ops->exec(engine, &start, on_started, inside);
	return 0;
}

void inside_cancel(struct job *job)
{
	struct inside *inside = take_ptr(job->inside);
	struct engine *engine = job->tasks->config.engine;

	if (!inside)
		return;
	if (!job->tasks->is_shut) {
		engine->ops->unwatch(engine, &inside->watch);
		if (inside->is_started)
			engine->ops->abandon(engine, job->run->sandbox.text, inside->exec.text);
	}
	inside->job = NULL;
	if (inside->is_started)
		inside_free(inside);
	else
		job->pending--; /* on_started frees it */
}

void inside_complaint(const struct inside_end *end, char *out, size_t size)
{
	const char *text = (const char *)buf_head(end->errors);
	size_t len = buf_len(end->errors);

	if (!end->exec) {
		(void)!str_copy(out, size, end->err->msg);
		return;
	}
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (len > 0)
		str_escape(out, size, text, len);
	else if (end->exec->signal)
		(void)snprintf(out, size, "it was ended by signal %d", end->exec->signal);
	else
		(void)snprintf(out, size, "it ended with status %d", end->exec->exit_code);
}
