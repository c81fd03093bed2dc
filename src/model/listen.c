#include "model/listen.h"

#include <stdio.h>

#include "base/str.h"

static int refuse(const char *text, struct err *err)
{
	char shown[80];

	str_escape(shown, sizeof(shown), text, strlen(text));
	return err_set(err, ERR_INVALID,
	               "listen '%s' is not ADDRESS:PORT (\"127.0.0.1:7070\", \"[::1]:7070\") or "
	               "\"none\"",
	               shown);
}

int listen_parse(const char *text, struct listen *ret, struct err *err)
{
	const char *colon = strrchr(text, ':');
	struct listen listen = {0};
	char host[ADDR_TEXT + 2];
	uint64_t port;
	size_t len;

	if (str_eq(text, "none")) {
		*ret = (struct listen){.is_none = true};
		return 0;
	}
	len = colon ? (size_t)(colon - text) : 0;
	if (len == 0 || len >= sizeof(host) || str_to_u64(colon + 1, &port) < 0 ||
	    port > UINT16_MAX)
		return refuse(text, err);
	memcpy(host, text, len);
	host[len] = '\0';
	if (host[0] == '[' && host[len - 1] == ']') {
		memmove(host, host + 1, len - 2);
		host[len - 2] = '\0';
		if (!addr_parse(host, &listen.addr) || addr_is_v4(&listen.addr))
			return refuse(text, err);
	} else if (!addr_parse(str_eq(host, "localhost") ? "127.0.0.1" : host, &listen.addr) ||
	           !addr_is_v4(&listen.addr)) {
		return refuse(text, err);
	}
	listen.port = (uint16_t)port;
	*ret = listen;
	return 0;
}

void listen_format(const struct listen *listen, char *out, size_t size)
{
	char host[ADDR_TEXT];

	if (listen->is_none) {
		(void)snprintf(out, size, "none"); /* fits */
		return;
	}
	addr_format(host, sizeof(host), &listen->addr);
	(void)snprintf(out, size, addr_is_v4(&listen->addr) ? "%s:%u" : "[%s]:%u", host,
	               listen->port); /* LISTEN_TEXT fits */
}

bool listen_is_loopback(const struct listen *listen)
{
	struct addr_cidr v4, v6;

	return listen->is_none ||
	       (addr_parse_cidr("127.0.0.0/8", &v4) && addr_covers(&v4, &listen->addr)) ||
	       (addr_parse_cidr("::1/128", &v6) && addr_covers(&v6, &listen->addr));
}
