/* A set of files by device and inode, each with an optional name. For os/treetar. */
#pragma once

#include <sys/stat.h>

#include "base/base.h"

struct inode {
	dev_t dev;
	ino_t ino;
	char *name;
	bool used;
};

/* Zeroed is empty. */
struct inodes {
	struct inode *places;
	size_t count;
	size_t size;
};

const struct inode *inodes_find(const struct inodes *set, const struct stat *st);
/* A copy of name is kept; NULL for none. One that is there already keeps its name. */
void inodes_add(struct inodes *set, const struct stat *st, const char *name);
void inodes_done(struct inodes *set);
