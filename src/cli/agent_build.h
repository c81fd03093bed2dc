/*
 * The layer of an agent, made by npm in a sandbox of its own: what its packages run while they are
 * installed runs there, and reaches what the environment `trusted` lets through.
 */
#pragma once

#include "base/base.h"
#include "base/opt.h"
#include "cli/cli.h"

struct agent_build {
	const char *root;     /* where the agent is looked for */
	const char *packages; /* npm's words, with blanks between */
	const char *network;  /* environment; NULL: trusted */
	struct opt_list allow, cidrs;
};

/* *ret_fd is the layer as tar, from its beginning on. The sandbox is gone afterwards. */
int agent_build(struct cli *cli, const struct agent_build *build, int *ret_fd) NODISCARD;
