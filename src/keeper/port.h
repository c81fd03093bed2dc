/*
 * K_PORT: a connection to a port inside, made by init on the sandbox's own loopback and handed to
 * the daemon. The keeper only passes it on.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "wire/wire.h"

struct conn;
struct keeper;
struct port_ask;

/* Answered when init has answered. */
int port_open(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
              struct err *err) NODISCARD;
/* True: it was about a port. */
bool port_init_said(struct keeper *keeper, struct wire_msg *msg);
void port_conn_gone(struct keeper *keeper, const struct conn *conn);
void port_done(struct keeper *keeper);
