#include "http/sse.h"

#include <errno.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "http/request.h"

/* Whoever sends can send it later as well: what waits for a client is a mouthful, not a meal. */
enum { EVENT_BYTES = 512 * 1024, FULL_BYTES = 4 * 1024, BEAT_MS = 15000 };

struct sse {
	struct request *request;
	struct buf buf;
	struct loop_timer beat;
	const struct sse_ops *ops;
	void *ctx;
	bool refused;
	bool finished;
};

bool sse_is_wanted(const struct request *request)
{
	const char *accept = request_header(request, "Accept");

	return accept && strstr(accept, "text/event-stream");
}

static ssize_t on_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	struct sse *sse = ctx;
	size_t take;

	if (buf_len(&sse->buf) == 0 && sse->refused && !sse->finished) {
		sse->refused = false;
		sse->ops->on_writable(sse, sse->ctx);
	}
	take = MIN(max, buf_len(&sse->buf));
	if (take == 0)
		return sse->finished ? REQUEST_STREAM_END : 0;
	memcpy(to, buf_head(&sse->buf), take);
	buf_consume(&sse->buf, take);
	if (buf_len(&sse->buf) == 0)
		buf_done(&sse->buf); /* most clients wait most of the time, and weigh nothing */
	return (ssize_t)take;
}

static void on_beat(struct loop_timer *timer, void *ctx)
{
	struct sse *sse = ctx;

	/* A full buffer means the client has enough to read. */
	if (buf_len(&sse->buf) == 0 && buf_puts(&sse->buf, ":\n\n") == 0)
		request_more(sse->request);
	loop_timer_in(request_loop(sse->request), timer, BEAT_MS, on_beat, sse);
}

static void on_end(struct request *request, bool gone, void *ctx)
{
	struct sse *sse = ctx;

	loop_timer_stop(&sse->beat);
	sse->ops->on_end(sse, gone, sse->ctx);
	buf_done(&sse->buf);
	request_unref(sse->request);
	mem_freep(&sse);
}

struct sse *sse_open(struct request *request, const struct sse_ops *ops, void *ctx)
{
	struct sse *sse = mem_new(struct sse);

	sse->request = request_ref(request);
	sse->ops = ops;
	sse->ctx = ctx;
	buf_init(&sse->buf, FULL_BYTES + EVENT_BYTES);
	request_set_on_end(request, on_end, sse);
	request_add_header(request, "Cache-Control", "no-store");
	request_answer_stream(request, 200, "text/event-stream", UINT64_MAX, on_pull, sse);
	/* Something at once, so that the client sees the stream open. */
	if (buf_puts(&sse->buf, ":\n\n") < 0)
		sse->finished = true;
	loop_timer_in(request_loop(request), &sse->beat, BEAT_MS, on_beat, sse);
	return sse;
}

static int put_lines(struct buf *buf, const char *data)
{
	int r = 0;

	do {
		size_t len = strcspn(data, "\n");

		r = buf_printf(buf, "data: %.*s\n", (int)len, data);
		data += len;
	} while (r == 0 && *data++ == '\n');
	return r == 0 ? buf_puts(buf, "\n") : r;
}

int sse_send(struct sse *sse, const char *id, const char *event, const char *data)
{
	struct buf one;
	int r = 0;

	if (sse->finished)
		return -EPIPE;
	if (buf_len(&sse->buf) >= FULL_BYTES) {
		sse->refused = true;
		return -EAGAIN;
	}
	buf_init(&one, EVENT_BYTES);
	if (id)
		r = buf_printf(&one, "id: %s\n", id);
	if (r == 0 && event)
		r = buf_printf(&one, "event: %s\n", event);
	if (r == 0)
		r = put_lines(&one, data);
	if (r == 0)
		r = buf_put(&sse->buf, buf_head(&one), buf_len(&one));
	buf_done(&one);
	if (r < 0) {
		sse->refused = true;
		return -EAGAIN;
	}
	request_more(sse->request);
	return 0;
}

void sse_finish(struct sse *sse)
{
	sse->finished = true;
	request_more(sse->request);
}
