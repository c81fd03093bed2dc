/*
 * Seccomp filters, generated at build from tables of system call names (seccomp_*.def) into range
 * comparisons: foreign ABI killed, listed allowed, argument rules, denied EPERM, unknown ENOSYS.
 *
 * Some calls that a workload is refused are worth telling. These wait (SECCOMP_RET_USER_NOTIF)
 * until whoever has the listener refuses them. They are only ever refused, and judged by numbers
 * that the kernel copied, so nothing can be won by changing memory meanwhile; without a listener
 * the kernel answers ENOSYS.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

/* QUIET: the same as WORKLOAD, with nobody told. */
enum seccomp_filter { SECCOMP_WORKLOAD, SECCOMP_QUIET, SECCOMP_KEEPER, SECCOMP_WORKER };

enum { SECCOMP_ARGS = 6 };

/* A call that waits to be refused. */
struct seccomp_told {
	uint64_t id;
	pid_t pid; /* of the thread, as the reader's namespace knows it; 0: gone */
	int call;  /* SYS_… */
	uint64_t args[SECCOMP_ARGS];
	int refusal; /* the errno it is to get */
};

/* Installs the filter on the calling thread (no_new_privs must be set). -errno. */
int seccomp_install(enum seccomp_filter filter) NODISCARD;
/* Installs SECCOMP_WORKLOAD; the listener for what it tells of. -EBUSY: somebody outside listens to
 * this process already, and the kernel allows one only. -errno. */
int seccomp_listen(int *ret_listener) NODISCARD;
/* The next one, when the listener is readable. -ENOENT: it is gone. -errno. */
int seccomp_next(int listener, struct seccomp_told *ret) NODISCARD;
/* -ENOENT: it is gone, or of another listener. -errno. */
int seccomp_refuse(int listener, uint64_t id, int refusal) NODISCARD;
/* Number of BPF instructions; for doctor and tests. */
size_t seccomp_length(enum seccomp_filter filter);
