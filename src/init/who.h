/*
 * Which process inside has a socket: for the decisions about the network, which name the program.
 * Reads /proc of our own namespaces, within a bound on how long; what it finds is what the process
 * calls itself.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

enum { WHO_NAME = 16 };

/* What the process or thread calls itself; "" when it is gone. */
void who_is(pid_t pid, char ret_name[WHO_NAME]);

/* The process with a socket of this protocol at this local port, talking to that remote port if it
 * is connected. False: not found. */
bool who_has(bool is_tcp, uint16_t port, uint16_t remote, pid_t *ret_pid, char ret_name[WHO_NAME]);
