/*
 * Namespaces: making user namespaces with given maps, entering and creating the others.
 * -errno; never logs.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

struct ns_map {
	uint32_t inside;
	uint32_t outside;
	uint32_t count;
};

/* A user namespace with these maps, held only by the returned fd (the helper process that gave
 * birth to it is gone when this returns). Needs CAP_SETUID/SETGID over the parent namespace for
 * more than the caller's own id; with deny_setgroups the gid map can be one unprivileged line. */
int ns_user_create(const struct ns_map *uids, size_t uid_count, const struct ns_map *gids,
                   size_t gid_count, bool deny_setgroups, int *ret_fd) NODISCARD;
/* Writes the three files of /proc/PID for a child that waits. */
int ns_write_maps(pid_t pid, const struct ns_map *uids, size_t uid_count, const struct ns_map *gids,
                  size_t gid_count, bool deny_setgroups) NODISCARD;
/* setns with a CLONE_NEW* type. */
int ns_enter(int fd, int type) NODISCARD;
int ns_unshare(int flags) NODISCARD;
/* Open /proc/PID/ns/NAME. */
int ns_open(pid_t pid, const char *name) NODISCARD;
/* fork-like clone with CLONE_NEW* flags (no CLONE_VM): 0 in the child, pid in the parent. With
 * ret_pidfd also CLONE_PIDFD. cgroup_fd >= 0 uses CLONE_INTO_CGROUP (v2). */
pid_t ns_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd) NODISCARD;
/* True in the machine's first user namespace (every id mapped to itself). */
bool ns_is_initial_user(void);
/* Adds CLOCK_BOOTTIME/MONOTONIC offsets to the time namespace the next child will enter. */
int ns_time_offsets(int64_t monotonic_s, int64_t boottime_s) NODISCARD;
