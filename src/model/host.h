/*
 * What one sandbox had to do with one host: connections, denials, bytes. Kept by its keeper while
 * it runs, added up from events afterwards. Pure.
 */
#pragma once

#include "base/base.h"

struct host_use {
	char *host;  /* a name, or an address when there was none */
	char *proto; /* "tcp", "udp", "dns" */
	uint16_t port;
	uint64_t connections, denied, sent, received;
};

/* Zeroed memory is an empty list. */
struct host_uses {
	struct host_use *items;
	size_t count;
};

void host_uses_done(struct host_uses *uses);
/* The one of this host, port and protocol, made when it is new. */
struct host_use *host_uses_enter(struct host_uses *uses, const char *host, uint16_t port,
                                 const char *proto);
/* By host, then port. */
void host_uses_sort(struct host_uses *uses);
