/*
 * The staged drop of privileges: once in the child that becomes init, once in the keeper itself.
 * The order is the point; isolate.c argues each step.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "keeper/slot.h"
#include "os/landlock.h"

/* What init is handed by whoever executes it, besides its own two (init/init.h). */
enum isolate_fd {
	ISOLATE_FD_CONTROL = 3,
	ISOLATE_FD_SPAWN,
	ISOLATE_FD_USERNS,
	ISOLATE_FD_SCRATCH,
	ISOLATE_FD_DISK,
	ISOLATE_FD_PROGRAM,
	ISOLATE_FD_GUEST,
	ISOLATE_FD_DENIALS,
	ISOLATE_FDS_,
};

/* In the child, after rootfs_ground: executes the program inside as `init` with these fds, by their
 * numbers less 3, and all its privileges: a clean address space in which nothing of the broker's is
 * left. Returns only on failure. */
int isolate_exec_init(const int fds[ISOLATE_FDS_ - ISOLATE_FD_CONTROL], struct err *err) NODISCARD;
/* In init and in its spawner, after rootfs_enter: enters the user namespace (ISOLATE_FD_USERNS),
 * sheds what it does not need, and every fd but 0 to 4 and `keep_fd`. */
int isolate_init(const struct slot *slot, int keep_fd, struct err *err) NODISCARD;
/* In the zygote: namespaces with nothing in them, which its keepers share. */
void isolate_warm(void);
/* In the keeper, once init is born: no host name, no System V object of anybody. */
int isolate_leave_names(void) NODISCARD;
/* In the keeper, as soon as it has what it keeps: the part of isolate_keeper that takes nothing
 * away yet. The rules name what the open folders may be used for: without them ".." would lead from
 * each to the host. *ret_ruleset is the caller's; -1: there is no Landlock. */
int isolate_prepare(const struct landlock_rule *rules, size_t count, int *ret_ruleset,
                    struct err *err) NODISCARD;
/* In the keeper, when it has left the network and the sandbox gets its root: empty root, own uid,
 * no capability, Landlock, seccomp. */
int isolate_keeper(const struct slot *slot, int ruleset, struct err *err) NODISCARD;
