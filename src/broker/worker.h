/*
 * Starting workers: `cloched worker` in a jail, for every touch of files that a sandbox or an
 * archive decides about (unpacking, removing, counting). The jail: a user namespace with ids of its
 * own, empty network, pid, ipc and uts namespaces, a root with nothing but /usr and the tree it is
 * given, no capability outside the range; the worker adds Landlock and seccomp before it looks at
 * anything.
 *
 * Trees are stored in canonical ids (0–65535). As root the worker sees each through an idmapped
 * mount, so what it makes as uid 1000 is uid 1000 on disk although its own uid is far away.
 * Rootless there is no idmap and the one range is used as it is.
 *
 * Runs in a task of the tasks zygote. Blocking.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"
#include "broker/site.h"
#include "wire/wire.h"

struct worker {
	pid_t pid;
	int pidfd;
	int sock;
	int tree; /* as the worker may use it: to be sent in W_* messages */
};

/* Nothing runs; worker_stop is harmless. */
void worker_init(struct worker *worker);
/* tree_fd is a directory in our mount namespace; it stays the caller's. */
int worker_start(struct worker *worker, const struct site *site, int tree_fd,
                 struct err *err) NODISCARD;
/* The whole life of a worker that is only told to remove all below the tree. */
int worker_remove(const struct site *site, int tree_fd, struct err *err) NODISCARD;
/* One W_* message and its answer. ERR_TIMEOUT, ERR_PROTOCOL, or what the worker says. `bytes` is
 * LIMIT_WIRE_BYTES large. */
int worker_call(struct worker *worker, const struct wire_out *out, int timeout_ms, uint8_t *bytes,
                struct wire_msg *ret, struct err *err) NODISCARD;
/* Kills it if it still runs, and waits. */
void worker_stop(struct worker *worker);
