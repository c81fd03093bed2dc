#include "cli/remote.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/mem.h"
#include "base/str.h"

enum { PORT_PLAIN = 7070, PORT_TLS = 443 };

#define INSIDE        "/run/cloche"
#define INSIDE_SOCKET "api.sock"

static int refuse(const char *url, struct err *err)
{
	char shown[100];

	str_escape(shown, sizeof(shown), url, strlen(url));
	return err_set(err, ERR_INVALID, "'%s' is not http://HOST[:PORT] or https://HOST[:PORT]",
	               shown);
}

static bool is_host(const char *host)
{
	struct addr addr;

	return addr_parse(host, &addr) ||
	       (*host != '\0' && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                                      "0123456789.-_") == strlen(host));
}

int remote_parse(const char *url, struct remote *ret, struct err *err)
{
	struct remote remote = {.is_tls = str_has_prefix(url, "https://")};
	uint64_t port = remote.is_tls ? PORT_TLS : PORT_PLAIN;

	if (!remote.is_tls && !str_has_prefix(url, "http://"))
		return refuse(url, err);
	const char *at = url + strlen(remote.is_tls ? "https://" : "http://");
	bool is_bracketed = *at == '[';
	size_t len = is_bracketed ? strcspn(++at, "]") : strcspn(at, ":/");
	const char *rest = at + len + (is_bracketed && at[len] == ']');
	size_t port_len = *rest == ':' ? strcspn(rest + 1, "/") : 0;
	auto_free char *port_text = mem_strndup(rest + (*rest == ':'), port_len);

	if (len == 0 || len >= sizeof(remote.host) || (is_bracketed && at[len] != ']'))
		return refuse(url, err);
	memcpy(remote.host, at, len);
	if (*rest == ':' && (str_to_u64(port_text, &port) < 0 || port == 0 || port > UINT16_MAX))
		return refuse(url, err);
	rest += *rest == ':' ? 1 + port_len : 0;
	if (!is_host(remote.host) || (*rest != '\0' && !str_eq(rest, "/")))
		return refuse(url, err);
	remote.port = (uint16_t)port;
	(void)snprintf(remote.authority, sizeof(remote.authority),
	               strchr(remote.host, ':') == NULL ? "%s:%u" : "[%s]:%u", remote.host,
	               remote.port); /* fits */
	*ret = remote;
	return 0;
}

static int dial(const struct addr *addr, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	bool is_v4 = addr_is_v4(addr);
	auto_close int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	memcpy(&v4.sin_addr, addr->bytes + 12, 4);
	memcpy(&v6.sin6_addr, addr->bytes, 16);
	int r = is_v4 ? connect(fd, (const struct sockaddr *)&v4, sizeof(v4))
	              : connect(fd, (const struct sockaddr *)&v6, sizeof(v6));

	if (r < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* only slower */
	return take_fd(&fd);
}

static int connect_remote(struct cli *cli, const struct remote *remote, struct http *http)
{
	bool is_local = str_eq(remote->host, "localhost");
	struct addr addr;
	int fd;

	if (remote->is_tls || (!is_local && !addr_parse(remote->host, &addr))) {
		fd = cli->roles->tunnel(remote->host, remote->port, remote->is_tls, &cli->err);
		if (fd < 0)
			return -1;
	} else {
		if (is_local && !addr_parse("127.0.0.1", &addr))
			return err_set(&cli->err, ERR_INTERNAL, "no loopback address");
		fd = dial(&addr, remote->port);
		if (fd == -ECONNREFUSED)
			return err_set(&cli->err, ERR_UNAVAILABLE, "nobody listens on %s",
			               remote->authority);
		if (fd < 0)
			return err_sys(&cli->err, -fd, "connect to %s", remote->authority);
	}
	http_adopt(http, fd);
	return 0;
}

int remote_open(struct cli *cli, struct http *http)
{
	struct remote remote;

	http->key = cli->key;
	/* Inside a sandbox its keeper hands us on, and the daemon knows whose run we belong to. */
	if (cli->url == NULL && cli->state == NULL && access(INSIDE "/" INSIDE_SOCKET, F_OK) == 0)
		return http_open(http, INSIDE, INSIDE_SOCKET, &cli->err);
	if (cli->url == NULL)
		return http_open(http, cli->state_dir, "cloche.sock", &cli->err);
	if (remote_parse(cli->url, &remote, &cli->err) < 0)
		return -1;
	(void)snprintf(http->host, sizeof(http->host), "%s", remote.authority); /* fits */
	return connect_remote(cli, &remote, http);
}
