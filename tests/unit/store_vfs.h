/*
 * A SQLite VFS for tests, over the default one: it can make the n-th operation that changes a
 * file fail, once or from then on (a disk that is full stays full), and hold every sync until it
 * is let go. One instance a process.
 */
#pragma once

#include <stdbool.h>

/* Registers it; the name to open with. */
const char *store_vfs_setup(void);
/* The n-th change from now on (1 is the next) fails with rc, a SQLite result code. */
void store_vfs_fail(int n, int rc, bool stays);
/* Whether that has happened. */
bool store_vfs_has_failed(void);
void store_vfs_heal(void);
/* Blocks whoever syncs until store_vfs_release. */
void store_vfs_hold(void);
/* Returns once someone is blocked. */
void store_vfs_wait_held(void);
void store_vfs_release(void);
