/*
 * Who: the broker's loop. Capabilities: none used. Bytes: messages of cloched, which is half
 * trusted: through wire_parse, then the op table. Gone at the end: descriptors it sent that no op
 * took.
 */
#include "broker/line.h"

#include <errno.h>
#include <sys/epoll.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "broker/context.h"
#include "broker/ops.h"

struct line_answer {
	struct line_answer *next;
	struct wire_out out;
};

void line_init(struct line *line, struct broker *broker)
{
	*line = (struct line){.broker = broker, .sock = -1};
	line->last = &line->first;
}

static void drop_first(struct line *line)
{
	struct line_answer *answer = line->first;
	line->first = answer->next;
	if (!line->first)
		line->last = &line->first;
	wire_done(&answer->out);
	mem_freep(&answer);
}

void line_close(struct line *line)
{
	loop_remove(&line->source);
	fd_closep(&line->sock);
	while (line->first)
		drop_first(line);
}

/* False when the line is broken; supervise hears of cloched's end by itself. */
static bool flush(struct line *line)
{
	while (line->first) {
		int r = wire_send(line->sock, &line->first->out);
		if (r == -EAGAIN)
			break;
		if (r < 0 && r != -EMSGSIZE)
			return false;
		if (r == -EMSGSIZE)
			log_error("an answer was too large", LOG_INT("errno", -r));
		drop_first(line);
	}
	return loop_change(&line->source, line->first ? EPOLLOUT : EPOLLIN) == 0;
}

static void on_io(struct loop_source *source, uint32_t events, void *ctx)
{
	static uint8_t bytes[LIMIT_WIRE_BYTES]; /* a message is dealt with before the next comes */
	struct line *line = ctx;
	if (line->first) {
		if (!flush(line))
			line_close(line);
		return;
	}
	struct wire_msg msg;
	int r = wire_recv(line->sock, bytes, LIMIT_WIRE_BYTES, &msg);
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r == 0 || r == -ECONNRESET) {
		line_close(line);
		return;
	}
	struct err err = {0};
	if (r < 0) {
		err_set(&err, ERR_PROTOCOL, "malformed message");
	} else {
		r = ops_dispatch(line->broker, &msg, &err);
		wire_msg_done(&msg);
	}
	if (r < 0)
		supervise_kill(&line->broker->supervise, &err);
}

void line_hear_out(struct line *line)
{
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	struct wire_msg msg;
	while (line->sock >= 0 && wire_recv(line->sock, bytes, LIMIT_WIRE_BYTES, &msg) > 0) {
		struct err why = {0};
		if (wire_get_err(&msg, &why) < 0)
			supervise_refused(&line->broker->supervise, &why);
		wire_msg_done(&msg);
	}
}

int line_open(struct line *line, int sock, struct err *err)
{
	line_close(line);
	line->sock = sock;
	int r = io_set_nonblock(sock, true);
	if (r == 0)
		r = loop_add(line->broker->loop, &line->source, sock, EPOLLIN, on_io, line);
	if (r < 0) {
		fd_closep(&line->sock);
		return err_sys(err, -r, "watch cloched");
	}
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_HELLO, 0);
	wire_put_u64(&out, FIELD_VERSION_MIN, WIRE_VERSION);
	wire_put_u64(&out, FIELD_VERSION_MAX, WIRE_VERSION);
	wire_put_str(&out, FIELD_ROLE, "broker");
	r = wire_send(sock, &out);
	return r < 0 ? err_sys(err, -r, "greet cloched") : 0;
}

void line_answer(struct line *line, const struct wire_out *out)
{
	if (line->sock < 0)
		return;
	size_t len;
	const uint8_t *bytes = wire_bytes(out, &len);
	struct line_answer *answer = mem_new(struct line_answer);
	buf_init(&answer->out.buf, LIMIT_WIRE_BYTES);
	answer->out.overflow = out->overflow || buf_put(&answer->out.buf, bytes, len) < 0;
	*line->last = answer;
	line->last = &answer->next;
	if (!flush(line))
		line_close(line);
}

void line_answer_result(struct line *line, uint64_t request, const struct err *err)
{
	auto_wire_out struct wire_out out;
	bool is_ok = !err || err->code == ERR_OK;
	wire_begin(&out, is_ok ? WIRE_OK : WIRE_ERROR, request);
	if (!is_ok)
		wire_put_err(&out, err);
	line_answer(line, &out);
}
