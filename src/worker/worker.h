/*
 * `cloched worker`: the role that touches files owned by sandbox ids and archives from anywhere.
 * The broker starts it as root of a user namespace, without a network, with a wire socket as fd 3,
 * and sends W_* messages with directory fds; it ends when the socket does. Each request is worked
 * on by a child of its own behind jail.h, so that a crash in a parser costs that request, and what
 * it had begun to build is taken away again.
 */
#pragma once

enum { WORKER_SOCKET_FD = 3 };

/* The exit status of the process. */
int worker_main(int argc, char **argv);
