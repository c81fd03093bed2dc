/* The functions behind commands.def, one file a noun. Each calls cli_parse before anything else,
 * so that help and completion can ask for its options without running it. */
#pragma once

#include "cli/cli.h"

#define COMMAND(words, function, passes_status, args, about, example) int function(struct cli *cli);
#include "cli/commands.def"
#undef COMMAND
