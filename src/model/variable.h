/*
 * Variables of an environment: values that commands get and nobody reads back. Which names are
 * possible; the values are sealed by the daemon. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"

enum { VARIABLE_MOST = 64, VARIABLE_BYTES = 32 * 1024 };

/* ERR_INVALID for what is no name, is Cloche's own, or would let a value become code. Never says
 * anything about a value. */
int variable_check_name(const char *name, struct err *err) NODISCARD;
/* A list of NAME=value. ERR_INVALID, ERR_TOO_LARGE. */
int variable_check_list(const struct strings *list, struct err *err) NODISCARD;
