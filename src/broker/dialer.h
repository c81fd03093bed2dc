/*
 * The dialer: the one process with the host's network that makes connections for sandboxes. It
 * serves a socket for each keeper and does two things: a socket towards {address, port}, if the
 * never-list (net/never.h) or a CIDR of that sandbox's policy lets it, and a socket towards one of
 * the operator's resolvers. It parses no name, no TLS, no HTTP, waits for nothing, and holds no
 * file and no capability. When the broker dies it serves on until its last keeper has another one.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

enum {
	DIALER_UID = 0x3ffd0000, /* as root: a uid nobody else has */
	DIALER_CIDRS = 400,      /* of one policy */
	DIALER_RESOLVERS = 4,
};

struct dialer {
	pid_t pid; /* 0: not running */
	int sock;  /* D_KEEPER, D_POLICY and D_RESOLVERS go here */
};

void dialer_init(struct dialer *dialer);
int dialer_start(struct dialer *dialer, struct err *err) NODISCARD;
/* Closes the socket; the process ends when no keeper needs it. */
void dialer_stop(struct dialer *dialer);

/* The process itself; the exit status. */
int dialer_serve(int sock);
