/*
 * Seccomp filters, generated at build from tables of system call names (seccomp_*.def) into range
 * comparisons: foreign ABI killed, listed allowed, argument rules, denied EPERM, unknown ENOSYS.
 */
#pragma once

#include "base/base.h"

enum seccomp_filter { SECCOMP_WORKLOAD, SECCOMP_KEEPER, SECCOMP_WORKER };

/* Installs the filter on the calling thread (no_new_privs must be set). -errno. */
int seccomp_install(enum seccomp_filter filter) NODISCARD;
/* Number of BPF instructions; for doctor and tests. */
size_t seccomp_length(enum seccomp_filter filter);
