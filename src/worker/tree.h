/*
 * Walking a directory tree of any depth and size with few descriptors and without recursion. No
 * link is followed and no other file system entered. Worker role; -errno, never logs.
 */
#pragma once

#include <sys/stat.h>

#include "base/base.h"

struct tree_entry {
	int dir_fd; /* the directory it is in */
	const char *name;
	size_t depth; /* 1: directly below where the walk began */
	struct stat st;
};

/* Called for each entry before what is below it. 0: go on; > 0: leave out what is below it; a
 * negative result ends the walk with it. */
typedef int (*tree_on_entry)(const struct tree_entry *entry, void *ctx);

/* Everything below dir_fd, not dir_fd itself. What vanishes meanwhile is left out; -ESTALE when a
 * directory being walked was moved elsewhere. */
int tree_walk(int dir_fd, tree_on_entry on_entry, void *ctx) NODISCARD;
