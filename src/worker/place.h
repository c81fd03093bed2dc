/*
 * Places in a layer being built: the directory a name goes to, and what stands there already. No
 * link is ever passed. Knows nothing of archives. Worker role; -errno, never logs.
 */
#pragma once

#include <sys/stat.h>

#include "base/base.h"
#include "worker/name.h"

/* Opens (O_PATH) the directory that holds the last component, making what is missing as 0755 and
 * counting it in *made. -ELOOP: a component is a symbolic link; -ENOTDIR: it is something else. */
int place_open_parent(int root_fd, const struct name *name, uint64_t *made) NODISCARD;
/* Frees name in parent_fd. With for_dir a directory may stay. *ret_was is what stood there; its
 * st_mode is 0 when nothing did. */
int place_clear(int parent_fd, const char *name, bool for_dir, struct stat *ret_was) NODISCARD;

bool place_is_whiteout(const struct stat *st);
/* Marks a directory so that overlayfs shows nothing from the layers below in it. */
int place_set_opaque(int parent_fd, const char *name) NODISCARD;
/* Hides name of lower layers. What this layer itself has there stays: an archive may put the
 * whiteout before or behind it, and means the same. */
int place_whiteout(int parent_fd, const char *name) NODISCARD;
