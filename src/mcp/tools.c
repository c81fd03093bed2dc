#include "mcp/tools.h"

#include "base/str.h"

const struct tool tool_table[] = {
#define TOOL(name, route, flags, about) {#name, route, flags, about},
#include "mcp/tools.def"
#undef TOOL
	{0},
};

const struct tool *tool_find(const char *name)
{
	for (const struct tool *tool = tool_table; tool->name; tool++) {
		if (str_eq(tool->name, name))
			return tool;
	}
	return NULL;
}
