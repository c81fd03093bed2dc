#include "init/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* On the loopback interface a connection is there at once, unless its listener is full. */
enum { PATIENCE_MS = 100 };

static int connect_to(const struct sockaddr *to, socklen_t size, int *ret_fd)
{
	int failure = 0;
	socklen_t len = sizeof(failure);
	auto_close int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	if (connect(fd, to, size) < 0) {
		if (errno != EINPROGRESS)
			return -errno;
		if (poll(&ready, 1, PATIENCE_MS) <= 0)
			return -ETIMEDOUT;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len) < 0)
		return -errno;
	if (failure != 0)
		return -failure;
	*ret_fd = take_fd(&fd);
	return 0;
}

int port_connect(uint16_t port, int *ret_fd, struct err *err)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
	                         .sin_port = htons(port),
	                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
	                          .sin6_port = htons(port),
	                          .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int r = connect_to((const struct sockaddr *)&v4, sizeof(v4), ret_fd);
	/* Servers that listen on ::1 alone exist. */
	if (r == -ECONNREFUSED)
		r = connect_to((const struct sockaddr *)&v6, sizeof(v6), ret_fd);
	if (r == -ECONNREFUSED || r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT)
		return err_set(err, ERR_UNAVAILABLE, "nothing listens on port %u inside", port);
	return r < 0 ? err_sys(err, -r, "connect to port %u inside", port) : 0;
}
