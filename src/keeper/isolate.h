/*
 * The staged drop of privileges: once in the child that becomes init, once in the keeper itself.
 * The order is the point; isolate.c argues each step.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "keeper/slot.h"
#include "os/landlock.h"

/* What init is handed by whoever executes it: /dev/null of the sandbox as its three streams, its
 * own two (init/init.h), and the user namespace it will enter. */
enum isolate_fd {
	ISOLATE_FD_NULL = 2,
	ISOLATE_FD_CONTROL,
	ISOLATE_FD_SPAWN,
	ISOLATE_FD_USERNS,
	ISOLATE_FDS_,
};

/* In the child, after rootfs_ground: executes the program inside as `init` with these fds, by their
 * numbers, and all its privileges: a clean address space in which nothing of the broker's is left.
 * The first two are not looked at. Returns only on failure. */
int isolate_exec_init(const int fds[ISOLATE_FDS_], int program_fd, struct err *err) NODISCARD;
/* In init and in its spawner: enters the user namespace (ISOLATE_FD_USERNS), sheds what it does not
 * need, and every fd but 0 to 4 and `keep_fd`. */
int isolate_init(const struct slot *slot, int keep_fd, struct err *err) NODISCARD;
/* In the zygote: namespaces with nothing in them, which its keepers share. */
void isolate_warm(void);
/* In the keeper, once init is born: no System V object of anybody. */
int isolate_leave_ipc(void) NODISCARD;
/* In the keeper, as soon as it has what it keeps: the part of isolate_keeper that takes nothing
 * away yet. The rules name what the open folders may be used for: without them ".." would lead from
 * each to the host. *ret_ruleset is the caller's; -1: there is no Landlock. */
int isolate_prepare(const struct landlock_rule *rules, size_t count, int *ret_ruleset,
                    struct err *err) NODISCARD;
/* In the keeper, when it has left the network and the sandbox has its root: empty root, no host
 * name, own uid, no capability, Landlock, seccomp. */
int isolate_keeper(const struct slot *slot, int ruleset, struct err *err) NODISCARD;
