/*
 * The walls a worker puts around itself before it looks at a foreign byte. The broker has started
 * it as root of a user namespace in an empty network namespace; here everything that this one piece
 * of work does not need goes away for good: capabilities, paths, system calls, memory.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct jail {
	int dir_fd;          /* the tree worked on */
	int host_fd;         /* "/" of the machine, for the host image; else -1 */
	bool is_read_only;   /* nothing in dir_fd is changed */
	uint64_t file_bytes; /* largest file that can be written */
	bool is_degraded;    /* a kernel without Landlock is accepted */
};

/* For the calling process, irrevocably. ERR_MISSING names a mechanism the kernel lacks. */
int jail_enter(const struct jail *jail, struct err *err) NODISCARD;
