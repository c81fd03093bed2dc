/*
 * The API's TCP socket: made by the broker, so that clients wait in its queue while cloched starts
 * again, and so that a port below 1024 is possible. cloched serves it.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/state.h"

/* Listens where `option` (NULL: config.toml of the state directory) says. *ret_fd is -1 when that
 * is nowhere, or when the default place is taken by somebody else, which is only a warning: a place
 * that was asked for must be had. ERR_CONFIG for one beyond this machine without TLS. */
int tcp_listen(const struct state *state, const char *option, int *ret_fd,
               struct err *err) NODISCARD;
