/*
 * Capabilities: words in which agents and tasks say what they need, and what each word grants. The
 * built-in ones are rows of capabilities.def; an operator defines others. Compiled, they are a wish
 * that is then measured against the parent's rights, so a word never grants more than its user has.
 * Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/rights.h"
#include "model/strings.h"

/* One that an operator defined. A list that is not given is not limited by it. */
struct capability {
	char *name;
	char *about;            /* may be NULL */
	struct strings network; /* rules of model/reach.h */
	struct strings scopes;
#define RIGHT(field, text, about) struct strings field;
#include "model/rights.def"
#undef RIGHT
};

struct capabilities {
	struct capability *items;
	size_t count;
};

void capabilities_done(struct capabilities *list);
/* The one of that name, made when it is new. A name that is built in cannot be defined anew: NULL.
 */
struct capability *capabilities_enter(struct capabilities *list, const char *name);
/* What a definition says must be possible: rules of the network, scopes. ERR_INVALID. */
int capability_check(const struct capability *capability, const struct strings *objects,
                     struct err *err) NODISCARD;

/* What the words grant together. */
struct demand {
	struct rights rights; /* of these only what `wish` points to */
	struct wish wish;
};

void demand_done(struct demand *demand);
/*
 * The network is what the words together reach, and nothing without one that says so. Scopes and
 * lists are limited as soon as one word names them, to what the words name together. Fills *ret,
 * which must hold nothing. ERR_INVALID for an unknown word, with the nearest.
 */
int capability_compile(const struct strings *words, const struct capabilities *defined,
                       const struct strings *objects, struct demand *ret,
                       struct err *err) NODISCARD;

/* Networks are named after the words that stand for them, too: "capabilities:web_search,crm". */
#define CAPABILITY_NETWORK "capabilities:"
struct environment;
bool capability_is_network(const char *name);
/* The caller frees. */
char *capability_network_name(const struct strings *words);
/* An environment of that name that reaches what the words reach together; the caller frees.
 * ERR_INVALID for an unknown word. */
int capability_network(const char *name, const struct capabilities *defined,
                       const struct strings *objects, struct environment **ret,
                       struct err *err) NODISCARD;

/* All there are, built-in first: NULL after the last. *ret_network joins rules with blanks and is
 * the caller's to free. */
const char *capability_at(const struct capabilities *defined, size_t index, const char **ret_about,
                          char **ret_network);
