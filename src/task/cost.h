/*
 * What a run cost: the rate card of config.toml times what the kernel counted. Money is in
 * millionths of a dollar. Pure.
 */
#pragma once

#include "base/base.h"
#include "model/config.h"
#include "model/sandbox.h"

uint64_t cost_of(const struct config_rates *rates, const struct meters *meters);
