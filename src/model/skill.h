/*
 * A skill: a folder with a SKILL.md that says in its front matter what it is called and what it is
 * good for, and whatever it needs besides. Agents look for such folders; what is in one is data
 * here. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum {
	SKILL_NAME = 64,
	SKILL_ABOUT = 1024,
	SKILL_FILES = 64,
	SKILL_BYTES = 512 * 1024, /* all its files */
	SKILL_PATH = 200,
	SKILL_OF_TASK = 16,
	SKILL_MOST = 256, /* of one team, or of the operator */
};
#define SKILL_FILE "SKILL.md"
/* How the folder of skills of one sandbox alone begins; others are called after their content, in
 * hexadecimal digits. */
#define SKILL_OWN_BUNDLE "sk_w"

struct skill_file {
	char *path; /* in the folder */
	char *bytes;
	size_t len;
	bool is_program;
};

struct skill {
	char *name, *about;
	const char *source; /* "config", "api" or "workspace" */
	struct skill_file *files;
	size_t count, bytes;
};

void skill_free(struct skill *skill);
void skill_freep(struct skill **skill);

/* At most 64 of a-z 0-9 and "-". */
bool skill_is_name(const char *text);
/* Takes bytes (with a NUL behind them) in any case. ERR_INVALID for a path that leaves the folder,
 * ERR_TOO_LARGE. */
int skill_add(struct skill *skill, const char *path, char *bytes, size_t len, bool is_program,
              struct err *err) NODISCARD;
/* Once all files are there: reads SKILL.md, fills name and about. `folder` is the name it must
 * have; NULL: any. ERR_INVALID with what is wrong. */
int skill_check(struct skill *skill, const char *folder, struct err *err) NODISCARD;
/* The front matter alone; the caller frees both. */
int skill_read_front(const char *text, size_t len, char **ret_name, char **ret_about,
                     struct err *err) NODISCARD;
