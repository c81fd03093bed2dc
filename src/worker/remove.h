/* Removing what a sandbox left behind: any depth, any number, any mode. Worker role. */
#pragma once

#include "base/base.h"
#include "base/err.h"

/* Everything below dir_fd; the directory itself stays. Nobody may change the tree meanwhile. */
int remove_below(int dir_fd, struct err *err) NODISCARD;
