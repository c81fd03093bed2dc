/*
 * run/broker.sock: what a person at the command line may ask of the broker itself: grants, ending
 * everything, a sign of life. Only root and the broker's own user are listened to, and rootless
 * only from our own pid namespace: a sandbox has our uid there.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/loop.h"

struct broker;
struct control_conn;

struct control {
	struct broker *broker;
	int listen_fd;
	struct loop_source source;
	struct control_conn *conns;
	size_t count;
};

void control_init(struct control *control, struct broker *broker);
int control_start(struct control *control, struct err *err) NODISCARD;
/* Closes all and removes the socket. */
void control_done(struct control *control);
