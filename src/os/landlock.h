/* Landlock, the second wall. -errno; never logs. */
#pragma once

#include "base/base.h"

struct landlock_rule {
	const char *path; /* relative to root_fd; a missing one is skipped. NULL: from_fd itself */
	enum landlock_access { LANDLOCK_READ, LANDLOCK_WRITE_FILES, LANDLOCK_ALL } access;
	int from_fd; /* > 0: path is relative to this directory instead */
};

/* The kernel's ABI version, or -EOPNOTSUPP/-ENOSYS. */
int landlock_abi(void);
enum landlock_flags {
	LANDLOCK_NO_TCP = 1 << 0, /* refuse every TCP bind and connect (ABI >= 4) */
	/* Let signals pass to whoever the ids allow. The death signal of a parent needs it. */
	LANDLOCK_MAY_SIGNAL = 1 << 1,
};

/* A ruleset, to be entered later by landlock_enter. The paths are resolved now: what is mounted
 * onto them afterwards is not covered. */
int landlock_make(int root_fd, const struct landlock_rule *rules, size_t count,
                  enum landlock_flags flags, int *ret_fd) NODISCARD;
/* Restricts this thread and its children for good. Needs no_new_privs. */
int landlock_enter(int ruleset_fd) NODISCARD;
/* Both. Restricts this thread and its children to the rules: READ = read, list, execute;
 * WRITE_FILES = READ and write existing files and device ioctls; ALL = everything this ABI knows.
 * Also scopes signals and abstract sockets where the ABI can. Needs no_new_privs. */
int landlock_restrict(int root_fd, const struct landlock_rule *rules, size_t count,
                      enum landlock_flags flags) NODISCARD;
