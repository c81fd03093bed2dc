#include "agent/reach.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/http.h"

#define INSIDE   "/run/cloche"
#define SOCKET   "api.sock"
#define INTERNAL ".cloche.internal"

enum { PORT = 80 };

struct place {
	char host[128];
	uint16_t port;
	const char *target;
};

static int parse(const char *url, struct place *ret, struct err *err)
{
	static const char prefix[] = "http://";
	const char *at = url + strlen(prefix);
	uint64_t port = PORT;
	size_t len;

	if (!str_has_prefix(url, prefix))
		return err_set(err, ERR_INVALID,
		               "'%.80s' is not http://HOST[:PORT]: this program has no TLS; make a "
		               "service (cloche service add) and give its address",
		               url);
	len = strcspn(at, ":/");
	if (len == 0 || len >= sizeof(ret->host))
		return err_set(err, ERR_INVALID, "'%.80s' is not http://HOST[:PORT]", url);
	memcpy(ret->host, at, len);
	ret->host[len] = '\0';
	if (at[len] == ':') {
		auto_free char *digits = mem_strndup(at + len + 1, strcspn(at + len + 1, "/"));

		if (str_to_u64(digits, &port) < 0 || port == 0 || port > UINT16_MAX)
			return err_set(err, ERR_INVALID, "'%.80s' has no usable port", url);
	}
	ret->port = (uint16_t)port;
	ret->target = strchr(at, '/') ? strchr(at, '/') : "/";
	return 0;
}

static int dial(const struct place *place, struct err *err)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(place->port)};
	struct addr addr;
	auto_close int fd = -1;

	if (!addr_parse(str_eq(place->host, "localhost") ? "127.0.0.1" : place->host, &addr))
		return err_set(err, ERR_INVALID,
		               "'%s' is no address: this program does not look up names; make a "
		               "service (cloche service add) and give its address",
		               place->host);
	memcpy(&to.sin6_addr, addr.bytes, 16); /* an IPv4 address is mapped */
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return err_sys(err, errno, "connect to %s", place->host);
	return take_fd(&fd);
}

int reach_open(const char *url, struct http *http, const char **ret_target, struct err *err)
{
	struct place place;
	int fd;

	if (parse(url, &place, err) < 0)
		return -1;
	*ret_target = place.target;
	(void)snprintf(http->host, sizeof(http->host), "%s", place.host); /* fits */
	if (str_has_suffix(place.host, INTERNAL)) {
		if (http_open(http, INSIDE, SOCKET, err) < 0)
			return err_set(err, ERR_UNAVAILABLE, "%s is not reachable from here",
			               place.host);
		return 0;
	}
	fd = dial(&place, err);
	if (fd < 0)
		return -1;
	http_adopt(http, fd);
	return 0;
}
