/*
 * The options that say what a sandbox is made from, shared by `run` and `sandbox create`, and
 * their translation into the body of POST /sandboxes. Values are judged by the daemon.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "base/opt.h"
#include "cli/cli.h"

/* Each member is filled by the row of spec.def that names it. */
struct cli_spec {
	const char *image, *profile, *name, *hostname, *cwd, *user, *network, *disk_backend;
	const char *network_mode, *visibility;
	const char *memory, *cpu, *pids, *disk, *inodes, *nofile, *output_rate;
	struct opt_list env, labels, mounts, allow, allow_cidrs;
	uint64_t ttl_ms; /* 0: as the profile says */
	bool degraded;
};

void cli_spec_done(struct cli_spec *spec);
/* The request body; host folders are granted on the way. NULL with cli->err. */
json_t *cli_spec_to_json(struct cli *cli, const struct cli_spec *spec) NODISCARD;
/* NAME=VALUE, or NAME with the value it has here, into an object. */
int cli_spec_add_env(json_t *object, const struct opt_list *env, struct err *err) NODISCARD;
