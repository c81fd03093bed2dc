/* User accounts and subordinate id ranges from the plain files: `cloche` is static and has no NSS.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

struct userdb_account {
	uid_t uid;
	gid_t gid;
};

/* By name in passwd-like text. False when there is none. */
bool userdb_account_in(const char *passwd, const char *name, struct userdb_account *ret);
/* The account cloched runs as when the broker is root. `name` is the configured one; with
 * `must_exist` its absence is ERR_CONFIG, else a fixed uid that no account has is used. Never root.
 */
int userdb_for_daemon(const char *name, bool must_exist, struct userdb_account *ret,
                      struct err *err) NODISCARD;
/* First range of `user` (a name or a number, either may be NULL) in subuid-like text. */
bool userdb_subids_in(const char *text, const char *name, uid_t uid, uint32_t *ret_first,
                      uint32_t *ret_count);
/* Ranges of the calling user in /etc/subuid and /etc/subgid; false unless both are there. */
struct userdb_subids {
	uint32_t uid_first, uid_count;
	uint32_t gid_first, gid_count;
};
bool userdb_subids(uid_t uid, struct userdb_subids *ret);
