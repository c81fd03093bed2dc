/*
 * Tree archives for the command line (`cloche sandbox cp`, `cloche image import`): os/treetar with
 * errors in words. Beside main.c because the command line may not include os/.
 */
#pragma once

#include "cli/cli.h"

int trees_pack(int dir_fd, const char *name, const char *as, cli_write write, void *ctx,
               struct err *err) NODISCARD;
int trees_unpack(int dir_fd, cli_read read, void *ctx, struct err *err) NODISCARD;
