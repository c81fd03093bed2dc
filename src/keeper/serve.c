/*
 * Connections from the daemon on run/<id>.sock. Only the daemon's uid and root are heard. Requests
 * are a table; answers and notifications are queued per connection when its socket is full, up to a
 * cap at which the connection is dropped: the daemon connects again and asks for the state.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "keeper/network.h"
#include "keeper/port.h"
#include "keeper/state.h"

enum {
	CONNECTIONS_MAX = 8,
	DRAIN_MS = 500,
	DEFAULT_GRACE_MS = 2000,
	SIGNAL_MAX = 64,
	ACCEPT_AGAIN_MS = 200,
};

struct packet {
	struct packet *next;
	size_t len;
	uint8_t bytes[];
};

static size_t conn_count(const struct keeper *keeper)
{
	size_t count = 0;
	for (const struct conn *conn = keeper->conns; conn; conn = conn->next)
		count++;
	return count;
}

static void conn_free(struct conn *conn)
{
	struct keeper *keeper = conn->keeper;
	for (struct conn **at = &keeper->conns; *at; at = &(*at)->next) {
		if (*at == conn) {
			*at = conn->next;
			break;
		}
	}
	exec_conn_gone(keeper, conn);
	claim_conn_gone(keeper, conn);
	network_conn_gone(keeper, conn);
	port_conn_gone(keeper, conn);
	/* A parked one belongs to the daemon that had it made: nobody else will ever claim it. */
	if (!keeper->conns && keeper->slot.is_parked)
		keeper_end(keeper, "unclaimed", 0);
	loop_remove(&conn->source);
	fd_closep(&conn->sock);
	while (conn->first) {
		struct packet *next = conn->first->next;
		free(conn->first);
		conn->first = next;
	}
	free(conn);
}

/* --- sending --- */

static int send_bytes(int sock, const uint8_t *bytes, size_t len)
{
	return send(sock, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void conn_flush(struct conn *conn)
{
	while (conn->first) {
		struct packet *packet = conn->first;
		int r = send_bytes(conn->sock, packet->bytes, packet->len);
		if (r == -EAGAIN || r == -ENOBUFS)
			break;
		if (r < 0) {
			shutdown(conn->sock, SHUT_RDWR); /* the read side sees it and frees */
			break;
		}
		conn->first = packet->next;
		conn->queued_bytes -= packet->len;
		free(packet);
	}
	if (!conn->first)
		conn->last = NULL;
	(void)loop_change(&conn->source, conn->first ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void conn_queue(struct conn *conn, const uint8_t *bytes, size_t len)
{
	if (conn->queued_bytes + len > LIMIT_KEEPER_QUEUE_BYTES) {
		shutdown(conn->sock, SHUT_RDWR);
		return;
	}
	struct packet *packet = mem_zalloc(sizeof(*packet) + len);
	packet->len = len;
	memcpy(packet->bytes, bytes, len);
	if (conn->last)
		conn->last->next = packet;
	else
		conn->first = packet;
	conn->last = packet;
	conn->queued_bytes += len;
	(void)loop_change(&conn->source, EPOLLIN | EPOLLOUT);
}

static void conn_send(struct conn *conn, const struct wire_out *out)
{
	size_t len;
	const uint8_t *bytes = wire_bytes(out, &len);
	int r = conn->first ? -EAGAIN : send_bytes(conn->sock, bytes, len);
	if (r == -EAGAIN || r == -ENOBUFS)
		conn_queue(conn, bytes, len);
	else if (r < 0)
		/* One that missed a message (ENOMEM, or gone) must come again and ask. */
		shutdown(conn->sock, SHUT_RDWR);
}

void serve_send(struct keeper *keeper, struct conn *conn, struct wire_out *out)
{
	if (conn)
		conn_send(conn, out);
	else
		serve_send_others(keeper, NULL, out);
}

void serve_send_others(struct keeper *keeper, const struct conn *except, struct wire_out *out)
{
	for (struct conn *each = keeper->conns; each; each = each->next) {
		if (each != except)
			conn_send(each, out);
	}
}

void serve_error(struct keeper *keeper, struct conn *conn, uint64_t request, const struct err *err)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_ERROR, request);
	wire_put_err(&out, err);
	serve_send(keeper, conn, &out);
}

bool serve_has_daemon(const struct keeper *keeper)
{
	const struct conn *conn = keeper->conns;
	while (conn && !conn->is_daemon)
		conn = conn->next;
	return conn != NULL;
}

int serve_give(struct conn *conn, const struct wire_out *out)
{
	/* What waits before it might never go out. */
	return conn->first ? -EAGAIN : wire_send(conn->sock, out);
}

int serve_pass(struct keeper *keeper, const struct wire_out *out)
{
	for (struct conn *conn = keeper->conns; conn; conn = conn->next) {
		if (conn->is_daemon && !conn->first)
			return serve_give(conn, out);
	}
	return -EAGAIN;
}

static bool is_anyone_full(const struct keeper *keeper)
{
	for (const struct conn *conn = keeper->conns; conn; conn = conn->next) {
		if (conn->first)
			return true;
	}
	return false;
}

/* A full socket gets no news, so that they cannot pile up: later ones say the newest offset anyway.
 */
static void tell_output(struct conn *conn, const struct exec *exec)
{
	conn->is_behind |= conn->first != NULL;
	if (conn->first)
		return;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_OUTPUT, 0);
	wire_put_str(&out, FIELD_EXEC, exec->id);
	wire_put_u64(&out, FIELD_OFFSET, exec->log.offset);
	conn_send(conn, &out);
}

void serve_flush_output(struct keeper *keeper)
{
	for (struct exec *exec = keeper->execs; exec; exec = exec->next) {
		if (!exec->is_output_news)
			continue;
		exec->is_output_news = false;
		for (struct conn *conn = keeper->conns; conn; conn = conn->next)
			tell_output(conn, exec);
	}
}

/* What it missed, now that it takes messages again. Ended execs said their last offset at the end.
 */
static void catch_up(struct conn *conn)
{
	if (conn->first || !conn->is_behind)
		return;
	conn->is_behind = false;
	for (struct exec *exec = conn->keeper->execs; exec; exec = exec->next) {
		if (exec->state == EXEC_RUNNING)
			tell_output(conn, exec);
	}
}

void serve_drain(struct keeper *keeper)
{
	uint64_t until = io_boot_ms() + DRAIN_MS;
	while (is_anyone_full(keeper) && io_boot_ms() < until) {
		for (struct conn *conn = keeper->conns; conn; conn = conn->next) {
			struct pollfd p = {.fd = conn->sock, .events = POLLOUT};
			if (conn->first && poll(&p, 1, DRAIN_MS) > 0)
				conn_flush(conn);
		}
	}
}

/* --- requests --- */

struct request {
	struct keeper *keeper;
	struct conn *conn;
	const struct wire_msg *msg;
	struct wire_out out; /* the answer, begun as OK */
	bool is_later;       /* somebody else answers */
};

static struct exec *wanted_exec(struct request *request, struct err *err)
{
	const char *id = wire_str(request->msg, FIELD_EXEC, "");
	struct exec *exec = exec_find(request->keeper, id);
	if (!exec)
		(void)err_set(err, ERR_NOT_FOUND, "there is no exec '%.40s' in this sandbox", id);
	return exec;
}

static int on_exec(struct request *request, struct err *err)
{
	request->is_later = true;
	return exec_start(request->keeper, request->conn, request->msg, err);
}

static int on_stdin(struct request *request, struct err *err)
{
	struct exec *exec = wanted_exec(request, err);
	struct relay_piece piece = {.is_end = wire_u64(request->msg, FIELD_EOF, 0) != 0};
	if (!exec)
		return -1;
	piece.offset = wire_u64(request->msg, FIELD_INPUT_OFFSET, exec->input_taken);
	piece.bytes = wire_blob(request->msg, FIELD_BYTES, &piece.len);
	return relay_input(exec, piece, err);
}

static int on_resize(struct request *request, struct err *err)
{
	struct exec *exec = wanted_exec(request, err);
	if (!exec)
		return -1;
	return relay_resize(exec, (uint16_t)wire_u64(request->msg, FIELD_ROWS, 24),
	                    (uint16_t)wire_u64(request->msg, FIELD_COLS, 80), err);
}

static int on_signal(struct request *request, struct err *err)
{
	struct exec *exec = wanted_exec(request, err);
	uint64_t number = wire_u64(request->msg, FIELD_SIGNAL, 0);
	if (!exec)
		return -1;
	if (number == 0 || number > SIGNAL_MAX)
		return err_set(err, ERR_INVALID, "there is no signal %llu",
		               (unsigned long long)number);
	return exec_signal(exec, (int)number, err);
}

static int on_kill(struct request *request, struct err *err)
{
	struct exec *exec = wanted_exec(request, err);
	return exec ? exec_kill(exec, "killed", err) : -1;
}

static int on_attach(struct request *request, struct err *err)
{
	struct exec *exec = wanted_exec(request, err);
	if (!exec)
		return -1;
	exec->is_attached = wire_u64(request->msg, FIELD_ATTACHED, 0) != 0;
	if (exec->is_attached)
		exec->acked =
			MIN(wire_u64(request->msg, FIELD_OFFSET, UINT64_MAX), exec->log.offset);
	relay_update(exec);
	return 0;
}

static int on_ack(struct request *request, struct err *err)
{
	struct exec *exec = wanted_exec(request, err);
	if (!exec)
		return -1;
	exec->acked =
		MIN(MAX(exec->acked, wire_u64(request->msg, FIELD_OFFSET, 0)), exec->log.offset);
	relay_update(exec);
	return 0;
}

static int on_execs(struct request *request, struct err *err)
{
	for (struct exec *exec = request->keeper->execs; exec; exec = exec->next) {
		auto_wire_out struct wire_out out;
		wire_begin(&out, WIRE_K_EXEC_INFO, request->msg->request);
		exec_put_info(exec, &out);
		serve_send(request->keeper, request->conn, &out);
	}
	network_ask_again(request->keeper);
	return 0;
}

static int on_meters(struct request *request, struct err *err)
{
	struct keeper *keeper = request->keeper;
	keeper_sample(keeper);
	meter_put(&keeper->meter, &request->out);
	wire_put_u64(&request->out, FIELD_METER_UPTIME_MS, io_boot_ms() - keeper->started_boot_ms);
	wire_put_u64(&request->out, FIELD_METER_OUTPUT, keeper->output_bytes);
	wire_put_u64(&request->out, FIELD_METER_FROZEN, keeper->is_paused);
	network_put_sums(keeper, &request->out);
	return 0;
}

static int on_disk(struct request *request, struct err *err)
{
	sampled_take(request->keeper, request->msg);
	return 0;
}

static int on_deadline(struct request *request, struct err *err)
{
	keeper_set_deadline(request->keeper, wire_u64(request->msg, FIELD_DEADLINE_MS, 0));
	return 0;
}

static int on_bind(struct request *request, struct err *err)
{
	request->is_later = true;
	return claim_bind(request->keeper, request->conn, request->msg, err);
}

static int on_bound(struct request *request, struct err *err)
{
	return claim_bound(request->keeper, request->conn, request->msg, err);
}

static int on_claim(struct request *request, struct err *err)
{
	if (claim_take(request->keeper, request->msg, err) < 0)
		return -1;
	request->is_later = true;
	serve_send(request->keeper, request->conn, &request->out);
	claim_taken(request->keeper);
	return 0;
}

static int on_stop(struct request *request, struct err *err)
{
	keeper_end(request->keeper, "stopped",
	           wire_u64(request->msg, FIELD_GRACE_MS, DEFAULT_GRACE_MS));
	return 0;
}

static int on_freeze(struct request *request, struct err *err)
{
	return exec_freeze(request->keeper, wire_u64(request->msg, FIELD_FROZEN, 0) != 0, err);
}

static int on_forget(struct request *request, struct err *err)
{
	struct exec *exec = wanted_exec(request, err);
	if (!exec)
		return -1;
	if (exec->state != EXEC_ENDED)
		return err_set(err, ERR_CONFLICT, "exec %s still runs: kill it first", exec->id);
	exec_forget(exec);
	return 0;
}

static int on_policy(struct request *request, struct err *err)
{
	int r = network_policy(request->keeper, request->conn, request->msg, err);
	request->is_later = r > 0;
	return r;
}

static int on_net(struct request *request, struct err *err)
{
	network_put(request->keeper, request->conn, request->msg->request, &request->out);
	return 0;
}

static int on_answer(struct request *request, struct err *err)
{
	return network_answer(request->keeper, request->msg, err);
}

static int on_dialer(struct request *request, struct err *err)
{
	return network_dialer(request->keeper, request->conn, request->msg, err);
}

static int on_port(struct request *request, struct err *err)
{
	request->is_later = true;
	return port_open(request->keeper, request->conn, request->msg, err);
}

static int on_hello(struct request *request, struct err *err)
{
	request->conn->is_daemon = true;
	wire_put_u64(&request->out, FIELD_VERSION_MIN, WIRE_VERSION);
	wire_put_u64(&request->out, FIELD_VERSION_MAX, WIRE_VERSION);
	wire_put_str(&request->out, FIELD_ROLE, "keeper");
	wire_put_str(&request->out, FIELD_SANDBOX, request->keeper->slot.id);
	return 0;
}

static const struct {
	enum wire_type type;
	int (*run)(struct request *request, struct err *err);
} table[] = {
	{WIRE_HELLO, on_hello},     {WIRE_K_EXEC, on_exec},         {WIRE_K_STDIN, on_stdin},
	{WIRE_K_RESIZE, on_resize}, {WIRE_K_SIGNAL, on_signal},     {WIRE_K_KILL, on_kill},
	{WIRE_K_ATTACH, on_attach}, {WIRE_K_ACK, on_ack},           {WIRE_K_EXECS, on_execs},
	{WIRE_K_METERS, on_meters}, {WIRE_K_DEADLINE, on_deadline}, {WIRE_K_STOP, on_stop},
	{WIRE_K_FORGET, on_forget}, {WIRE_K_CLAIM, on_claim},       {WIRE_K_BIND, on_bind},
	{WIRE_K_BOUND, on_bound},   {WIRE_K_DISK, on_disk},         {WIRE_K_POLICY, on_policy},
	{WIRE_K_NET, on_net},       {WIRE_K_ANSWER, on_answer},     {WIRE_K_DIALER, on_dialer},
	{WIRE_K_PORT, on_port},     {WIRE_K_FREEZE, on_freeze},
};

static void dispatch(struct conn *conn, const struct wire_msg *msg)
{
	struct request request = {.keeper = conn->keeper, .conn = conn, .msg = msg};
	struct err err = {0};
	int r = -1;
	size_t i = 0;
	while (i < ARRAY_LEN(table) && table[i].type != msg->type)
		i++;
	wire_begin(&request.out, WIRE_OK, msg->request);
	if (i < ARRAY_LEN(table))
		r = table[i].run(&request, &err);
	else
		(void)err_set(&err, ERR_UNSUPPORTED, "this keeper does not know message %d",
		              (int)msg->type);
	/* Notifications (request 0) get no answer, whatever came of them. */
	if (msg->request != 0 && r < 0)
		serve_error(conn->keeper, conn, msg->request, &err);
	else if (msg->request != 0 && !request.is_later)
		serve_send(conn->keeper, conn, &request.out);
	wire_done(&request.out);
}

static void on_conn(struct loop_source *source, uint32_t events, void *ctx)
{
	struct conn *conn = ctx;
	if (events & EPOLLOUT) {
		conn_flush(conn);
		catch_up(conn);
	}
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	struct wire_msg msg;
	/* A buffer of its own: a request may pump streams, which use the keeper's. Not for each
	 * message: that is three calls of the kernel, and pages it has to clear. */
	static uint8_t bytes[LIMIT_WIRE_BYTES];
	int r = wire_recv(conn->sock, bytes, sizeof(bytes), &msg);
	if (r > 0) {
		dispatch(conn, &msg);
		wire_msg_done(&msg);
	} else if (r != -EAGAIN) {
		conn_free(conn);
	}
}

static void on_accept_again(struct loop_timer *timer, void *ctx);

static void on_listener(struct loop_source *source, uint32_t events, void *ctx)
{
	struct keeper *keeper = ctx;
	uid_t uid;
	pid_t pid;
	auto_close int sock = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock < 0 && (errno == EMFILE || errno == ENFILE)) {
		/* Whoever waits would wake us again and again: look when something was closed. */
		loop_remove(&keeper->listener);
		loop_timer_in(keeper->loop, &keeper->accept_again, ACCEPT_AGAIN_MS, on_accept_again,
		              keeper);
	}
	if (sock < 0 || wire_peer(sock, &uid, &pid) < 0)
		return;
	if ((uid != 0 && uid != keeper->slot.daemon_uid) || conn_count(keeper) == CONNECTIONS_MAX)
		return;
	struct conn *conn = mem_new(struct conn);
	conn->keeper = keeper;
	conn->sock = take_fd(&sock);
	conn->is_root = uid == 0;
	conn->next = keeper->conns;
	keeper->conns = conn;
	if (keeper->slot.is_parked)
		keeper_set_deadline(keeper, 0);
	if (loop_add(keeper->loop, &conn->source, conn->sock, EPOLLIN, on_conn, conn) < 0)
		conn_free(conn);
}

static void on_accept_again(struct loop_timer *timer, void *ctx)
{
	struct keeper *keeper = ctx;
	if (serve_start(keeper) < 0)
		loop_timer_in(keeper->loop, timer, ACCEPT_AGAIN_MS, on_accept_again, keeper);
}

int serve_start(struct keeper *keeper)
{
	return loop_add(keeper->loop, &keeper->listener, keeper->launch.listener, EPOLLIN,
	                on_listener, keeper);
}

void serve_done(struct keeper *keeper)
{
	loop_remove(&keeper->listener);
	loop_timer_stop(&keeper->accept_again);
	while (keeper->conns)
		conn_free(keeper->conns);
}
