/* A part of a TOML file as JSON text, for schemas that are written in TOML. Pure. */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/toml.h"

/* ERR_CONFIG for what JSON has not (dates, inf, nan) or what does not fit the buffer. */
int command_put_json(struct buf *buf, const struct toml *node, struct err *err) NODISCARD;
