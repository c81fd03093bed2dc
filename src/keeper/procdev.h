/* /proc and /dev of a sandbox: private, masked, minimal. Same process and rights as rootfs. */
#pragma once

#include "base/base.h"
#include "base/err.h"

/* Mounts proc (of the caller's pid namespace) and a small /dev below root. memory is the sandbox's
 * limit: a quarter of it is the most that /dev/shm takes. */
int procdev_attach(int root_fd, uint64_t memory, struct err *err) NODISCARD;
/* For another limit, before anything is in it. -errno. */
int procdev_resize_shm(int root_fd, uint64_t memory) NODISCARD;
