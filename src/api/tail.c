#include "api/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "api/call.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

static void on_output(struct exec_watch *watch, void *ctx)
{
	struct tail *tail = ctx;

	tail->ops->on_ready(tail, tail->ctx);
}

static void on_room(struct exec_watch *watch, void *ctx)
{
	struct tail *tail = ctx;

	if (tail->ops->on_room)
		tail->ops->on_room(tail, tail->ctx);
}

static void on_over(struct exec_watch *watch, const struct exec *exec, void *ctx)
{
	struct tail *tail = ctx;

	tail->is_live = false;
	tail->final = exec ? exec_copy(exec) : NULL;
	if (exec)
		watch->written = exec->output_bytes;
	tail->ops->on_ready(tail, tail->ctx);
}

static const struct exec_watch_ops watch_ops = {on_output, on_room, on_over};

void tail_init(struct tail *tail, struct api *api, const struct tail_target *target,
               const struct tail_ops *ops, void *ctx)
{
	*tail = (struct tail){.api = api, .is_live = true, .ops = ops, .ctx = ctx};
	must(str_copy(tail->sandbox, sizeof(tail->sandbox), target->sandbox));
	must(str_copy(tail->exec, sizeof(tail->exec), target->exec));
	tail->watch = (struct exec_watch){
		.ops = &watch_ops,
		.ctx = tail,
		.is_holder = target->flags & TAIL_HOLD,
		.is_writer = target->flags & TAIL_WRITER,
		.written = target->written,
	};
}

int tail_join(struct tail *tail, uint64_t offset, struct err *err)
{
	struct engine *engine = tail->api->engine;

	tail->start = offset;
	tail->offset = offset;
	tail->watch.acked = offset;
	if (engine->ops->watch(engine, tail->sandbox, tail->exec, &tail->watch, err) == 0)
		return 0;
	if (err->code != ERR_NOT_FOUND)
		return -1;
	*err = (struct err){0};
	tail->is_live = false;
	return 0;
}

void tail_done(struct tail *tail)
{
	if (!tail->api)
		return;
	tail->api->engine->ops->unwatch(tail->api->engine, &tail->watch);
	if (tail->is_open)
		outlog_reader_close(&tail->reader);
	tail->is_open = false;
	exec_free(tail->final);
	tail->final = NULL;
	tail->api = NULL;
}

/* The log appears with the exec; until then there is nothing. */
static int open_log(struct tail *tail, struct err *err)
{
	char path[96];
	int fd;
	int r;

	/* Both ids were made by us or checked: no slash can be in them. */
	(void)snprintf(path, sizeof(path), "%s/out/%s", tail->sandbox, tail->exec);
	fd = openat(tail->api->sandboxes_fd, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0
		                       : err_sys(err, errno, "open the output of %s", tail->exec);
	r = outlog_reader_open(&tail->reader, fd, tail->start);
	if (r < 0)
		return err_sys(err, -r, "read the output of %s", tail->exec);
	tail->is_open = true;
	return 0;
}

/* Of a command that printed nothing the engine knows all there is: no file is opened for it. */
static bool is_silent(const struct tail *tail)
{
	return !tail->is_open && tail->watch.ended && tail->watch.written <= tail->start;
}

static int take_exit(struct tail *tail, struct outlog_record *ret)
{
	const struct exec *exec = tail->watch.ended;
	int len = snprintf(tail->exit_text, sizeof(tail->exit_text), "%s=%d reason=%.31s",
	                   exec->signal ? "signal" : "code",
	                   exec->signal ? exec->signal : exec->exit_code, exec->reason); /* fits */

	*ret = (struct outlog_record){.stream = OUTLOG_EXIT,
	                              .offset = tail->start,
	                              .time_ms = exec->ended_ms,
	                              .bytes = (const uint8_t *)tail->exit_text,
	                              .len = (uint32_t)len};
	tail->is_at_end = true;
	return TAIL_RECORD;
}

int tail_next(struct tail *tail, struct outlog_record *ret, struct err *err)
{
	int r = 0;

	if (tail->is_at_end)
		return TAIL_END;
	if (is_silent(tail))
		return take_exit(tail, ret);
	if (!tail->is_open && tail->is_live && tail->watch.written <= tail->start)
		return TAIL_NOTHING_YET;
	if (!tail->is_open && open_log(tail, err) < 0)
		return -1;
	if (tail->is_open)
		r = outlog_next(&tail->reader, ret);
	if (r < 0)
		return err_sys(err, -r, "read the output of %s", tail->exec);
	if (r == 0 && tail->is_open && outlog_skip(&tail->reader, tail->watch.written, ret))
		r = TAIL_RECORD;
	if (r == 0) {
		tail->is_at_end = !tail->is_live;
		return tail->is_live ? TAIL_NOTHING_YET : TAIL_END;
	}
	if (ret->stream == OUTLOG_EXIT)
		tail->is_at_end = true;
	else if (ret->stream == OUTLOG_GAP)
		tail->offset = ret->offset;
	else
		tail->offset = ret->offset + ret->len;
	return TAIL_RECORD;
}

void tail_ack(struct tail *tail)
{
	if (tail->watch.is_holder && tail->is_live)
		tail->api->engine->ops->ack(tail->api->engine, &tail->watch, tail->offset);
}

void tail_parse_exit(const struct outlog_record *record, struct tail_exit *ret)
{
	char text[96] = "";
	int used = 0;

	*ret = (struct tail_exit){.signal = 9, .reason = "lost"};
	memcpy(text, record->bytes, MIN(record->len, sizeof(text) - 1));
	if (sscanf(text, "code=%d%n", &ret->code, &used) == 1)
		ret->signal = 0;
	else if (sscanf(text, "signal=%d%n", &ret->signal, &used) != 1)
		return;
	if (sscanf(text + used, " reason=%31[a-z_]", ret->reason) != 1)
		must(str_copy(ret->reason, sizeof(ret->reason), ret->signal ? "signal" : "exited"));
}
