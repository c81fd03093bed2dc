/*
 * Commands of manifests on the command line: "cloche contacts list --query ada". What there is,
 * and which options it takes, is asked of the daemon; nothing of it is known here.
 */
#pragma once

#include "base/base.h"

struct cli;

/* The words at hand may be such a command. False: they are none, or no daemon says so. *ret_status
 * is the exit status, or <0 with cli->err. */
bool domain_run(struct cli *cli, int *ret_status);
