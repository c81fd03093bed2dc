#include "api/inside_run.h"

#include "api/call.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

#define PROGRAM "/run/cloche/cloche"

enum { COMPLAINT_BYTES = 4096 };

static void on_ready(struct tail *tail, void *ctx)
{
	struct inside_run *run = ctx;

	if (run->has_started)
		run->ops->on_ready(run, run->ctx);
}

static void on_room(struct tail *tail, void *ctx)
{
	struct inside_run *run = ctx;

	if (run->has_started && run->ops->on_room)
		run->ops->on_room(run, run->ctx);
}

static void destroy(struct inside_run *run)
{
	struct engine *engine = run->api->engine;

	if (!run->has_failed && !run->tail.is_live)
		engine->ops->release(engine, run->tail.sandbox, run->tail.exec);
	tail_done(&run->tail);
	buf_done(&run->complaint);
	mem_freep(&run);
}

static void abandon(struct inside_run *run)
{
	struct engine *engine = run->api->engine;

	if (run->tail.is_live)
		engine->ops->abandon(engine, run->tail.sandbox, run->tail.exec);
}

static void on_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct inside_run *run = ctx;

	run->has_started = true;
	if (run->is_freed) {
		if (exec)
			abandon(run);
		destroy(run);
		return;
	}
	if (!exec) {
		run->has_failed = true;
		run->err = *err;
	}
	if (exec && run->ops->on_room)
		run->ops->on_room(run, run->ctx);
	else
		run->ops->on_ready(run, run->ctx);
}

struct inside_run *inside_start(struct api *api, const struct sandbox *sandbox,
                                const struct strings *argv, const char *user,
                                const struct inside_ops *ops, void *ctx)
{
	static const struct tail_ops tail_ops = {on_ready, on_room};
	auto_(exec_freep) struct exec *exec = exec_new(&sandbox->id);
	struct inside_run *run = mem_new(struct inside_run);
	struct exec_start start = {.exec = exec, .is_internal = true, .is_attached = true};

	strings_add(&exec->argv, PROGRAM);
	strings_add(&exec->argv, "inside");
	for (size_t i = 0; i < argv->count; i++)
		strings_add(&exec->argv, argv->items[i]);
	spec_set(&exec->user, user ? user : sandbox->spec.user);
	spec_set(&exec->cwd, sandbox->spec.cwd);
	run->api = api;
	run->ops = ops;
	run->ctx = ctx;
	buf_init(&run->complaint, COMPLAINT_BYTES);
	tail_init(&run->tail, api,
	          &(struct tail_target){sandbox->id.text, exec->id.text, TAIL_HOLD}, &tail_ops,
	          run);
	start.has_stdin = ops->on_room != NULL;
	start.watch = &run->tail.watch;
	api->engine->ops->exec(api->engine, &start, on_started, run);
	return run;
}

void inside_free(struct inside_run *run)
{
	if (!run)
		return;
	run->is_freed = true;
	if (!run->has_started)
		return; /* on_started does the rest */
	if (!run->has_failed)
		abandon(run);
	destroy(run);
}

void inside_parse_error(const char *line, size_t len, struct err *ret)
{
	const char *end = memchr(line, '\n', len);
	const char *tab;
	char shown[200];

	if (end)
		len = (size_t)(end - line);
	tab = memchr(line, '\t', len);
	for (uint64_t code = 1; tab && code < ERR_COUNT_; code++) {
		const char *name = err_name((enum err_code)code);

		if (strlen(name) == (size_t)(tab - line) &&
		    strncmp(name, line, strlen(name)) == 0) {
			str_escape(shown, sizeof(shown), tab + 1, len - (size_t)(tab + 1 - line));
			(void)err_set(ret, (enum err_code)code, "%s", shown); /* always -1 */
			return;
		}
	}
	str_escape(shown, sizeof(shown), line, len);
	(void)err_set(ret, ERR_IO, "%s", len ? shown : "the file operation failed"); /* always -1 */
}

static int finish(struct inside_run *run, const struct outlog_record *record, struct err *err)
{
	struct tail_exit end;

	tail_parse_exit(record, &end);
	if (end.signal == 0 && end.code == 0)
		return INSIDE_END;
	if (end.signal != 0)
		return err_set(err, str_eq(end.reason, "disk") ? ERR_NO_SPACE : ERR_UNAVAILABLE,
		               "the file operation was ended: %s", end.reason);
	inside_parse_error((const char *)buf_head(&run->complaint), buf_len(&run->complaint), err);
	return -1;
}

static void keep_complaint(struct inside_run *run, const struct outlog_record *record)
{
	size_t take = MIN((size_t)record->len, buf_room(&run->complaint));

	must(buf_put(&run->complaint, record->bytes, take) == 0);
}

int inside_next(struct inside_run *run, const uint8_t **ret, size_t *ret_len, struct err *err)
{
	struct outlog_record record;
	int r;

	if (run->has_failed) {
		*err = run->err;
		return -1;
	}
	while ((r = tail_next(&run->tail, &record, err)) == TAIL_RECORD) {
		tail_ack(&run->tail);
		if (record.stream == OUTLOG_STDOUT) {
			*ret = record.bytes;
			*ret_len = record.len;
			return INSIDE_BYTES;
		}
		if (record.stream == OUTLOG_STDERR)
			keep_complaint(run, &record);
		else if (record.stream == OUTLOG_EXIT)
			return finish(run, &record, err);
		else if (record.stream == OUTLOG_GAP)
			return err_set(err, ERR_IO, "some output of the file operation was lost");
	}
	if (r < 0)
		return -1;
	if (r == TAIL_END)
		return err_set(err, ERR_UNAVAILABLE, "the sandbox ended during the file operation");
	return INSIDE_NOTHING_YET;
}

ssize_t inside_input(struct inside_run *run, const void *bytes, size_t len, bool eof)
{
	struct engine *engine = run->api->engine;

	if (!run->has_started)
		return 0;
	if (run->has_failed)
		return -1;
	return engine->ops->input(engine, &run->tail.watch, bytes, len, eof);
}
