/*
 * Which state directory a command means: --state or CLOCHE_STATE, else /var/lib/cloche for root
 * and $XDG_STATE_HOME/cloche (~/.local/state/cloche) for everyone else, who may also use root's
 * daemon when its socket lets them and they have none of their own.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

/* A variable of the environment; NULL when it is not set or empty. */
const char *place_env(const char *name);
/* Absolute; the caller frees. NULL with err when there is no home to put it. */
char *place_resolve(const char *given, struct err *err) NODISCARD;
