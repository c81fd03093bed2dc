/*
 * The file system a sandbox sees. Runs in the child that becomes init: root of the parent user
 * namespace, pid 1 of the new pid namespace, in a mount namespace of its own. Every target is opened
 * beneath the new root by fd, so a link in the image cannot aim a mount elsewhere (CVE-2021-30465,
 * CVE-2025-31133). Leaves the caller pivoted, with nothing of the host mounted but what was granted.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "keeper/slot.h"

struct rootfs {
	const struct slot *slot;
	int userns_fd;   /* the range, for idmaps; not owned */
	bool can_idmap;  /* real root: the kernel lets us idmap the layers */
	int disk_fd;     /* out: the upper's file system, for meters; owned by the caller */
};

/* Builds and pivots. On return cwd is "/" of the sandbox. */
int rootfs_enter(struct rootfs *rootfs, struct err *err) NODISCARD;
