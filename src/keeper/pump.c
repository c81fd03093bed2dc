#include "keeper/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PIPE_BYTES = 1024 * 1024, /* the most an ordinary user may have */
	ROUNDS = 4,               /* of one direction at a time: others have a turn, too */
};

/* --- pipes --- */

static bool take_pipe(struct pump_pool *pool, int ret[2])
{
	if (pool->count > 0) {
		pool->count--;
		ret[0] = pool->pipes[pool->count][0];
		ret[1] = pool->pipes[pool->count][1];
		return true;
	}
	if (pipe2(ret, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	(void)fcntl(ret[0], F_SETPIPE_SZ, PIPE_BYTES); /* a small one is only slower */
	return true;
}

/* Only an empty one is used again. */
static void give_pipe(struct pump_pool *pool, struct pump_line *line)
{
	if (line->pipe[0] < 0)
		return;
	if (line->in_pipe == 0 && pool->count < PUMP_IDLE_PIPES) {
		pool->pipes[pool->count][0] = take_fd(&line->pipe[0]);
		pool->pipes[pool->count][1] = take_fd(&line->pipe[1]);
		pool->count++;
	}
	fd_closep(&line->pipe[0]);
	fd_closep(&line->pipe[1]);
}

void pump_pool_done(struct pump_pool *pool)
{
	for (size_t i = 0; i < pool->count; i++) {
		fd_closep(&pool->pipes[i][0]);
		fd_closep(&pool->pipes[i][1]);
	}
	pool->count = 0;
}

/* --- one direction; all return false when the connection failed --- */

static size_t allowance(struct pump *pump, enum pump_way way)
{
	if (way == PUMP_IN)
		return PIPE_BYTES;
	size_t most = pump->hooks->may_send(pump->ctx);
	pump->is_paused = most == 0;
	return MIN(most, (size_t)PIPE_BYTES);
}

/* From the source into the pipe. *ret_is_idle: nothing is there. */
static bool fill(struct pump *pump, enum pump_way way, bool *ret_is_idle)
{
	struct pump_line *line = &pump->lines[way];
	size_t most = allowance(pump, way);
	*ret_is_idle = true;
	if (most == 0)
		return true;
	if (line->pipe[0] < 0 && !take_pipe(pump->pool, line->pipe))
		return false;
	ssize_t n = splice(pump->sides[way].fd, NULL, line->pipe[1], NULL, most,
	                   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	line->is_at_end = n == 0;
	line->in_pipe = (size_t)n;
	*ret_is_idle = n == 0;
	if (n > 0)
		pump->hooks->moved(pump->ctx, way, (size_t)n);
	return true;
}

static bool drain(struct pump *pump, enum pump_way way)
{
	struct pump_line *line = &pump->lines[way];
	ssize_t n = splice(line->pipe[0], NULL, pump->sides[1 - way].fd, NULL, line->in_pipe,
	                   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return false;
	line->is_waiting = n < 0 && errno == EAGAIN;
	line->in_pipe -= n > 0 ? (size_t)n : 0;
	return true;
}

static bool splice_line(struct pump *pump, enum pump_way way)
{
	struct pump_line *line = &pump->lines[way];
	bool is_good = true, is_idle = false;
	line->is_waiting = false;
	for (int i = 0; is_good && i < ROUNDS && !line->is_waiting; i++) {
		if (line->in_pipe == 0) {
			if (line->is_at_end)
				break;
			is_good = fill(pump, way, &is_idle);
			if (!is_good || is_idle)
				break;
		}
		is_good = drain(pump, way);
	}
	if (line->in_pipe == 0)
		give_pipe(pump->pool, line);
	return is_good;
}

/* What may go on of what is held. *ret_is_idle: not now. */
static bool send_passed(struct pump *pump, bool *ret_is_idle)
{
	struct pump_line *line = &pump->lines[PUMP_OUT];
	size_t most = MIN(pump->passed, allowance(pump, PUMP_OUT));
	*ret_is_idle = most == 0;
	if (most == 0)
		return true;
	ssize_t n = send(pump->sides[PUMP_IN].fd, buf_head(pump->held), most,
	                 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return false;
	line->is_waiting = n < 0 && errno == EAGAIN;
	if (n > 0) {
		buf_consume(pump->held, (size_t)n);
		pump->passed -= (size_t)n;
		pump->hooks->moved(pump->ctx, PUMP_OUT, (size_t)n);
	}
	return true;
}

/* More bytes to look at. *ret_is_idle: none are there. */
static bool read_held(struct pump *pump, bool *ret_is_idle)
{
	struct pump_line *line = &pump->lines[PUMP_OUT];
	*ret_is_idle = true;
	if (line->is_at_end || pump->wants_answer)
		return true;
	ssize_t n = buf_read_fd(pump->held, pump->sides[PUMP_OUT].fd, buf_room(pump->held));
	if (n < 0)
		return n == -EAGAIN || n == -EINTR;
	line->is_at_end = n == 0;
	*ret_is_idle = n == 0;
	return true;
}

/* Asks whoever looks what may go on. *ret_is_idle: nothing can be done now. */
static bool look(struct pump *pump, bool *ret_is_idle)
{
	struct pump_line *line = &pump->lines[PUMP_OUT];
	bool is_over = false;
	size_t pass = 0;
	*ret_is_idle = false;
	if (!pump->hooks->look(pump->ctx, pump->held, &pass, &is_over))
		return false;
	if (is_over)
		pass = buf_len(pump->held);
	pump->passed = pass;
	if (is_over && pass == 0)
		pump->held = NULL;
	if (pass > 0 || is_over)
		return true;
	/* Half a request and then nothing: it will never be whole. */
	if (line->is_at_end && buf_len(pump->held) > 0 && !pump->wants_answer)
		return false;
	return read_held(pump, ret_is_idle);
}

static bool look_line(struct pump *pump)
{
	struct pump_line *line = &pump->lines[PUMP_OUT];
	line->is_waiting = false;
	pump->is_unseen = true;
	for (int i = 0; pump->held && i < 2 * ROUNDS && !line->is_waiting; i++) {
		bool is_idle = false;
		if (!(pump->passed > 0 ? send_passed(pump, &is_idle) : look(pump, &is_idle)))
			return false;
		pump->is_unseen = !is_idle;
		if (is_idle)
			break;
	}
	pump->is_unseen = pump->is_unseen && pump->held;
	return pump->held || splice_line(pump, PUMP_OUT);
}

static bool is_drained(const struct pump *pump, enum pump_way way)
{
	bool has_held = way == PUMP_OUT && pump->held && buf_len(pump->held) > 0;
	return pump->lines[way].in_pipe == 0 && !has_held;
}

static bool run_line(struct pump *pump, enum pump_way way)
{
	struct pump_line *line = &pump->lines[way];
	bool is_good = way == PUMP_OUT && pump->held ? look_line(pump) : splice_line(pump, way);
	if (is_good && line->is_at_end && !line->is_shut && is_drained(pump, way)) {
		(void)shutdown(pump->sides[1 - way].fd, SHUT_WR); /* gone already: seen there */
		line->is_shut = true;
	}
	return is_good;
}

/* --- both --- */

static void on_side(struct loop_source *source, uint32_t events, void *ctx);

/* A side that wants nothing leaves the loop: its hang-up would be told again and again. */
static bool watch(struct pump *pump, enum pump_way way, uint32_t events)
{
	struct pump_side *side = &pump->sides[way];
	if (events == 0) {
		loop_remove(&side->source);
		return true;
	}
	if (side->source.fd >= 0)
		return side->source.events == events || loop_change(&side->source, events) >= 0;
	return loop_add(pump->loop, &side->source, side->fd, events, on_side, side) >= 0;
}

static bool update(struct pump *pump)
{
	const struct pump_line *out = &pump->lines[PUMP_OUT], *in = &pump->lines[PUMP_IN];
	bool reads_inside = !out->is_at_end && !pump->is_paused && out->in_pipe == 0 &&
	                    pump->passed == 0 && !(pump->held && pump->wants_answer);
	bool reads_outside = !in->is_at_end && in->in_pipe == 0;
	bool writes_outside =
		out->in_pipe > 0 || ((pump->passed > 0 || pump->is_unseen) && !pump->is_paused);
	uint32_t inside = (reads_inside ? EPOLLIN : 0U) | (in->in_pipe > 0 ? EPOLLOUT : 0U);
	uint32_t outside = (reads_outside ? EPOLLIN : 0U) | (writes_outside ? EPOLLOUT : 0U);
	return watch(pump, PUMP_OUT, inside) && watch(pump, PUMP_IN, outside);
}

static void run(struct pump *pump, bool does_out, bool does_in)
{
	bool is_good = !does_out || run_line(pump, PUMP_OUT);
	/* An answer somebody waits for is looked at before it goes on: on_side does that. */
	bool is_awaited = pump->wants_answer && pump->lines[PUMP_IN].in_pipe == 0;
	if (is_good && does_in && !is_awaited)
		is_good = run_line(pump, PUMP_IN);
	bool is_over = pump->lines[PUMP_OUT].is_shut && pump->lines[PUMP_IN].is_shut;
	if (is_good && !is_over)
		is_good = update(pump);
	if (!is_good || is_over)
		pump->hooks->ended(pump->ctx, !is_good);
}

/* The answer's first bytes, without taking them. */
static void peek_answer(struct pump *pump)
{
	uint8_t bytes[16];
	ssize_t n = recv(pump->sides[PUMP_IN].fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	pump->wants_answer = false;
	pump->hooks->answered(pump->ctx, bytes, n > 0 ? (size_t)n : 0);
}

static void on_side(struct loop_source *source, uint32_t events, void *ctx)
{
	struct pump_side *side = ctx;
	struct pump *pump = side->pump;
	bool is_inside = side == &pump->sides[PUMP_OUT];
	bool is_broken = (events & (EPOLLHUP | EPOLLERR)) != 0;
	bool is_answer = !is_inside && pump->wants_answer && events & EPOLLIN;
	if (is_answer)
		peek_answer(pump);
	run(pump, is_broken || is_answer || events & (is_inside ? EPOLLIN : EPOLLOUT),
	    is_broken || events & (is_inside ? EPOLLOUT : EPOLLIN));
}

void pump_start(struct pump *pump, int inside, int outside, struct buf *held)
{
	pump->held = held;
	pump->sides[PUMP_OUT] = (struct pump_side){.pump = pump, .fd = inside};
	pump->sides[PUMP_IN] = (struct pump_side){.pump = pump, .fd = outside};
	pump->sides[PUMP_OUT].source.fd = pump->sides[PUMP_IN].source.fd = -1;
	for (size_t i = 0; i < PUMP_WAYS_; i++)
		pump->lines[i] = (struct pump_line){.pipe = {-1, -1}};
	run(pump, true, true);
}

void pump_resume(struct pump *pump)
{
	if (!pump->is_paused)
		return;
	pump->is_paused = false;
	run(pump, true, false);
}

static void close_side(struct pump_side *side, bool is_reset)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	loop_remove(&side->source);
	if (is_reset && side->fd >= 0)
		(void)setsockopt(side->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd_closep(&side->fd);
}

void pump_stop(struct pump *pump, bool is_reset)
{
	for (size_t i = 0; i < PUMP_WAYS_; i++) {
		close_side(&pump->sides[i], is_reset);
		give_pipe(pump->pool, &pump->lines[i]);
	}
}
