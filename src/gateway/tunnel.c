#include "gateway/tunnel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "gateway/inbound.h"
#include "http/request.h"
#include "net/http_answer.h"

enum { HEAD_MOST = 16 * 1024, HEAD_MS = 20 * 1000, PIECE = 64 * 1024 };

struct tunnel;

/* What goes towards one end. */
struct side {
	struct tunnel *tunnel;
	int fd; /* the caller's is the server's own */
	struct loop_source source;
	struct buf out;
	bool is_read_over;  /* nothing more comes from it */
	bool is_write_over; /* nothing more goes to it */
};

struct tunnel {
	struct request *request;
	struct side inside, caller;
	struct loop_timer late;
	bool is_open; /* 101 was said */
};

static void tunnel_free(struct tunnel *tunnel)
{
	loop_timer_stop(&tunnel->late);
	loop_remove(&tunnel->inside.source);
	loop_remove(&tunnel->caller.source);
	fd_closep(&tunnel->inside.fd);
	buf_done(&tunnel->inside.out);
	buf_done(&tunnel->caller.out);
	request_set_on_end(tunnel->request, NULL, NULL);
	if (tunnel->is_open)
		request_upgraded_close(tunnel->request);
	request_unref(tunnel->request);
	mem_freep(&tunnel);
}

static void on_request_over(struct request *request, bool gone, void *ctx)
{
	tunnel_free(ctx);
}

/* --- both ways --- */

static int watch(struct side *side, const struct side *other)
{
	uint32_t events = buf_len(&side->out) > 0 ? EPOLLOUT : 0;

	if (!side->is_read_over && buf_room(&other->out) > 0)
		events |= EPOLLIN;
	return loop_change(&side->source, events);
}

/* From one end into what waits for the other. <0: it broke. */
static int take(struct side *from, struct side *to)
{
	ssize_t n = buf_read_fd(&to->out, from->fd, buf_room(&to->out));

	if (n == -EAGAIN || n == -EINTR)
		return 0;
	from->is_read_over = n == 0;
	return n < 0 ? (int)n : 0;
}

static int give(struct side *to, const struct side *from)
{
	ssize_t n = 1;

	while (buf_len(&to->out) > 0 && n > 0)
		n = buf_write_fd(&to->out, to->fd);
	if (n < 0 && n != -EAGAIN && n != -EINTR)
		return (int)n;
	if (buf_len(&to->out) == 0 && from->is_read_over && !to->is_write_over) {
		to->is_write_over = true;
		(void)shutdown(to->fd, SHUT_WR); /* one that is gone shows at its next event */
	}
	return 0;
}

static void on_side(struct loop_source *source, uint32_t events, void *ctx)
{
	struct side *side = ctx;
	struct tunnel *tunnel = side->tunnel;
	struct side *other = side == &tunnel->inside ? &tunnel->caller : &tunnel->inside;
	int r = events & EPOLLERR ? -EPIPE : 0;

	if (r == 0 && (events & (EPOLLIN | EPOLLHUP)) && !side->is_read_over &&
	    buf_room(&other->out) > 0)
		r = take(side, other);
	if (r == 0)
		r = give(other, side);
	if (r == 0 && (events & EPOLLOUT))
		r = give(side, other);
	if (r == 0 && !(side->is_write_over && other->is_write_over))
		r = watch(side, other) < 0 || watch(other, side) < 0 ? -EIO : 0;
	else
		r = -EPIPE;
	if (r < 0)
		tunnel_free(tunnel);
}

static void on_open(struct request *request, int fd, const void *early, size_t early_len, void *ctx)
{
	struct tunnel *tunnel = ctx;
	struct loop *loop = request_loop(request);
	int r = buf_put(&tunnel->inside.out, early, early_len);

	tunnel->is_open = true;
	tunnel->caller.fd = fd;
	if (r == 0)
		r = loop_add(loop, &tunnel->caller.source, fd, EPOLLIN | EPOLLOUT, on_side,
		             &tunnel->caller);
	if (r == 0)
		r = loop_add(loop, &tunnel->inside.source, tunnel->inside.fd, EPOLLIN | EPOLLOUT,
		             on_side, &tunnel->inside);
	if (r < 0)
		request_disconnect(request);
}

/* --- the head --- */

static void refuse(struct tunnel *tunnel, enum err_code code, const char *text)
{
	static const char *const form =
		"{\"type\":\"about:blank\",\"title\":\"the call could not be "
		"passed on\",\"status\":%d,\"detail\":\"%s\",\"code\":\"%s\"}";
	struct request *request = request_ref(tunnel->request);
	auto_free char *problem = mem_printf(form, err_http(code), text, err_name(code));

	tunnel_free(tunnel);
	request_answer(request, err_http(code), "application/problem+json", problem,
	               strlen(problem));
	request_unref(request);
}

static void on_late(struct loop_timer *timer, void *ctx)
{
	refuse(ctx, ERR_TIMEOUT, "the port did not answer in time");
}

struct reading {
	struct tunnel *tunnel;
	char *protocol;
};

static void on_field(const char *name, const char *value, void *ctx)
{
	struct reading *reading = ctx;

	if (strcasecmp(name, "Upgrade") == 0 && !reading->protocol)
		reading->protocol = mem_strdup(value);
	else if (inbound_may_return(name))
		request_add_header(reading->tunnel->request, name, value);
}

static void on_answered(struct tunnel *tunnel, size_t len)
{
	struct buf *got = &tunnel->caller.out;
	auto_free char *head = mem_strndup((const char *)buf_head(got), len);
	struct reading reading = {tunnel, NULL};
	bool is_switched = http_answer_read(head, on_field, &reading) == 101 && reading.protocol;
	auto_free char *protocol = reading.protocol;

	loop_timer_stop(&tunnel->late);
	loop_remove(&tunnel->inside.source);
	if (!is_switched) {
		refuse(tunnel, ERR_PROTOCOL, "the port does not switch protocols");
		return;
	}
	buf_consume(got, len); /* what follows is the caller's */
	request_upgrade(tunnel->request, protocol, on_open, tunnel);
}

static void on_head(struct loop_source *source, uint32_t events, void *ctx)
{
	struct tunnel *tunnel = ctx;
	struct buf *got = &tunnel->caller.out;
	const uint8_t *end;
	ssize_t n;

	if ((events & EPOLLOUT) && give(&tunnel->inside, &tunnel->caller) < 0) {
		refuse(tunnel, ERR_PROTOCOL, "the port was closed");
		return;
	}
	if (buf_len(&tunnel->inside.out) == 0)
		(void)loop_change(source, EPOLLIN); /* fails only for a source that is not there */
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	n = buf_read_fd(got, tunnel->inside.fd, HEAD_MOST);
	if (n == -EAGAIN || n == -EINTR)
		return;
	end = n > 0 ? memmem(buf_head(got), buf_len(got), "\r\n\r\n", 4) : NULL;
	if (end)
		on_answered(tunnel, (size_t)(end - buf_head(got)) + 4);
	else if (n <= 0 || buf_len(got) >= HEAD_MOST)
		refuse(tunnel, ERR_PROTOCOL, "the port gave no answer");
}

static int write_head(struct tunnel *tunnel, uint16_t port, const char *target)
{
	struct buf *out = &tunnel->inside.out;
	struct strings headers = {0};
	int r = buf_printf(out, "%s %s HTTP/1.1\r\n", request_method(tunnel->request), target);

	inbound_headers(tunnel->request, port, true, &headers);
	for (size_t i = 0; r == 0 && i < headers.count; i++)
		r = buf_printf(out, "%s\r\n", headers.items[i]);
	strings_done(&headers);
	return r == 0 ? buf_puts(out, "\r\n") : r;
}

void tunnel_serve(struct request *request, int fd, uint16_t port, const char *target)
{
	struct tunnel *tunnel = mem_new(struct tunnel);
	struct loop *loop = request_loop(request);

	tunnel->request = request_ref(request);
	tunnel->inside = (struct side){.tunnel = tunnel, .fd = fd};
	tunnel->caller = (struct side){.tunnel = tunnel, .fd = -1};
	buf_init(&tunnel->inside.out, PIECE);
	buf_init(&tunnel->caller.out, PIECE);
	request_set_on_end(request, on_request_over, tunnel);
	loop_timer_in(loop, &tunnel->late, HEAD_MS, on_late, tunnel);
	if (write_head(tunnel, port, target) < 0 ||
	    loop_add(loop, &tunnel->inside.source, fd, EPOLLIN | EPOLLOUT, on_head, tunnel) < 0)
		refuse(tunnel, ERR_LIMITED, "the request does not fit");
}
