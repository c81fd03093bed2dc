/*
 * Names of runtimes, and what is behind them: the one place that maps a name to a backend.
 * Requests, config.toml, floors and error texts all ask here. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum backend { BACKEND_NONE, BACKEND_NATIVE };

/* What a profile has that names none. */
#define BACKEND_DEFAULT "native"

/* The backend of a runtime of that name. ERR_INVALID lists those that are here; `what` is the
 * member or key that has the name. */
int backend_of(const char *what, const char *name, enum backend *ret, struct err *err) NODISCARD;
/* Names of those that are here; ends with NULL. */
const char *const *backend_names(void);
/* Of any name there is, here or elsewhere; 0: nobody knows it. */
unsigned backend_strength(const char *name);
/* Whether there is such a runtime at all. ERR_INVALID with the nearest name. */
int backend_check_name(const char *name, struct err *err) NODISCARD;
