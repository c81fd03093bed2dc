/*
 * Which users of this machine are its operators on the API socket.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

struct guests {
	uid_t own;
	uid_t owner; /* who the daemon works for */
};

/* Root, the owner and the daemon's own user. Of an ordinary user only processes in our own pid
 * namespace: what runs inside a rootless sandbox has the same uid (DESIGN, decision 16). */
bool guests_allow(const struct guests *guests, uid_t uid, pid_t pid);
