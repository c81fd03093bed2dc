/* What the compiler of patterns and their automaton share; for model/pattern*.c only. */
#pragma once

#include "model/pattern.h"

#define PATTERN_CODE_POINTS 0x110000u

enum pattern_op {
	PATTERN_OP_CHAR,  /* a: code point */
	PATTERN_OP_SET,   /* a: set */
	PATTERN_OP_SPLIT, /* on at a and at b */
	PATTERN_OP_JUMP,  /* on at a */
	PATTERN_OP_START,
	PATTERN_OP_END,
	PATTERN_OP_WORD_EDGE,
	PATTERN_OP_NO_WORD_EDGE,
	PATTERN_OP_AHEAD,  /* the program behind it, up to its MATCH; on at a; b: negated */
	PATTERN_OP_BEHIND, /* likewise */
	PATTERN_OP_MATCH,
};

struct pattern_inst {
	enum pattern_op op;
	uint32_t a, b;
};

struct pattern_range {
	uint32_t first, last;
};

/* Sorted, apart from each other. */
struct pattern_set {
	struct pattern_range *ranges;
	size_t count, size;
};

struct pattern {
	struct pattern_inst *code;
	size_t count, size;
	struct pattern_set *sets;
	size_t set_count;
};

/* One code point of valid UTF-8, and past it. */
uint32_t pattern_next(const char *text, size_t len, size_t *at);

/* --- pattern_set.c --- */
void pattern_set_add(struct pattern_set *set, uint32_t first, uint32_t last);
/* Sorts and joins; with is_negated, what was not in it is. */
void pattern_set_finish(struct pattern_set *set, bool is_negated);
bool pattern_set_has(const struct pattern_set *set, uint32_t c);
/* d, D, w, W, s, S. */
void pattern_set_add_class(struct pattern_set *set, char name);
/* "L", "Lu", "Letter", "gc=Nd", "Any", "ASCII"; -ENOENT for others. */
int pattern_set_add_property(struct pattern_set *set, const char *name, size_t len,
                             bool is_negated) NODISCARD;
