/* Landlock, the second wall. -errno; never logs. */
#pragma once

#include "base/base.h"

struct landlock_rule {
	const char *path; /* relative to root_fd; a missing one is skipped */
	enum landlock_access { LANDLOCK_READ, LANDLOCK_WRITE_FILES, LANDLOCK_ALL } access;
	int from_fd; /* > 0: path is relative to this directory instead */
};

/* The kernel's ABI version, or -EOPNOTSUPP/-ENOSYS. */
int landlock_abi(void);
/* Restricts this thread and its children to the rules: READ = read, list, execute; WRITE_FILES =
 * READ and write existing files and device ioctls; ALL = everything this ABI knows. Also scopes
 * signals and abstract sockets where the ABI can. Needs no_new_privs. With no_tcp every TCP bind
 * and connect is refused too (ABI >= 4). */
int landlock_restrict(int root_fd, const struct landlock_rule *rules, size_t count,
                      bool no_tcp) NODISCARD;
