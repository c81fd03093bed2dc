/*
 * Programs of commands (model/command.h): read from the manifest by whoever starts them, so that
 * the daemon can name a manifest and give values, and nothing else. In a child of the tasks
 * zygote; blocking.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/site.h"
#include "wire/wire.h"

/* OP_RUN and its answer (wire/messages.def). */
int run_command(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                struct err *err) NODISCARD;
