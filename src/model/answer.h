/*
 * The JSON in what an agent answers: models wrap it in prose and fences. Pure; the text is foreign.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum answer_kind {
	ANSWER_JSON,
	ANSWER_EMPTY,  /* nothing but blanks */
	ANSWER_BROKEN, /* it tries to be JSON; err says where it fails */
	ANSWER_PROSE,  /* nothing in it looks like JSON */
};

struct answer {
	enum answer_kind kind;
	const char *json; /* of ANSWER_JSON: within the text */
	size_t len;
};

/*
 * The first of these that is JSON: a fenced block marked json, any fenced block, the text from its
 * first { or [ to its last } or ], the whole text. Of several fenced blocks the last one counts,
 * because that is the conclusion.
 */
void answer_find(const char *text, size_t len, struct answer *ret, struct err *err);
