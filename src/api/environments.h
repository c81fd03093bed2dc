/* Environments as the JSON of the API, and request bodies as environments. Pure. */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "model/environment.h"

json_t *environment_encode(const struct environment *environment);
/* EnvironmentRequest or EnvironmentChangeRequest on top of what is there, in normal form.
 * Variables are left alone. */
int environment_decode(const json_t *body, struct environment *environment,
                       struct err *err) NODISCARD;
