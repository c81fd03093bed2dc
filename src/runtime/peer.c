#include "runtime/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"

enum { PEER_MAGIC = 0x70656572, QUEUE_MAX = 4096, ROUND_MESSAGES = 64 };

struct pending {
	struct pending *next;
	struct peer *peer;
	uint64_t number;
	struct loop_timer timer;
	peer_on_answer on_answer;
	void *ctx;
};

struct queued {
	struct queued *next;
	struct wire_out out; /* the bytes; its fds are our own copies */
};

struct peer {
	uint32_t magic;
	struct loop *loop;
	struct peer_config config;
	int fd;
	struct loop_source source;
	struct loop_timer dying; /* tells a failure from the loop, not under a caller */
	uint64_t last_number;
	struct pending *pending;
	struct queued *first, **last;
	size_t queue_count;
	bool closed;
	bool *freed; /* set while a callback of ours may free us */
};

static void queued_free(struct queued *queued)
{
	for (size_t i = 0; i < queued->out.fd_count; i++)
		fd_closep(&queued->out.fds[i]);
	wire_done(&queued->out);
	mem_freep(&queued);
}

static void drop_queue(struct peer *peer)
{
	while (peer->first) {
		struct queued *queued = peer->first;

		peer->first = queued->next;
		queued_free(queued);
	}
	peer->last = &peer->first;
	peer->queue_count = 0;
}

static struct pending *take_pending(struct peer *peer, uint64_t number)
{
	for (struct pending **at = &peer->pending; *at; at = &(*at)->next) {
		struct pending *pending = *at;

		if (pending->number == number) {
			*at = pending->next;
			loop_timer_stop(&pending->timer);
			return pending;
		}
	}
	return NULL;
}

static void finish(struct pending *pending, struct wire_msg *msg, const struct err *err)
{
	peer_on_answer on_answer = pending->on_answer;
	void *ctx = pending->ctx;

	mem_freep(&pending);
	on_answer(msg, err, ctx);
}

static void fail_all(struct peer *peer)
{
	struct err err = {0};

	(void)err_set(&err, ERR_UNAVAILABLE, "the connection to the %s is gone",
	              peer->config.role); /* always -1 */
	while (peer->pending) {
		struct pending *pending = peer->pending;

		peer->pending = pending->next;
		loop_timer_stop(&pending->timer);
		finish(pending, NULL, &err);
	}
}

static void closed(struct peer *peer)
{
	bool freed = false;

	loop_remove(&peer->source);
	loop_timer_stop(&peer->dying);
	peer->closed = true;
	drop_queue(peer);
	peer->freed = &freed;
	fail_all(peer);
	if (freed)
		return;
	peer->freed = NULL;
	peer->config.on_closed(peer->config.ctx);
}

static void on_dying(struct loop_timer *timer, void *ctx)
{
	closed(ctx);
}

/* From inside a caller's call: the caller learns it from the loop. */
static void die_soon(struct peer *peer)
{
	loop_remove(&peer->source);
	peer->closed = true;
	loop_timer_in(peer->loop, &peer->dying, 0, on_dying, peer);
}

static bool hello_fits(const struct wire_msg *msg)
{
	return wire_u64(msg, FIELD_VERSION_MIN, 1) <= WIRE_VERSION &&
	       wire_u64(msg, FIELD_VERSION_MAX, UINT64_MAX) >= WIRE_VERSION;
}

/* false: the connection must end. */
static bool dispatch(struct peer *peer, struct wire_msg *msg)
{
	struct pending *pending;
	struct err err = {0};

	if (msg->type == WIRE_HELLO && msg->request == 0)
		return hello_fits(msg);
	if (msg->type != WIRE_OK && msg->type != WIRE_ERROR) {
		peer->config.on_message(msg, peer->config.ctx);
		return true;
	}
	pending = take_pending(peer, msg->request);
	if (!pending)
		return true; /* its time was over */
	if (msg->type == WIRE_ERROR) {
		if (wire_get_err(msg, &err) == 0)
			(void)err_set(&err, ERR_PROTOCOL, "the %s refused without a reason",
			              peer->config.role); /* always -1 */
		finish(pending, NULL, &err);
	} else {
		finish(pending, msg, &err);
	}
	return true;
}

/* A message lives until its dispatch is over, so its bytes need no place in every peer: with a
 * thousand sandboxes those places would be most of what the daemon weighs. */
static void receive(struct peer *peer)
{
	uint8_t bytes[LIMIT_WIRE_BYTES];
	bool freed = false;

	peer->freed = &freed;
	for (int i = 0; i < ROUND_MESSAGES; i++) {
		struct wire_msg msg;
		int r = wire_recv(peer->fd, bytes, sizeof(bytes), &msg);
		bool fine;

		if (r == -EAGAIN || r == -EINTR)
			break;
		if (r <= 0) {
			if (r < 0)
				log_warn("a peer sent something else than a message; it is cut",
				         LOG_STR("role", peer->config.role));
			closed(peer);
			return;
		}
		fine = dispatch(peer, &msg);
		wire_msg_done(&msg);
		if (freed)
			return;
		if (!fine) {
			log_error("a peer speaks another version",
			          LOG_STR("role", peer->config.role));
			closed(peer);
			return;
		}
		if (peer->closed)
			break;
	}
	peer->freed = NULL;
}

static void send_queued(struct peer *peer)
{
	while (peer->first) {
		struct queued *queued = peer->first;
		int r = wire_send(peer->fd, &queued->out);

		if (r == -EAGAIN)
			return;
		if (r < 0) {
			die_soon(peer);
			return;
		}
		peer->first = queued->next;
		if (!peer->first)
			peer->last = &peer->first;
		peer->queue_count--;
		queued_free(queued);
	}
	if (loop_change(&peer->source, EPOLLIN) < 0)
		die_soon(peer);
}

static void on_io(struct loop_source *source, uint32_t events, void *ctx)
{
	struct peer *peer = ctx;

	must(peer->magic == PEER_MAGIC);
	if (events & EPOLLOUT)
		send_queued(peer);
	if (!peer->closed && (events & ~(uint32_t)EPOLLOUT))
		receive(peer);
}

int peer_new(struct loop *loop, int fd, const struct peer_config *config, struct peer **ret,
             struct err *err)
{
	struct peer *peer = mem_new(struct peer);
	auto_wire_out struct wire_out out = {0};
	int r;

	peer->magic = PEER_MAGIC;
	peer->loop = loop;
	peer->config = *config;
	peer->fd = fd;
	peer->last = &peer->first;
	r = io_set_nonblock(fd, true);
	if (r == 0)
		r = loop_add(loop, &peer->source, fd, EPOLLIN, on_io, peer);
	if (r < 0) {
		peer_free(peer);
		return err_sys(err, -r, "watch the %s", config->role);
	}
	wire_begin(&out, WIRE_HELLO, 0);
	wire_put_u64(&out, FIELD_VERSION_MIN, WIRE_VERSION);
	wire_put_u64(&out, FIELD_VERSION_MAX, WIRE_VERSION);
	wire_put_str(&out, FIELD_ROLE, "daemon");
	peer_notify(peer, &out);
	*ret = peer;
	return 0;
}

void peer_free(struct peer *peer)
{
	if (!peer)
		return;
	loop_remove(&peer->source);
	loop_timer_stop(&peer->dying);
	peer->closed = true;
	if (peer->freed)
		*peer->freed = true;
	fail_all(peer);
	drop_queue(peer);
	fd_closep(&peer->fd);
	peer->magic = 0;
	mem_freep(&peer);
}

uint64_t peer_begin(struct peer *peer, struct wire_out *out, enum wire_type type)
{
	uint64_t number = ++peer->last_number;

	wire_begin(out, type, number);
	return number;
}

/* Keeps the message for later, with copies of its fds. */
static void enqueue(struct peer *peer, struct wire_out *out)
{
	struct queued *queued;

	if (peer->queue_count >= QUEUE_MAX || loop_change(&peer->source, EPOLLIN | EPOLLOUT) < 0) {
		log_warn("a peer does not take its messages; it is cut",
		         LOG_STR("role", peer->config.role));
		die_soon(peer);
		return;
	}
	queued = mem_new(struct queued);
	queued->out = *out;
	for (size_t i = 0; i < out->fd_count; i++) {
		queued->out.fds[i] = fcntl(out->fds[i], F_DUPFD_CLOEXEC, 3);
		if (queued->out.fds[i] < 0)
			queued->out.overflow = true; /* the send fails instead of lacking an fd */
	}
	*out = (struct wire_out){0};
	*peer->last = queued;
	peer->last = &queued->next;
	peer->queue_count++;
}

void peer_notify(struct peer *peer, struct wire_out *out)
{
	int r;

	if (peer->closed)
		return;
	if (peer->first) {
		enqueue(peer, out);
		return;
	}
	r = wire_send(peer->fd, out);
	if (r == -EAGAIN)
		enqueue(peer, out);
	else if (r == -EMSGSIZE)
		log_error("a message does not fit", LOG_STR("role", peer->config.role));
	else if (r < 0)
		die_soon(peer);
}

static void on_timeout(struct loop_timer *timer, void *ctx)
{
	struct pending *pending = ctx;
	struct err err = {0};

	(void)err_set(&err, ERR_TIMEOUT, "the %s does not answer",
	              pending->peer->config.role); /* always -1 */
	must(take_pending(pending->peer, pending->number) == pending);
	finish(pending, NULL, &err);
}

struct refusal {
	struct loop_timer timer;
	peer_on_answer on_answer;
	void *ctx;
	struct err err;
};

static void on_refusal(struct loop_timer *timer, void *ctx)
{
	auto_free struct refusal *refusal = ctx;

	refusal->on_answer(NULL, &refusal->err, refusal->ctx);
}

/* The answer to a call that never left, told from the loop as every answer is. */
static void refuse(struct peer *peer, enum err_code code, const char *why, peer_on_answer on_answer,
                   void *ctx)
{
	struct refusal *refusal = mem_new(struct refusal);

	(void)err_set(&refusal->err, code, "%s %s", why, peer->config.role); /* always -1 */
	refusal->on_answer = on_answer;
	refusal->ctx = ctx;
	loop_timer_in(peer->loop, &refusal->timer, 0, on_refusal, refusal);
}

void peer_call(struct peer *peer, uint64_t number, struct wire_out *out, uint64_t timeout_ms,
               peer_on_answer on_answer, void *ctx)
{
	struct pending *pending;

	if (peer->closed) {
		refuse(peer, ERR_UNAVAILABLE, "no connection to the", on_answer, ctx);
		return;
	}
	if (out->overflow) {
		refuse(peer, ERR_TOO_LARGE, "too much for one message to the", on_answer, ctx);
		return;
	}
	pending = mem_new(struct pending);
	*pending = (struct pending){.next = peer->pending,
	                            .peer = peer,
	                            .number = number,
	                            .on_answer = on_answer,
	                            .ctx = ctx};
	peer->pending = pending;
	loop_timer_in(peer->loop, &pending->timer, timeout_ms, on_timeout, pending);
	peer_notify(peer, out);
}

bool peer_is_open(const struct peer *peer)
{
	return peer && !peer->closed;
}
