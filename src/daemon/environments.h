/*
 * The environments of this node: built-in, of config.toml, and those that the API made (in the
 * store, with sealed variables). One place that finds one by name, changes one, and opens its
 * variables for a command.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/err.h"
#include "daemon/keys.h"
#include "model/config.h"
#include "model/environment.h"
#include "model/strings.h"

struct store;

struct environments {
	struct store *store;         /* not owned, like all of these */
	const struct config *config; /* comes before the store: an operator's file wins */
	const struct keys *keys;
};

/* By id, or by name in that team (NULL: the default one); the caller frees. ERR_NOT_FOUND with the
 * nearest name. */
int environments_get(const struct environments *all, const char *team, const char *name,
                     struct environment **ret, struct err *err) NODISCARD;
/* The one a sandbox names, if it may be used by its owner; else as if it were not there. */
int environments_for(const struct environments *all, const struct spec *spec,
                     struct environment **ret, struct err *err) NODISCARD;
/* Appends NAME=value of every variable of a sandbox's environment; the caller wipes the list
 * (environments_wipe). What does not open is an error: a command must not run without what it was
 * promised. */
int environments_open(const struct environments *all, const struct spec *spec, struct strings *ret,
                      struct err *err) NODISCARD;
void environments_wipe(struct strings *values);

/* Stores it with its event. ERR_CONFLICT when the name is taken. */
void environments_put(const struct environments *all, const struct environment_change *change,
                      engine_on_done on_done, void *ctx);
/* What runs keeps the policy it has. */
void environments_remove(const struct environments *all, const struct environment *environment,
                         engine_on_done on_done, void *ctx);
