/* Capability sets and the other one-way switches of a process. -errno; never logs. */
#pragma once

#include <sys/types.h>

#include "base/base.h"

#define CAPS_BIT(cap) (UINT64_C(1) << (cap))

/* Drops every capability not in keep from the bounding set, and sets permitted = effective = keep,
 * inheritable = ambient = empty. What is in keep but not permitted now stays away: not an error. */
int caps_limit(uint64_t keep) NODISCARD;
/* The same without the bounding set. */
int caps_keep(uint64_t keep) NODISCARD;
/* Empties the bounding set alone; needs CAP_SETPCAP unless it is empty already. */
int caps_drop_bounding(void) NODISCARD;
/* Only empties effective, permitted, inheritable, ambient (what is left after a setuid). */
int caps_clear(void) NODISCARD;
/* effective = permitted without `except`: after a change of the file system id, which lowers some.
 */
int caps_raise_permitted(uint64_t except) NODISCARD;
bool caps_has(int cap); /* effective */
int caps_no_new_privs(void) NODISCARD;
int caps_not_dumpable(void) NODISCARD;
/* setgroups(0) (where the namespace has not denied it), setresgid, setresuid, and a check that it
 * cannot be undone unless keep != 0: then these capabilities stay permitted and effective across
 * the change (PR_SET_KEEPCAPS). */
int caps_become(uid_t uid, gid_t gid, uint64_t keep) NODISCARD;
/* Closes every fd not in the list (sorted or not; count small). */
int caps_close_fds_except(const int *keep, size_t count) NODISCARD;
