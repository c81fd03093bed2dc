/* What a tree costs on disk. Worker role. */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct usage {
	uint64_t bytes; /* blocks in use, not apparent sizes; a file with several links once */
	uint64_t inodes;
};

/* Everything below dir_fd. A tree in use gives an answer that was nearly true. */
int usage_measure(int dir_fd, struct usage *ret, struct err *err) NODISCARD;
