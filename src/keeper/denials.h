/*
 * /run/cloche/denials: what the network refused, for the programs inside and whoever reads along. A
 * file that the keeper writes and nobody inside can. Bounded: when it is full it begins anew.
 */
#pragma once

#include "base/base.h"
#include "keeper/decision.h"

/* The file `denials` in the file system fs; ret_fd is to write. */
int denials_make(int fs, int *ret_fd) NODISCARD;
void denials_write(int fd, const struct decision *decision);
