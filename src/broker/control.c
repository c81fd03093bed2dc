/*
 * Who: the broker's loop. Capabilities: none used. Bytes: messages of peers that passed the check
 * below, through wire_parse. Gone at the end: descriptors no handler took, connections of everybody
 * else.
 */
#include "broker/control.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "broker/context.h"
#include "broker/grant.h"
#include "broker/job.h"
#include "broker/reap.h"

enum {
	CONTROL_CONNS = 32,
	CONTROL_GRACE_MS = 5000,
	CONTROL_GRACE_MAX_MS = 5 * 60 * 1000,
	CONTROL_EXTRA_MS = 10 * 1000,
	CONTROL_STATUS_MAX = 64 * 1024
};

#define CONTROL_NAME "broker.sock"

struct control_conn {
	struct control_conn *next;
	struct control *control;
	int fd;
	struct loop_source source;
	bool waits_for_stop;
	uint64_t request; /* of its STOP_ALL */
};

void control_init(struct control *control, struct broker *broker)
{
	*control = (struct control){.broker = broker, .listen_fd = -1};
}

static void conn_close(struct control_conn *conn)
{
	struct control_conn **at = &conn->control->conns;
	while (*at != conn)
		at = &(*at)->next;
	*at = conn->next;
	conn->control->count--;
	loop_remove(&conn->source);
	fd_closep(&conn->fd);
	mem_freep(&conn);
}

/* /proc/PID/ns/pid of a process outside our user namespace cannot be looked at, but its status can:
 * it names one pid for each namespace from ours down to its own. */
static bool same_pid_namespace(pid_t pid)
{
	char path[32];
	auto_free char *text = NULL;
	size_t len;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (io_read_file(AT_FDCWD, path, CONTROL_STATUS_MAX, &text, &len) < 0)
		return false;
	const char *line = strstr(text, "\nNSpid:\t");
	if (!line)
		return false;
	line += strlen("\nNSpid:\t");
	return strspn(line, "0123456789") == strcspn(line, "\n");
}

static bool is_welcome(const struct broker *broker, int fd)
{
	uid_t uid;
	pid_t pid;
	if (wire_peer(fd, &uid, &pid) < 0 || (uid != 0 && uid != geteuid()))
		return false;
	return !broker->site.is_rootless || same_pid_namespace(pid);
}

/* A full socket means the peer does not listen: it loses its answer, nobody else does. */
static void reply(struct control_conn *conn, const struct wire_out *out)
{
	int r = wire_send(conn->fd, out);
	if (r < 0)
		log_debug("control answer lost", LOG_INT("errno", -r));
}

static void reply_result(struct control_conn *conn, uint64_t request, const struct err *err)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, err->code == ERR_OK ? WIRE_OK : WIRE_ERROR, request);
	if (err->code != ERR_OK)
		wire_put_err(&out, err);
	reply(conn, &out);
}

static int on_ping(struct control_conn *conn, struct wire_msg *msg, struct err *err)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, msg->request);
	wire_put_u64(&out, FIELD_PID, (uint64_t)getpid());
	wire_put_str(&out, FIELD_VERSION_TEXT, CLOCHE_VERSION);
	reply(conn, &out);
	return 0;
}

static int on_grant(struct control_conn *conn, struct wire_msg *msg, struct err *err)
{
	struct broker *broker = conn->control->broker;
	struct id id;
	if (msg->fd_count != 1)
		return err_set(err, ERR_PROTOCOL, "a grant is one descriptor");
	if (grants_add(&broker->grants, &broker->site.state, msg->fds[0],
	               wire_u64(msg, FIELD_READ_ONLY, 1) != 0, &id, err) < 0)
		return -1;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, msg->request);
	wire_put_str(&out, FIELD_GRANT, id.text);
	reply(conn, &out);
	return 0;
}

static void on_all_stopped(struct job *job, struct wire_msg *answer, const struct err *err)
{
	struct control *control = &job->broker->control;
	if (answer)
		slots_free_all(&job->broker->slots);
	else
		log_error("not every sandbox could be ended", LOG_ERR(err));
	for (struct control_conn *conn = control->conns; conn; conn = conn->next) {
		if (!conn->waits_for_stop)
			continue;
		conn->waits_for_stop = false;
		reply_result(conn, conn->request, err);
	}
	if (job->keep_files)
		job->broker->is_stopping = false; /* KEEP: only the sandboxes were to end */
	else
		broker_shutdown(job->broker, 0);
}

static int on_stop_all(struct control_conn *conn, struct wire_msg *msg, struct err *err)
{
	struct broker *broker = conn->control->broker;
	conn->request = msg->request;
	conn->waits_for_stop = true;
	if (job_count_of(broker, WIRE_STOP_ALL) > 0)
		return 0; /* it gets the same answer */
	struct job *job;
	auto_wire_out struct wire_out out = {0};
	if (job_new(broker, WIRE_STOP_ALL, 0, &job, err) < 0) {
		conn->waits_for_stop = false;
		return -1;
	}
	job->keep_files = wire_u64(msg, FIELD_KEEP, 0) != 0;
	broker->purges = !job->keep_files && wire_u64(msg, FIELD_PURGE, 0) != 0;
	wire_begin(&out, WIRE_STOP_ALL, 1);
	wire_put_fd(&out, job->child_sock);
	uint64_t asked_ms = wire_u64(msg, FIELD_GRACE_MS, CONTROL_GRACE_MS);
	uint64_t grace_ms = MIN(asked_ms, (uint64_t)CONTROL_GRACE_MAX_MS);
	wire_put_u64(&out, FIELD_GRACE_MS, grace_ms);
	broker->is_stopping = true;
	blanks_drop_all(broker); /* they serve no socket on which they could be asked to stop */
	if (job_send(job, &broker->tasks, &out, reap_stop_all_ms(grace_ms) + CONTROL_EXTRA_MS,
	             on_all_stopped, err) < 0) {
		broker->is_stopping = false;
		conn->waits_for_stop = false;
		return -1;
	}
	return 0;
}

static int on_end(struct control_conn *conn, struct wire_msg *msg, struct err *err)
{
	struct broker *broker = conn->control->broker;
	log_info("ending, sandboxes keep running");
	reply_result(conn, msg->request, err);
	broker_shutdown(broker, 0);
	return 0;
}

static const struct {
	enum wire_type type;
	int (*handler)(struct control_conn *conn, struct wire_msg *msg, struct err *err);
} handlers[] = {
	{WIRE_PING, on_ping},
	{WIRE_GRANT, on_grant},
	{WIRE_STOP_ALL, on_stop_all},
	{WIRE_END, on_end},
};

static void on_message(struct loop_source *source, uint32_t events, void *ctx)
{
	struct control_conn *conn = ctx;
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	struct wire_msg msg;
	int r = wire_recv(conn->fd, bytes, LIMIT_WIRE_BYTES, &msg);
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0) {
		conn_close(conn);
		return;
	}
	struct err err = {0};
	if (msg.type != WIRE_HELLO) {
		err_set(&err, ERR_UNSUPPORTED, "the broker does not know this message");
		for (size_t i = 0; i < ARRAY_LEN(handlers); i++) {
			if (handlers[i].type != msg.type)
				continue;
			err = (struct err){0};
			(void)!handlers[i].handler(conn, &msg, &err); /* err says it */
		}
		if (err.code != ERR_OK)
			reply_result(conn, msg.request, &err);
	}
	wire_msg_done(&msg);
}

static void on_connect(struct loop_source *source, uint32_t events, void *ctx)
{
	struct control *control = ctx;
	auto_close int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 || control->count == CONTROL_CONNS || !is_welcome(control->broker, fd))
		return;
	struct control_conn *conn = mem_new(struct control_conn);
	conn->control = control;
	conn->fd = take_fd(&fd);
	conn->next = control->conns;
	control->conns = conn;
	control->count++;
	if (loop_add(control->broker->loop, &conn->source, conn->fd, EPOLLIN, on_message, conn) < 0)
		conn_close(conn);
}

int control_start(struct control *control, struct err *err)
{
	int run_fd = control->broker->site.state.run_fd;
	if (unlinkat(run_fd, CONTROL_NAME, 0) < 0 && errno != ENOENT)
		return err_sys(err, errno, "replace run/" CONTROL_NAME);
	control->listen_fd = wire_listen(run_fd, CONTROL_NAME, 0600);
	if (control->listen_fd < 0)
		return err_sys(err, -control->listen_fd, "listen on run/" CONTROL_NAME);
	int r = io_set_nonblock(control->listen_fd, true);
	if (r == 0)
		r = loop_add(control->broker->loop, &control->source, control->listen_fd, EPOLLIN,
		             on_connect, control);
	return r < 0 ? err_sys(err, -r, "watch run/" CONTROL_NAME) : 0;
}

void control_done(struct control *control)
{
	while (control->conns)
		conn_close(control->conns);
	loop_remove(&control->source);
	if (control->listen_fd >= 0) {
		fd_closep(&control->listen_fd);
		(void)unlinkat(control->broker->site.state.run_fd, CONTROL_NAME,
		               0); /* or the next start */
	}
}
