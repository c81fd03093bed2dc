/*
 * Opening names a sandbox may have chosen: openat2 with RESOLVE_BENEATH or RESOLVE_IN_ROOT, never
 * magic links. The only file that does so. -errno.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

/* Refuses to leave dir_fd and to follow magic links; symlinks inside are followed only while they
 * stay beneath. flags as for open(2), O_CLOEXEC is added. */
int path_open_beneath(int dir_fd, const char *path, int flags, mode_t mode) NODISCARD;
/* No symlink at any component. */
int path_open_plain(int dir_fd, const char *path, int flags, mode_t mode) NODISCARD;
/* As if dir_fd were "/": absolute links and ".." stay inside. */
int path_open_in_root(int dir_fd, const char *path, int flags, mode_t mode) NODISCARD;
/* mkdir -p beneath root_fd as if it were "/", each step by fd; returns the last directory opened
 * O_PATH | O_DIRECTORY. New directories get mode and, when uid != (uid_t)-1, that owner. */
int path_make_dirs(int root_fd, const char *path, mode_t mode, uid_t uid, gid_t gid,
                   int *ret_fd) NODISCARD;
/* Removes everything below dir_fd (the directory itself stays): unlinkat only, no link followed,
 * mount points are an error (EXDEV), bounded open fds. For trees nobody changes any more. */
int path_remove_below(int dir_fd) NODISCARD;
/* mkdirat if missing, then open it as a directory (no symlink). */
int path_dir(int dir_fd, const char *name, mode_t mode) NODISCARD;
/* Whether a directory opened for reading has no entry; the fd's position is used up. */
int path_is_empty_dir(int dir_fd) NODISCARD;
/* Asks the file system to give each folder in this one a place of its own. ext4 else puts what
 * comes and goes side by side, and without a journal looks through all that went in the last
 * minutes for each new file. Others know nothing of it, and that is fine. */
void path_spread(int dir_fd);
