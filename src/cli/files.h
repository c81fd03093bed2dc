/* Files of a sandbox over the API, shared by `sandbox files` and `sandbox cp`. */
#pragma once

#include "base/base.h"
#include "cli/cli.h"
#include "cli/term.h"

/* "/sandboxes/ID/what?path=…&user=…"; path and user may be NULL. The caller frees. */
char *files_target(const char *sandbox, const char *what, const char *path,
                   const char *user) NODISCARD;
/* PUT of everything fd has, with progress on a terminal. */
int files_put(struct cli *cli, const char *target, int fd) NODISCARD;
int files_mkdir(struct cli *cli, const char *sandbox, const char *path, const char *user,
                bool parents) NODISCARD;

struct files_source {
	int fd;
	uint64_t sent;
	struct term_progress progress;
};
/* A client_source over a struct files_source. */
ssize_t files_read_source(void *ctx, void *bytes, size_t size, struct err *err) NODISCARD;
