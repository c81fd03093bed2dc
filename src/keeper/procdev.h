/* /proc and /dev of a sandbox: private, masked, minimal. Same process and rights as rootfs. */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

/* In the zygote: one /dev for all sandboxes, read-only, whose nodes need no mount each. Where it
 * cannot be made (nodes need real root, a copy of it Linux 6.15) each sandbox gets one of its own.
 */
void procdev_warm(void);
/* In the keeper: a detached copy of that, or -1. The caller closes it. */
int procdev_take_dev(void);
/* The one file system in memory a sandbox has, detached: `shm`, which is to be /dev/shm, and the
 * little files we put into it ourselves. Each one more costs the kernel tens of KiB, and room in a
 * table of every group that counts memory. memory is the sandbox's limit: a quarter of it is the
 * most that this takes. owner: root inside. */
int procdev_make_small(uint64_t memory, uid_t owner, int *ret_fs) NODISCARD;
/* Mounts proc (of the caller's pid namespace) and a small /dev below root: dev_fd, or if that is -1
 * a new one, with shm_fd in it. */
int procdev_attach(int root_fd, int dev_fd, int shm_fd, struct err *err) NODISCARD;
/* For another limit, before anything is in it. -errno. */
int procdev_resize_shm(int root_fd, uint64_t memory) NODISCARD;
