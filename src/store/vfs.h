/*
 * SQLite's file access, as it is but for one thing: a path is used as given. The default resolves
 * every link on the way, and so turns a path through one of our descriptors (/proc/self/fd/N/…)
 * back into one that the daemon's user cannot walk when the state directory lies below a closed
 * folder.
 */
#pragma once

/* Registers it (once) and returns its name; NULL: the default must do. */
const char *vfs_plain(void);
