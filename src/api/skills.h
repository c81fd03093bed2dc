/* What the API asks about skills: a part of the engine (engine.h), apart because it is all of one
 * kind. The daemon implements it (daemon/skills.h); at once, on the loop's thread. */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/skill.h"
#include "model/strings.h"

struct engine;

struct skill_ops {
	int (*list)(struct engine *engine, const char *team, struct strings *ret, struct err *err);
	int (*get)(struct engine *engine, const char *team, const char *name, struct skill **ret,
	           struct err *err);
	int (*put)(struct engine *engine, const char *team, const struct skill *skill,
	           struct err *err);
	int (*remove)(struct engine *engine, const char *team, const char *name, struct err *err);
};
