/*
 * Mounts by file descriptor where the kernel can, so that no guest-controlled path is walked
 * twice. -errno; never logs. MOUNT_* flags are our own names for MOUNT_ATTR_*.
 */
#pragma once

#include "base/base.h"

enum mount_flags {
	MOUNT_RO = 1 << 0,
	MOUNT_NOSUID = 1 << 1,
	MOUNT_NODEV = 1 << 2,
	MOUNT_NOEXEC = 1 << 3,
	MOUNT_RECURSIVE = 1 << 4,
};

/* Makes every mount of this namespace private (MS_REC | MS_PRIVATE on "/"). */
int mount_make_private(void) NODISCARD;
/* As that, but what is mounted and unmounted outside still arrives (MS_SLAVE). */
int mount_make_slave(void) NODISCARD;
/* A new, unattached file system: type "tmpfs", "proc", "devpts", "overlay", "ext4". options is a
 * comma-separated list given by fsconfig ("size=1m,mode=755"). The result is a mount fd. A lowerdir
 * list of more than 255 bytes needs Linux 6.7 (-EINVAL before): keep it short by naming layers
 * relative to the cwd ("0:1:2"). No escaping: paths of ours have no comma or colon. */
int mount_new(const char *type, const char *source, const char *options, enum mount_flags flags,
              int *ret_fd) NODISCARD;
/* Changes options of the mounted file system whose root fd is ("size=1m"); the others stay. */
int mount_reconfigure(int fd, const char *options) NODISCARD;
/* open_tree(OPEN_TREE_CLONE) of dir_fd/path: an unattached copy of that mount. */
int mount_clone(int dir_fd, const char *path, enum mount_flags flags, int *ret_fd) NODISCARD;
/* Adds flags to a mount fd (or the mount at dir_fd/path). */
int mount_set_flags(int mount_fd, enum mount_flags flags) NODISCARD;
/* MOUNT_ATTR_IDMAP with a user namespace; the mount must not be attached yet. */
int mount_set_idmap(int mount_fd, int userns_fd) NODISCARD;
/* move_mount of an unattached mount onto dir_fd/path. Never follows a final symlink; the target is
 * resolved beneath dir_fd (RESOLVE_IN_ROOT) first and the mount goes onto that fd. */
int mount_attach(int mount_fd, int dir_fd, const char *path) NODISCARD;
/* Attaches to the directory (or file) an fd refers to. */
int mount_attach_fd(int mount_fd, int target_fd) NODISCARD;
/* pivot_root to the directory fd, old root detached, cwd = "/". */
int mount_pivot(int new_root_fd) NODISCARD;
/* umount2(MNT_DETACH | UMOUNT_NOFOLLOW). */
int mount_detach(const char *path) NODISCARD;
