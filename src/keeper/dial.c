#include "keeper/dial.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

enum {
	CONNECT_MS = 15 * 1000, /* until a server answers */
	AWAY_MS = 5 * 1000,     /* until there is a dialer again */
	AGAIN_MS = 20,
};

void dials_init(struct dials *dials, struct loop *loop, const uint64_t *generation)
{
	*dials = (struct dials){.loop = loop, .generation = generation, .sock = -1, .has_v6 = true};
}

static void leave_dialer(struct dials *dials)
{
	loop_remove(&dials->source);
	fd_closep(&dials->sock);
}

void dials_done(struct dials *dials)
{
	while (dials->first)
		dial_cancel(dials->first);
	leave_dialer(dials);
	mem_freep(&dials->bytes);
}

void dial_cancel(struct dial *dial)
{
	if (!dial)
		return;
	struct dial **at = &dial->dials->first;
	while (*at != dial)
		at = &(*at)->next;
	*at = dial->next;
	loop_remove(&dial->source);
	loop_timer_stop(&dial->timer);
	loop_timer_stop(&dial->again);
	fd_closep(&dial->fd);
	free(dial);
}

static void finish(struct dial *dial, const struct err *err)
{
	dial_on_done on_done = dial->on_done;
	void *ctx = dial->ctx;
	loop_remove(&dial->source);
	int fd = err->code == ERR_OK ? take_fd(&dial->fd) : -1;
	dial_cancel(dial);
	on_done(ctx, fd, err);
}

static void fail(struct dial *dial, enum err_code code, const char *text)
{
	struct err err = {0};
	err_set(&err, code, "%s", text);
	finish(dial, &err);
}

static void on_late(struct loop_timer *timer, void *ctx)
{
	struct dial *dial = ctx;
	fail(dial, ERR_TIMEOUT,
	     dial->fd >= 0 ? "nobody answered there"
	                   : "the network service of this machine is away");
}

/* --- asking --- */

static void ask_again(struct dial *dial);

static void ask(struct dial *dial)
{
	struct dials *dials = dial->dials;
	if (dials->sock < 0)
		return; /* the timer runs; dials_take asks again */
	auto_wire_out struct wire_out out;
	dial->request = ++dials->last_request;
	wire_begin(&out, dial->type, dial->request);
	wire_put_str(&out, FIELD_PROTO, dial->is_udp ? "udp" : "tcp");
	if (dial->type == WIRE_D_RESOLVE) {
		wire_put_u64(&out, FIELD_NUMBER, dial->to.port);
	} else {
		char text[ADDR_TEXT];
		addr_format(text, sizeof(text), &dial->to.addr);
		wire_put_str(&out, FIELD_ADDRESS, text);
		wire_put_u64(&out, FIELD_PORT, dial->to.port);
		wire_put_u64(&out, FIELD_GENERATION, *dials->generation);
	}
	int r = wire_send(dials->sock, &out);
	if (r == -EAGAIN)
		ask_again(dial);
	else if (r < 0)
		leave_dialer(dials);
}

static void on_again(struct loop_timer *timer, void *ctx)
{
	ask(ctx);
}

static void ask_again(struct dial *dial)
{
	loop_timer_in(dial->dials->loop, &dial->again, AGAIN_MS, on_again, dial);
}

/* A socket on its way is finished when it can be written to. */
static void on_connected(struct loop_source *source, uint32_t events, void *ctx)
{
	struct dial *dial = ctx;
	struct err err = {0};
	int sys = 0;
	socklen_t len = sizeof(sys);
	if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
		sys = errno;
	if (sys)
		err_set(&err, ERR_UNAVAILABLE, "cannot connect: %s", strerror(sys));
	finish(dial, &err);
}

static void take_socket(struct dial *dial, struct wire_msg *msg)
{
	dial->fd = wire_take_fd(msg, 0);
	if (dial->fd < 0) {
		fail(dial, ERR_PROTOCOL, "the dialer answered without a socket");
		return;
	}
	if (dial->type == WIRE_D_RESOLVE) {
		dial->dials->resolvers = (size_t)wire_u64(msg, FIELD_ENTRIES, 1);
		dial->dials->has_v6 = wire_u64(msg, FIELD_HAS_V6, 1) != 0;
	}
	if (dial->is_udp) {
		finish(dial, &(struct err){0});
		return;
	}
	struct pollfd ready = {.fd = dial->fd, .events = POLLOUT};
	if (poll(&ready, 1, 0) > 0) {
		on_connected(NULL, 0, dial); /* near enough to be done already */
		return;
	}
	loop_timer_in(dial->dials->loop, &dial->timer, CONNECT_MS, on_late, dial);
	if (loop_add(dial->dials->loop, &dial->source, dial->fd, EPOLLOUT, on_connected, dial) < 0)
		fail(dial, ERR_UNAVAILABLE, "too many connections");
}

static void on_answer(struct dials *dials, struct wire_msg *msg)
{
	struct dial *dial = dials->first;
	struct err err = {0};
	while (dial && dial->request != msg->request)
		dial = dial->next;
	if (!dial)
		return; /* given up meanwhile */
	if (wire_get_err(msg, &err) == 0)
		take_socket(dial, msg);
	else if (err.code == ERR_CONFLICT)
		ask_again(dial); /* until the timer ends it */
	else
		finish(dial, &err);
}

static void on_dialer(struct loop_source *source, uint32_t events, void *ctx)
{
	struct dials *dials = ctx;
	struct wire_msg msg;
	if (!dials->bytes)
		dials->bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	int r = wire_recv(dials->sock, dials->bytes, LIMIT_WIRE_BYTES, &msg);
	if (r == -EAGAIN)
		return;
	if (r <= 0) {
		leave_dialer(dials);
		return;
	}
	on_answer(dials, &msg);
	wire_msg_done(&msg);
}

void dials_take(struct dials *dials, int sock)
{
	leave_dialer(dials);
	dials->sock = sock;
	if (loop_add(dials->loop, &dials->source, sock, EPOLLIN, on_dialer, dials) < 0) {
		fd_closep(&dials->sock);
		return;
	}
	for (struct dial *dial = dials->first; dial; dial = dial->next) {
		if (dial->fd < 0)
			ask(dial);
	}
}

static struct dial *start(struct dials *dials, const struct dial *like)
{
	struct dial *dial = mem_new(struct dial);
	*dial = *like;
	dial->dials = dials;
	dial->fd = -1;
	dial->next = dials->first;
	dials->first = dial;
	loop_timer_in(dials->loop, &dial->timer, AWAY_MS, on_late, dial);
	ask(dial);
	return dial;
}

struct dial *dial_to(struct dials *dials, const struct transparent_end *to, bool is_udp,
                     dial_on_done on_done, void *ctx)
{
	struct dial like = {
		.type = WIRE_D_DIAL, .to = *to, .is_udp = is_udp, .on_done = on_done, .ctx = ctx};
	return start(dials, &like);
}

struct dial *dial_resolver(struct dials *dials, uint16_t number, bool is_udp, dial_on_done on_done,
                           void *ctx)
{
	struct dial like = {.type = WIRE_D_RESOLVE,
	                    .to = {.port = number},
	                    .is_udp = is_udp,
	                    .on_done = on_done,
	                    .ctx = ctx};
	return start(dials, &like);
}
