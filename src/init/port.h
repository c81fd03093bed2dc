/*
 * A connection to a port of the sandbox's own loopback, for somebody outside. Made by init; the
 * bytes on it are never its business.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

/* ERR_UNAVAILABLE: nobody listens there. Takes a tenth of a second at most. */
int port_connect(uint16_t port, int *ret_fd, struct err *err) NODISCARD;
