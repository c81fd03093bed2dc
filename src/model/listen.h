/*
 * Where the API listens on TCP, as people write it: "127.0.0.1:7070", "[::1]:7070",
 * "localhost:7070", "none". Port 0 lets the kernel choose. Pure.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"
#include "base/err.h"

#define LISTEN_DEFAULT "127.0.0.1:7070"

struct listen {
	bool is_none;
	struct addr addr;
	uint16_t port;
};

enum { LISTEN_TEXT = ADDR_TEXT + 10 };

/* ERR_INVALID with the forms that are possible. */
int listen_parse(const char *text, struct listen *ret, struct err *err) NODISCARD;
void listen_format(const struct listen *listen, char *out, size_t size);
/* Only this machine can reach it. */
bool listen_is_loopback(const struct listen *listen);
