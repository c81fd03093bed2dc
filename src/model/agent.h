/*
 * An agent's manifest: a small TOML file that says who it is and what it needs. Foreign bytes: read
 * strictly, an unknown key is an error with its line. Pure; signatures are checked elsewhere, over
 * the bytes of the file.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"

enum { AGENT_MANIFEST_BYTES = 64 * 1024, AGENT_LIST = 64 };

struct agent {
	char *name;
	char *version;     /* may be NULL */
	char *description; /* may be NULL */
	char *runtime;     /* the one it asks for; NULL: whichever holds */
	struct strings capabilities;
	struct strings tools;
	struct strings repositories;
};

/* Fills *ret, which must hold nothing. `name` is what messages call the file. ERR_INVALID. */
int agent_parse(const char *name, const char *text, size_t len, struct agent *ret,
                struct err *err) NODISCARD;
void agent_done(struct agent *agent);
