/*
 * Scopes: "object:read" and "object:write", what a credential may touch. The built-in objects are
 * rows of scopes.def and kept as bits, so that the question every request asks costs one
 * instruction; objects an operator defines ("contacts:read") are kept as texts. Writing includes
 * reading: a set that has the one always has the other. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"

enum scope {
#define SCOPE(id, object, verbs, viewer, member, run, about) SCOPE_##id##_READ, SCOPE_##id##_WRITE,
#include "model/scopes.def"
#undef SCOPE
	SCOPE_COUNT_,
	SCOPE_PUBLIC = -1,  /* a route everybody may ask */
	SCOPE_ANYBODY = -2, /* a route everybody may ask whom we know */
};
static_assert(SCOPE_COUNT_ <= 64, "a set is one word");

enum role {
#define ROLE(id, text, about) ROLE_##id,
#include "model/roles.def"
#undef ROLE
	ROLE_COUNT_
};

enum { SCOPES_OBJECTS = 32, SCOPES_CUSTOM = 2 * SCOPES_OBJECTS, SCOPES_TEXT = 16 * 1024 };

struct scopes {
	uint64_t bits;
	struct strings custom; /* "contacts:read", sorted, each once */
};

void scopes_done(struct scopes *scopes);
/* Replaces what *to holds. */
void scopes_copy(struct scopes *to, const struct scopes *from);

static inline bool scopes_has(const struct scopes *scopes, enum scope scope)
{
	return scope < 0 || (scopes->bits >> scope & 1) != 0;
}

/* Also of defined objects; false for a text that is no scope. */
bool scopes_has_text(const struct scopes *scopes, const char *text);
bool scopes_is_empty(const struct scopes *scopes);
/* What is in both. */
void scopes_intersect(struct scopes *to, const struct scopes *with);
/* What is in either. */
void scopes_add(struct scopes *to, const struct scopes *more);
/* Every scope of inner is in outer. If not, *ret_extra (may be NULL) names one that is not; it
 * lives as long as inner. */
bool scopes_within(const struct scopes *inner, const struct scopes *outer, const char **ret_extra);

/* "sandboxes:read"; must be a real scope. */
const char *scope_name(enum scope scope);
/* The name of an object a user may define: [a-z][a-z0-9_]*, and none of ours. ERR_INVALID. */
int scope_check_object(const char *object, struct err *err) NODISCARD;

/*
 * What people write: a preset ("read_only", "full") or scopes, "object:*" being both. `objects`
 * are the defined ones ("name=about"). Fills *ret, which must hold nothing. ERR_INVALID for what is
 * unknown, with the nearest, and for what cannot be asked for.
 */
int scopes_parse(const struct strings *list, const struct strings *objects, struct scopes *ret,
                 struct err *err) NODISCARD;
/* Every scope there is to ask for; with read_only those that read. Fills *ret, which must hold
 * nothing. */
void scopes_preset(bool read_only, const struct strings *objects, struct scopes *ret);
/* The most a role has. Of defined objects: a viewer reads, the others write. */
void scopes_of_role(enum role role, const struct strings *objects, struct scopes *ret);
/* Drops what no run may have, whoever asks for it, then adds what every run has. */
void scopes_make_run(struct scopes *scopes);

/* The names in a fixed order, appended to *ret. */
void scopes_list(const struct scopes *scopes, struct strings *ret);
/* Blanks between; the caller frees. And back: what this version does not know stays as text. */
char *scopes_format(const struct scopes *scopes) NODISCARD;
void scopes_load(const char *text, struct scopes *ret);

/* What there is to ask for, for people: NULL after the last. */
const char *scope_object_at(size_t index, const char **ret_about, bool *ret_writable);

const char *role_name(enum role role);
/* false for an unknown word. */
bool role_from(const char *text, enum role *ret) NODISCARD;
