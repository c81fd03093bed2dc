/*
 * The least environment that would have allowed what a sandbox did: each name with the ports it was
 * reached on, addresses that were reached without a name, and names that were only asked for. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/environment.h"
#include "model/host.h"

/* Replaces the rules of *ret. UDP cannot be allowed by name: *ret_left counts what stays outside.
 * ERR_TOO_LARGE above what lists hold; ERR_CONFLICT when nothing was allowed. */
int learn_environment(const struct host_uses *uses, struct environment *ret, size_t *ret_left,
                      struct err *err) NODISCARD;
