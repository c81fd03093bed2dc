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

struct cli_spec {
	const char *image, *profile, *name, *hostname, *cwd, *user, *network, *disk_backend;
	const char *memory, *cpu, *pids, *disk, *inodes, *nofile;
	struct opt_list env, labels, mounts;
	uint64_t ttl_ms; /* 0: as the profile says */
	bool degraded;
};

/* Rows for an option table; `spec` is a struct cli_spec. */
#define CLI_SPEC_OPTS(spec)                                                                          \
	{"image", 0, OPT_STR, &(spec).image, "NAME", "root file system (host)"},                     \
		{"profile",       'p',    OPT_STR,                                                   \
	         &(spec).profile, "NAME", "recipe of config.toml (default)"},                        \
		{"name", 0, OPT_STR, &(spec).name, "NAME", "name it can be found by"},               \
		{"label", 'l', OPT_LIST, &(spec).labels, "KEY=VALUE", "label; may repeat"},          \
		{"env", 'e', OPT_LIST, &(spec).env, "NAME[=VALUE]", "variable; may repeat"},         \
		{"volume", 'v', OPT_LIST, &(spec).mounts, "SRC:DST[:rw]", "host folder, read-only"}, \
		{"mount", 0, OPT_LIST, &(spec).mounts, "SRC:DST[:rw]", "the same as --volume"},      \
		{"cwd", 'w', OPT_STR, &(spec).cwd, "DIR", "where commands start (/workspace)"},      \
		{"user", 'u', OPT_STR, &(spec).user, "USER", "who commands run as (agent)"},         \
		{"hostname", 0, OPT_STR, &(spec).hostname, "NAME", "host name inside"},              \
		{"memory", 'm', OPT_STR, &(spec).memory, "SIZE", "most memory, like 512M"},          \
		{"cpu", 0, OPT_STR, &(spec).cpu, "CORES", "most processor time, like 1.5"},          \
		{"pids", 0, OPT_STR, &(spec).pids, "N", "most processes"},                           \
		{"disk", 0, OPT_STR, &(spec).disk, "SIZE", "most bytes of files"},                   \
		{"inodes", 0, OPT_STR, &(spec).inodes, "N", "most files"},                           \
		{"nofile", 0, OPT_STR, &(spec).nofile, "N", "most open files of a process"},         \
		{"disk-backend", 0,                                                                  \
	         OPT_STR,        &(spec).disk_backend,                                               \
	         "KIND",         "how disk is limited: auto, quota, loop, tmpfs, sampled"},          \
		{"ttl", 0, OPT_MS, &(spec).ttl_ms, "TIME", "stop it after this time"},               \
		{"network", 0, OPT_STR, &(spec).network, "NAME", "network policy (none)"},           \
	{                                                                                            \
		"degraded", 0, OPT_FLAG, &(spec).degraded, NULL,                                     \
			"start even where this machine lacks a mechanism"                            \
	}

void cli_spec_done(struct cli_spec *spec);
/* The request body; host folders are granted on the way. NULL with cli->err. */
json_t *cli_spec_to_json(struct cli *cli, const struct cli_spec *spec) NODISCARD;
/* NAME=VALUE, or NAME with the value it has here, into an object. */
int cli_spec_add_env(json_t *object, const struct opt_list *env, struct err *err) NODISCARD;
