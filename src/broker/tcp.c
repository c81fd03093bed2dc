/*
 * Who: the broker, before its loop. Capabilities: NET_BIND_SERVICE for a low port. Bytes:
 * config.toml. Gone at the end: the socket is cloched's and ours; nothing else is made.
 */
#include "broker/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "model/config.h"
#include "model/listen.h"

enum { TCP_BACKLOG = 512 };

static int open_tcp(const struct listen *listen_at)
{
	const struct addr *addr = &listen_at->addr;
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(listen_at->port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(listen_at->port)};
	bool is_v4 = addr_is_v4(addr);
	int one = 1;
	auto_close int fd =
		socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	memcpy(&v4.sin_addr, addr->bytes + 12, 4);
	memcpy(&v6.sin6_addr, addr->bytes, 16);
	/* Connections of a broker that just ended linger; nobody else listens there then. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    (!is_v4 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0))
		return -errno;
	int r = is_v4 ? bind(fd, (const struct sockaddr *)&v4, sizeof(v4))
	              : bind(fd, (const struct sockaddr *)&v6, sizeof(v6));
	if (r < 0 || listen(fd, TCP_BACKLOG) < 0)
		return -errno;
	return take_fd(&fd);
}

static int check_reach(const struct listen *listen_at, const struct config_server *server,
                       struct err *err)
{
	if (listen_is_loopback(listen_at) || server->tls_cert || server->plain)
		return 0;
	return err_set(err, ERR_CONFIG,
	               "listen '%s' is beyond this machine and would send keys in the clear: give "
	               "[server] tls_cert and tls_key, or plain = true behind a proxy with TLS",
	               server->listen);
}

static int listen_as_told(const struct config_server *server, bool is_asked_for, int *ret_fd,
                          struct err *err)
{
	struct listen listen_at;
	*ret_fd = -1;
	if (listen_parse(server->listen, &listen_at, err) < 0)
		return -1;
	if (listen_at.is_none)
		return 0;
	if (check_reach(&listen_at, server, err) < 0)
		return -1;
	int fd = open_tcp(&listen_at);
	if (fd < 0 && is_asked_for)
		return err_sys(err, -fd, "listen on %s", server->listen);
	if (fd < 0)
		log_warn("not listening on TCP: somebody else has the place; choose another with "
		         "[server] listen, or \"none\"",
		         LOG_STR("listen", server->listen), LOG_INT("errno", -fd));
	*ret_fd = fd < 0 ? -1 : fd;
	return 0;
}

int tcp_listen(const struct state *state, const char *option, int *ret_fd, struct err *err)
{
	struct config config;
	config_init(&config);
	int r = config_load(&config, state->dir_fd, "config.toml", err);
	bool is_asked_for = option || config.server.has_listen;
	if (r == 0 && option)
		spec_set(&config.server.listen, option);
	if (r == 0)
		r = listen_as_told(&config.server, is_asked_for, ret_fd, err);
	config_done(&config);
	return r;
}
