/* The table of tools.def: which routes of the API are tools of MCP. Pure. */
#pragma once

#include "base/base.h"

enum tool_flags {
	TOOL_SLOW = 1 << 0,
	TOOL_LOSES = 1 << 1,
	TOOL_WAITS = 1 << 2,
	TOOL_AWAITS = 1 << 3,
	TOOL_COMMAND = 1 << 4, /* of a manifest; not in the table */
	TOOL_ASKS = 1 << 5,    /* a person must allow it; of config.toml */
};

/* Clients drop a call that says nothing for 60 s. */
enum { TOOL_WAIT_MOST_S = 45 };

struct tool {
	const char *name;  /* NULL: end of the table */
	const char *route; /* its handler's name */
	unsigned flags;
	const char *about;
};

extern const struct tool tool_table[];
/* NULL: no such tool. */
const struct tool *tool_find(const char *name);
