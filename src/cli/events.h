/* Printing events, page by page or as they happen, surviving a restart of the daemon. */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"

struct events {
	bool follow;
	uint64_t after;
	char *base; /* target, with its query if it has one; owned */
	/* For people; NULL: time, kind, sandbox and data. */
	void (*print)(const json_t *event);
};

void events_done(struct events *events);
int events_show(struct cli *cli, struct events *events) NODISCARD;
