/*
 * The dialer: the one process with the host's network that makes connections for sandboxes. It
 * takes {sandbox, generation, address, port}, looks the address up in the never-list (net/never.h)
 * unless a CIDR of that sandbox's policy covers it, connects and returns the socket. It parses no
 * name, no TLS, no HTTP, and holds no file and no capability. Started when first needed.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

enum {
	DIALER_UID = 0x3ffd0000, /* as root: a uid nobody else has */
	DIALER_POLICIES = 4096,
	DIALER_CIDRS = 64,  /* of one policy */
	DIALER_DIALS = 256, /* under way at once */
	DIALER_TIMEOUT_MS = 10 * 1000,
	DIALER_TIMEOUT_MOST_MS = 60 * 1000,
};

struct dialer {
	pid_t pid; /* 0: not running */
	int sock;
};

void dialer_init(struct dialer *dialer);
/* Starts it unless it runs. D_POLICY and D_DIAL go to dialer->sock. */
int dialer_start(struct dialer *dialer, struct err *err) NODISCARD;
void dialer_stop(struct dialer *dialer);

/* The process itself: serves sock until end of file; the exit status. */
int dialer_serve(int sock);
