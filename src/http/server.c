/*
 * We accept connections ourselves: out of descriptors, the library would accept none until another
 * connection ends, which may be never. The library keeps its own epoll set; we nest that descriptor
 * in our loop and call MHD_run when it is readable or its timer is due. A connection object per
 * socket carries the header deadline: the library's own timeout counts silence only, which a client
 * that drips bytes never reaches.
 */
#include "http/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/addr.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/private.h"
#include "http/refusal.h"
#include "http/virtual.h"

enum {
	CONNECTION_IDLE_S = 60,
	/* The library reads into half of it and clears what it did not use: that is what a waiting
	 * client weighs. */
	CONNECTION_POOL_BYTES = LIMIT_HTTP_HEADER_BYTES + 8 * 1024,
	ACCEPT_AT_ONCE = 32,
	ACCEPT_AGAIN_MS = 100,
	FIRST_LOOK_MS = 200, /* whether a client that says nothing is still there */
};

static void drive(struct server *server);

static void on_due(struct loop_timer *timer, void *ctx)
{
	drive(ctx);
}

static void on_ready(struct loop_source *source, uint32_t events, void *ctx)
{
	drive(ctx);
}

static void drive(struct server *server)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;

	server->is_woken = false;
	server->is_driving = true;
	MHD_run(server->daemon);
	server->is_driving = false;
	/* A handler may have resumed another connection, which the library's timeout knows nothing
	 * of. */
	if (server->is_woken)
		server_wake(server);
	else if (MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES)
		loop_timer_in(server->loop, &server->timer, wait_ms, on_due, server);
	else
		loop_timer_stop(&server->timer);
}

void server_flush(struct server *server)
{
	if (server->is_woken && !server->is_driving)
		drive(server);
}

void server_wake(struct server *server)
{
	server->is_woken = true;
	loop_timer_in(server->loop, &server->timer, 0, on_due, server);
}

void server_count_answer(struct server *server, int status)
{
	if (server->config.answered && status >= 100 && status < 600)
		server->config.answered[status / 100]++;
}

static int connection_fd(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

/* The client has closed its end and everything was read: what is there never becomes whole. The
 * library, which is told of changes alone, misses an end that came with the last bytes. */
static bool is_given_up(const struct connection *conn)
{
	struct pollfd end = {.fd = conn->fd, .events = POLLRDHUP};
	char byte;

	return poll(&end, 1, 0) == 1 && recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* The library sees the end of the stream and closes; the fd stays its own. */
static void cut(struct connection *conn)
{
	conn->is_cut = true;
	(void)shutdown(conn->fd, SHUT_RDWR); /* a failure means it is already gone */
}

/* Before anybody is refused for want of room: who has left does not count. Once a millisecond: a
 * flood of those that are refused must not make us look at everybody for each. */
static void cut_given_up(struct server *server)
{
	uint64_t now_ms = loop_now_ms(server->loop);

	if (server->looked_ms == now_ms)
		return;
	server->looked_ms = now_ms;
	for (struct connection *conn = server->connections; conn; conn = conn->next)
		if (conn->is_awaited && !conn->is_cut && is_given_up(conn))
			cut(conn);
}

static void look_later(struct connection *conn);

static void on_look(struct loop_timer *timer, void *ctx)
{
	struct connection *conn = ctx;

	if (loop_now_ms(conn->server->loop) < conn->due_ms && !is_given_up(conn)) {
		look_later(conn);
		return;
	}
	cut(conn);
}

/* Ever more seldom: most that wait at all wait for long. */
static void look_later(struct connection *conn)
{
	uint64_t now_ms = loop_now_ms(conn->server->loop);
	uint64_t left_ms = conn->due_ms > now_ms ? conn->due_ms - now_ms : 0;

	conn->look_ms *= 2;
	loop_timer_in(conn->server->loop, &conn->timer, MIN(conn->look_ms, left_ms), on_look, conn);
}

static void await_headers(struct server *server, struct connection *conn)
{
	conn->server = server;
	conn->due_ms = loop_now_ms(server->loop) + server->config.header_timeout_ms;
	conn->look_ms = FIRST_LOOK_MS / 2;
	conn->is_awaited = true;
	look_later(conn);
}

static void await_nothing(struct connection *conn)
{
	conn->is_awaited = false;
	loop_timer_stop(&conn->timer);
}

void server_await_body(struct request *request)
{
	if (request->connection && request->conn)
		await_headers(request->server, request->conn);
}

void server_body_came(struct request *request)
{
	if (request->connection && request->conn)
		await_nothing(request->conn);
}

/* --- accepting --- */

/* "192.0.2.7"; IPv4 also when it came to an IPv6 socket. */
static void name_address(const struct sockaddr *addr, char *out, size_t size)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)addr;
	struct addr plain = {{0}};

	if (addr->sa_family == AF_INET)
		plain = addr_from_v4((const uint8_t *)&v4->sin_addr);
	else if (addr->sa_family == AF_INET6)
		memcpy(plain.bytes, &v6->sin6_addr, sizeof(plain.bytes));
	addr_format(out, size, &plain);
}

static unsigned count_source(const struct server *server, const char *source)
{
	unsigned count = 0;

	for (const struct connection *conn = server->connections; conn; conn = conn->next)
		count += !conn->is_cut && strcmp(conn->source, source) == 0;
	return count;
}

static bool has_too_many(struct server *server, const struct sockaddr *addr)
{
	char source[ADDR_TEXT];

	if (server->config.max_of_peer == 0 || addr->sa_family == AF_UNIX)
		return false;
	name_address(addr, source, sizeof(source));
	if (count_source(server, source) < server->config.max_of_peer)
		return false;
	cut_given_up(server);
	return count_source(server, source) >= server->config.max_of_peer;
}

static void on_again(struct loop_timer *timer, void *ctx)
{
	struct server *server = ctx;

	(void)loop_change(&server->queue, EPOLLIN); /* fails only for a source that is not there */
}

/* Whoever waits in the queue is not lost: there is room when a connection ends, or later. */
static void rest(struct server *server)
{
	(void)loop_change(&server->queue, 0); /* as in on_again */
	loop_timer_in(server->loop, &server->again, ACCEPT_AGAIN_MS, on_again, server);
}

/* Messages of a terminal are small, and the next one does not wait for an acknowledgement. */
static void send_at_once(int fd, const struct sockaddr_storage *addr)
{
	int one = 1;

	if (addr->ss_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* only slower */
}

static void on_waiting(struct loop_source *source, uint32_t events, void *ctx)
{
	struct server *server = ctx;

	for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
		struct sockaddr_storage addr = {0};
		socklen_t size = sizeof(addr);
		int fd;

		if (server->connection_count >= server->config.max_connections) {
			rest(server);
			break;
		}
		fd = accept4(server->config.listen_fd, (struct sockaddr *)&addr, &size,
		             SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
				rest(server);
			break;
		}
		if (has_too_many(server, (struct sockaddr *)&addr)) {
			fd_closep(&fd);
			continue;
		}
		send_at_once(fd, &addr);
		/* Takes the descriptor in any case. */
		if (MHD_add_connection(server->daemon, fd, (struct sockaddr *)&addr, size) !=
		    MHD_YES) {
			rest(server);
			break;
		}
	}
	drive(server);
}

/* --- adopting --- */

/* The library says when it has taken a connection, and then knows nothing but its descriptor. */
struct adopted {
	struct adopted *next;
	int fd;
	char guest[SERVER_GUEST];
};

static unsigned count_guest(const struct server *server, const char *guest)
{
	unsigned count = 0;

	for (const struct connection *conn = server->connections; conn; conn = conn->next)
		count += !conn->is_cut && strcmp(conn->guest, guest) == 0;
	for (const struct adopted *adopted = server->adopted; adopted; adopted = adopted->next)
		count += strcmp(adopted->guest, guest) == 0;
	return count;
}

int server_adopt(struct server *server, int fd, const char *guest, unsigned of_guest,
                 struct err *err)
{
	auto_close int own = fd;
	struct sockaddr_storage addr = {0};
	socklen_t size = sizeof(addr);
	struct adopted *adopted;
	int r = io_set_nonblock(own, true);

	if (r < 0)
		return err_sys(err, -r, "take a connection");
	if (count_guest(server, guest) >= of_guest)
		cut_given_up(server);
	if (server->connection_count >= server->config.max_connections ||
	    count_guest(server, guest) >= of_guest)
		return err_set(err, ERR_LIMITED, "too many connections of %s", guest);
	if (getpeername(own, (struct sockaddr *)&addr, &size) < 0)
		return err_sys(err, errno, "take a connection");
	adopted = mem_new(struct adopted);
	adopted->fd = own;
	must(str_copy(adopted->guest, sizeof(adopted->guest), guest));
	adopted->next = server->adopted;
	server->adopted = adopted;
	/* Takes the descriptor in any case. */
	if (MHD_add_connection(server->daemon, take_fd(&own), (struct sockaddr *)&addr, size) !=
	    MHD_YES) {
		server->adopted = adopted->next;
		mem_freep(&adopted);
		return err_set(err, ERR_LIMITED, "the server takes no connection");
	}
	server_wake(server);
	return 0;
}

/* True: it is one of ours, and conn knows whose. */
static bool know_guest(struct server *server, struct connection *conn)
{
	for (struct adopted **at = &server->adopted; *at; at = &(*at)->next) {
		struct adopted *adopted = *at;

		if (adopted->fd != conn->fd)
			continue;
		*at = adopted->next;
		memcpy(conn->guest, adopted->guest, sizeof(conn->guest));
		conn->uid = (uid_t)-1;
		conn->pid = -1;
		(void)snprintf(conn->source, sizeof(conn->source), "sandbox %s", conn->guest);
		mem_freep(&adopted);
		return true;
	}
	return false;
}

/* Once a connection: who is at the other end does not change. */
static void know_peer(struct connection *conn, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct ucred cred = {.uid = (uid_t)-1, .pid = -1};
	socklen_t size = sizeof(cred);

	conn->is_local = !info || !info->client_addr || info->client_addr->sa_family == AF_UNIX ||
	                 info->client_addr->sa_family == AF_UNSPEC;
	conn->uid = (uid_t)-1;
	conn->pid = -1;
	if (!conn->is_local) {
		name_address(info->client_addr, conn->source, sizeof(conn->source));
		return;
	}
	/* A failure leaves nobody, who may nothing. */
	if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0) {
		conn->uid = cred.uid;
		conn->pid = cred.pid;
	}
	(void)snprintf(conn->source, sizeof(conn->source), "uid %u", conn->uid); /* fits */
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
	struct server *server = cls;
	struct connection *conn = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		conn = mem_new(struct connection);
		conn->fd = connection_fd(connection);
		if (!know_guest(server, conn))
			know_peer(conn, connection);
		conn->next = server->connections;
		if (conn->next)
			conn->next->prev = conn;
		server->connections = conn;
		server->connection_count++;
		await_headers(server, conn);
		*context = conn;
		return;
	}
	if (!conn)
		return;
	loop_timer_stop(&conn->timer);
	server->connection_count--;
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		server->connections = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	mem_freep(&conn->target);
	mem_freep(&conn);
	*context = NULL;
}

static struct connection *connection_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* NOLINTNEXTLINE(readability-function-size): the library's signature */
static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *bytes,
                                 size_t *len, void **context)
{
	struct server *server = cls;
	struct request *request = *context;
	struct connection *conn;

	if (request)
		return request_step(request, bytes, len);
	request = request_begin(server, connection, method, url);
	request->fd = connection_fd(connection);
	*context = request;
	conn = connection_of(connection);
	must(conn);
	request->conn = conn;
	request->target = take_ptr(conn->target);
	await_nothing(conn);
	/* RFC 9112, 6.1: two lengths are an attempt to hide a second request in the body. */
	if (request_header(request, "Transfer-Encoding") &&
	    request_header(request, "Content-Length"))
		request->cut = true;
	else
		server->config.on_request(request, server->config.ctx);
	return request_settle(request);
}

/* The library hands out the decoded path alone. What is returned would become the request. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
	struct connection *conn = connection_of(connection);

	if (conn) {
		mem_freep(&conn->target);
		conn->target = mem_strdup(target);
	}
	return NULL;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
	struct server *server = cls;
	struct request *request = *context;
	struct connection *conn = connection_of(connection);

	*context = NULL;
	if (conn)
		await_headers(server, conn);
	if (request)
		request_over(request, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

/* As RFC 3986 decodes, but a NUL stays encoded: it would cut the text short for whoever compares
 * it. */
static size_t on_unescape(void *cls, struct MHD_Connection *connection, char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		unsigned value;

		if (from[0] == '%' && from[1] && from[2] && sscanf(from + 1, "%2x", &value) == 1 &&
		    value != 0) {
			*to++ = (char)value;
			from += 2;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
	return (size_t)(to - text);
}

static void PRINTF(2, 0) on_library_log(void *cls, const char *fmt, va_list args)
{
	struct server *server = cls;
	char text[300];

	if (vsnprintf(text, sizeof(text), fmt, args) <= 0)
		return;
	server_count_answer(server, refusal_heard(text));
	log_debug("http library", LOG_STR("text", text));
}

static struct MHD_Daemon *start(struct server *server)
{
	unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
	                 MHD_ALLOW_UPGRADE | MHD_USE_ERROR_LOG;
	char *cert = (char *)(uintptr_t)server->config.tls_cert;
	char *key = (char *)(uintptr_t)server->config.tls_key;
	const struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, cert},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, key},
		{MHD_OPTION_HTTPS_PRIORITIES, 0,
	         (char *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
		{MHD_OPTION_END, 0, NULL},
	};

	if (cert)
		flags |= MHD_USE_TLS;
	return MHD_start_daemon(flags, 0, NULL, NULL, on_access, server, MHD_OPTION_EXTERNAL_LOGGER,
	                        on_library_log, server, MHD_OPTION_CONNECTION_LIMIT,
	                        server->config.max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
	                        (unsigned)CONNECTION_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	                        (size_t)CONNECTION_POOL_BYTES, MHD_OPTION_NOTIFY_COMPLETED,
	                        on_completed, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
	                        server, MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL,
	                        MHD_OPTION_URI_LOG_CALLBACK, on_target, NULL, MHD_OPTION_ARRAY,
	                        cert ? tls : &tls[ARRAY_LEN(tls) - 1], MHD_OPTION_END);
}

int server_new(struct loop *loop, const struct server_config *config, struct server **ret,
               struct err *err)
{
	auto_(server_freep) struct server *server = mem_new(struct server);
	const union MHD_DaemonInfo *info;
	int r;

	server->loop = loop;
	server->config = *config;
	server->daemon = start(server);
	if (!server->daemon)
		return err_set(err, config->tls_cert ? ERR_CONFIG : ERR_INTERNAL,
		               "the HTTP server does not start%s",
		               config->tls_cert ? ": is the certificate one, and is that its key?"
		                                : "");
	info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return err_set(err, ERR_INTERNAL, "the HTTP server has no epoll descriptor");
	r = loop_add(loop, &server->source, info->epoll_fd, EPOLLIN, on_ready, server);
	if (r == 0 && config->listen_fd >= 0)
		r = io_set_nonblock(config->listen_fd, true);
	if (r == 0 && config->listen_fd >= 0)
		r = loop_add(loop, &server->queue, config->listen_fd, EPOLLIN, on_waiting, server);
	if (r < 0)
		return err_sys(err, -r, "watch the HTTP server");
	drive(server);
	*ret = take_ptr(server);
	return 0;
}

void server_each_request(struct server *server, server_on_request each, void *ctx)
{
	struct request *next;

	for (struct request *request = server->requests; request; request = next) {
		next = request->next;
		each(request, ctx);
	}
}

void server_free(struct server *server)
{
	if (!server)
		return;
	for (struct request *request = server->requests; request;) {
		if (request->virtual) {
			virtual_abandon(request);
			request = server->requests; /* the list has changed */
		} else {
			request = request->next;
		}
	}
	/* The library aborts when it is stopped with suspended connections. A cut request leaves
	 * the list only when the library runs, so the list does not change under our feet. */
	for (struct request *request = server->requests; request; request = request->next) {
		request_cut(request);
		request_upgraded_close(request);
	}
	loop_remove(&server->source);
	/* The listening socket is not ours to close: the next daemon goes on with it. */
	loop_remove(&server->queue);
	loop_timer_stop(&server->again);
	loop_timer_stop(&server->timer);
	if (server->daemon) {
		MHD_run(server->daemon);
		MHD_stop_daemon(server->daemon);
	}
	while (server->adopted) {
		struct adopted *next = server->adopted->next;

		mem_freep(&server->adopted);
		server->adopted = next;
	}
	mem_freep(&server);
}

void server_freep(struct server **server)
{
	server_free(*server);
	*server = NULL;
}
