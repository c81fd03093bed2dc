/*
 * Grants: host folders and files a person lets a sandbox see. They enter the broker only as O_PATH
 * descriptors from the command line (decision 1); the daemon knows them by id. A grant lives until
 * a sandbox that somebody owns has it, or ten minutes. What a sandbox was given is written down in
 * its directory, so that starting it again later can reopen the same path, with the same checks.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "broker/state.h"

enum { GRANT_MAX = 256, GRANT_LIFE_MS = 10 * 60 * 1000 };

struct grant {
	struct id id;
	int fd;      /* owned; in the broker's mount namespace */
	uid_t owner; /* of the folder: whose files become the agent's */
	bool read_only;
	uint64_t expires_ms; /* CLOCK_BOOTTIME */
	char *path;          /* as the kernel names it; owned */
};

struct grants {
	struct grant *items;
	size_t count;
};

void grants_done(struct grants *grants);
/* Checks what fd is, and takes it in. Does not take fd. ERR_FORBIDDEN, ERR_INVALID, ERR_LIMITED. */
int grants_add(struct grants *grants, const struct state *state, int fd, bool read_only,
               struct id *ret_id, struct err *err) NODISCARD;
/* Drops what expired. */
void grants_expire(struct grants *grants, uint64_t now_ms);

/* One mount of a sandbox's launch. */
struct grant_use {
	const char *id;
	bool read_only;
	int box_fd; /* whose `grants` file may know it; -1: none */
};

/* The grant for it: taken out of the list, or reopened from what the sandbox's `grants` file says.
 * *ret is the caller's (grant_done). ERR_FORBIDDEN for a read-write mount of a read-only grant;
 * ERR_NOT_FOUND. */
int grants_use(struct grants *grants, const struct state *state, const struct grant_use *use,
               struct grant *ret, struct err *err) NODISCARD;
void grant_done(struct grant *grant);
/* Puts one that grants_use gave back into the list, for another try. Takes it. */
void grants_restore(struct grants *grants, struct grant *grant);
/* A sandbox ends before it was anybody's: what its `grants` file says is back in the list. */
int grants_return(struct grants *grants, const struct state *state, int box_fd,
                  struct err *err) NODISCARD;
/* Writes a sandbox's grants down in its directory. */
int grants_record(int box_fd, const struct grant *items, size_t count, struct err *err) NODISCARD;
