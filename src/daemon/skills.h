/*
 * The skills of this node: folders of the operator ([skills] dir of config.toml), and those that
 * the API was given, a team's each (one file under store/skills). For a run, what it names is laid
 * out as one folder (store/bundles/sk_…, called after its content) that the broker mounts
 * read-only where agents look. A run with a project of its own has a folder of its own (sk_w…), to
 * which the skills of the project are added once they are there. The daemon's loop.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/config.h"
#include "model/skill.h"

struct spec;
struct store;
struct tasks_skills;

struct skills {
	const struct config *config; /* not owned, like all of these */
	const char *state;
	struct store *store;
};

/* Names, sorted, each once: what the operator has comes before what a team has. */
int skills_list(const struct skills *skills, const char *team, struct strings *ret,
                struct err *err) NODISCARD;
/* The caller frees. ERR_NOT_FOUND with the nearest name; ERR_INVALID: it is there, but wrong. */
int skills_get(const struct skills *skills, const char *team, const char *name, struct skill **ret,
               struct err *err) NODISCARD;
/* On disk when it returns. ERR_CONFLICT: the operator has one of that name. */
int skills_put(const struct skills *skills, const char *team, const struct skill *skill,
               struct err *err) NODISCARD;
int skills_remove(const struct skills *skills, const char *team, const char *name,
                  struct err *err) NODISCARD;
/* Adds to the spec what shows these skills inside. */
int skills_mount(const struct skills *skills, const struct tasks_skills *asked, struct spec *spec,
                 struct err *err) NODISCARD;
/* Shows these in a folder that skills_mount made for one run: they come and go, those that the task
 * named stay as they are. ERR_INVALID: it is no such folder. */
int skills_fill(const struct skills *skills, const char *bundle, struct skill *const *list,
                size_t count, struct err *err) NODISCARD;
/* Removes folders that no sandbox has, but young ones: theirs may be on its way. */
void skills_sweep(const struct skills *skills);
