/*
 * The daemon's implementation of struct engine: verbs to the modules that do them.
 */
#pragma once

#include "api/engine.h"

struct broker_call;
struct fleet;
struct gallery;

struct engine *engine_new(struct fleet *fleet, struct gallery *gallery, struct broker_call *broker);
void engine_free(struct engine *engine);
