/*
 * System calls the C library may not wrap, and constants older kernel headers lack (Debian 12 ships
 * those of 6.1). Raw numbers are the same on every architecture from 424 on. Each function is the
 * bare call: -1 and errno.
 */
#pragma once

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* In glibc struct mount_attr, struct statx and their constants are in the headers above, which
 * clash with these. */
#ifndef __GLIBC__
#include <linux/mount.h>
#include <linux/stat.h>
#endif

#include "base/base.h"

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/* struct clone_args up to the field of Linux 5.7; the header's one clashes with libc's sched.h. */
struct sys_clone_args {
	uint64_t flags;
	uint64_t pidfd;
	uint64_t child_tid;
	uint64_t parent_tid;
	uint64_t exit_signal;
	uint64_t stack;
	uint64_t stack_size;
	uint64_t tls;
	uint64_t set_tid;
	uint64_t set_tid_size;
	uint64_t cgroup;
};

static inline pid_t sys_clone3(struct sys_clone_args *args)
{
	return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}

static inline int sys_openat2(int dir_fd, const char *path, const struct open_how *how)
{
	return (int)syscall(SYS_openat2, dir_fd, path, how, sizeof(*how));
}

static inline int sys_open_tree(int dir_fd, const char *path, unsigned int flags)
{
	return (int)syscall(SYS_open_tree, dir_fd, path, flags);
}

static inline int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to,
                                 unsigned int flags)
{
	return (int)syscall(SYS_move_mount, from_fd, from, to_fd, to, flags);
}

static inline int sys_fsopen(const char *type, unsigned int flags)
{
	return (int)syscall(SYS_fsopen, type, flags);
}

static inline int sys_fsconfig(int fd, unsigned int cmd, const char *key, const void *value,
                               int aux)
{
	return (int)syscall(SYS_fsconfig, fd, cmd, key, value, aux);
}

static inline int sys_fsmount(int fd, unsigned int flags, unsigned int attr_flags)
{
	return (int)syscall(SYS_fsmount, fd, flags, attr_flags);
}

static inline int sys_fspick(int dir_fd, const char *path, unsigned int flags)
{
	return (int)syscall(SYS_fspick, dir_fd, path, flags);
}

static inline int sys_mount_setattr(int fd, const char *path, unsigned int flags,
                                    struct mount_attr *attr)
{
	return (int)syscall(SYS_mount_setattr, fd, path, flags, attr, sizeof(*attr));
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_execve_fd(int fd, char *const *argv, char *const *environment)
{
	return (int)syscall(SYS_execveat, fd, "", argv, environment, AT_EMPTY_PATH);
}

static inline int sys_statx(int fd, unsigned int mask, struct statx *ret)
{
	return (int)syscall(SYS_statx, fd, "", AT_EMPTY_PATH, mask, ret);
}

static inline int sys_pidfd_open(pid_t pid, unsigned int flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline int sys_pidfd_send_signal(int fd, int signal)
{
	return (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
}

static inline int sys_close_range(unsigned int first, unsigned int last, unsigned int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}
