/*
 * The staged drop of privileges: once in the child that becomes init, once in the keeper itself.
 * The order is the point; isolate.c argues each step.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "keeper/slot.h"
#include "os/landlock.h"

/* In the child, after rootfs_enter: enters the user namespace, sheds capabilities, executes the
 * program inside as `init` with fds 3 (control) and 4 (spawn). Returns only on failure. */
int isolate_init(const struct slot *slot, int userns_fd, int control_fd, int spawn_fd,
                 struct err *err) NODISCARD;
/* In the keeper, when the sandbox stands: empty network namespace, empty root, own uid, no
 * capability, Landlock with these rules (they name what the open folders may be used for: without
 * them ".." would lead from each to the host), seccomp. */
int isolate_keeper(const struct slot *slot, const struct landlock_rule *rules, size_t count,
                   struct err *err) NODISCARD;
