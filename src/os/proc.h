/* Identity of processes: boot id + pid + start time, which together are never reused. -errno. */
#pragma once

#include <sys/types.h>

#include "base/base.h"

int proc_boot_id(char out[37]) NODISCARD;
/* Field 22 of /proc/PID/stat. -ESRCH when it is gone (or a zombie). */
int proc_start_time(pid_t pid, uint64_t *ret) NODISCARD;
bool proc_is_alive(pid_t pid, uint64_t start_time);
/* Reads "/proc/PID/stat" for the parent; used by init to find the tree below a process. */
int proc_parent(pid_t pid, pid_t *ret) NODISCARD;
/* All pids visible in /proc (caller frees). */
int proc_list(pid_t **ret_pids, size_t *ret_count) NODISCARD;
int proc_pidfd_open(pid_t pid) NODISCARD;
/* From now on we die with the process that forked us. -ESRCH: it is gone already, and nobody will
 * end us; whom we belong to now does not tell, since somebody else may collect orphans. */
int proc_die_with(pid_t parent) NODISCARD;
