/*
 * The file system a sandbox sees, in four parts. rootfs_prepare and rootfs_take run in the keeper,
 * in whose mount namespace the fds of layers and grants were opened: they turn each into a detached
 * mount with its final flags and id map. rootfs_ground runs in the child that becomes init: root of
 * the parent user namespace, pid 1 of the new pid namespace, in a mount namespace of its own, which
 * the keeper enters for rootfs_build, while nothing runs in it but our own. The first of each pair
 * needs no image, and may be done long before one is known. Every target is opened beneath the new
 * root by fd, so a link in the image cannot aim a mount elsewhere (CVE-2021-30465, CVE-2025-31133).
 * Leaves whoever is in the namespace pivoted, with nothing of the host mounted but what was
 * granted.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "keeper/slot.h"

struct rootfs {
	struct slot *slot; /* its layers, mounts and program are replaced by detached mounts */
	int userns_fd;     /* the range, for idmaps; not owned */
	bool can_idmap;    /* real root: the kernel lets us idmap the layers */
	int disk_fd;       /* detached mount that holds upper/, work/, workspace/; the caller's */
	bool is_disk_idmapped;
	bool was_blank; /* from rootfs_prepare: its disk is new, and ready for the host image */
	bool is_first;  /* the host image on a disk nobody has used: all is as we made it */
	int dev_fd;     /* detached; -1: none at hand. Owned by the caller */
	int small_fd;   /* procdev_make_small's, with `denials` and `api`; owned by the caller */
	int scratch_fd; /* of the caller's namespace, from rootfs_ground and rootfs_build; the
	                   caller's */
};

/* What a disk that lasts starts with, made in an empty directory. */
int rootfs_fill_disk(int dir_fd) NODISCARD;
/* The disk, /dev, the program; nothing of the image. */
int rootfs_prepare(struct rootfs *rootfs, struct err *err) NODISCARD;
/* Layers and granted folders. */
int rootfs_take(struct rootfs *rootfs, struct err *err) NODISCARD;
/* Parts of both, for one that is bound after it was built. The first turns the fds of granted
 * folders into detached mounts, in the namespace they were opened in; the second makes this process
 * root of the sandbox towards files; the third attaches them below the root. */
int rootfs_take_mounts(struct slot *slot, bool can_idmap, struct err *err) NODISCARD;
int rootfs_become_inside_root(const struct slot *slot) NODISCARD;
int rootfs_attach_mounts(const struct slot *slot, int root, struct err *err) NODISCARD;
/* Scratch, disk, /proc and /dev, in the child. What the host mounts and unmounts meanwhile is
 * followed until rootfs_build. */
int rootfs_ground(struct rootfs *rootfs, struct err *err) NODISCARD;
/* Builds on it and pivots, in the namespace of the child, all of whose processes go along.
 * shm_memory: the limit /dev/shm is to have, 0: it has it. On return cwd is "/" of the sandbox. */
int rootfs_build(struct rootfs *rootfs, uint64_t shm_memory, struct err *err) NODISCARD;
