/*
 * The commands of this node: read from the folder of manifests at the start and when somebody asks
 * for it, called by way of the gateway (HTTP) or of the broker (programs; the daemon starts none).
 * The daemon's loop.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/err.h"
#include "model/command.h"
#include "model/config.h"

struct broker_call;
struct loop;
struct services;

struct commands {
	struct config *config; /* not owned, like all of these but the list; objects of scopes
	                          that manifests name are added to it */
	const char *state;
	struct loop *loop;
	struct broker_call *broker;
	const struct services *services;
	struct command **items; /* by noun, then verb */
	size_t count;
};

/* Reads the folder; one that is not there is an empty one. ERR_CONFIG with file and line: then
 * nothing changed. */
int commands_load(struct commands *commands, struct err *err) NODISCARD;
void commands_done(struct commands *commands);
struct command *commands_at(const struct commands *commands, size_t index);
void commands_call(struct commands *commands, const struct command_call *call,
                   engine_on_command on_result, void *ctx);
