/*
 * The body of a request to a model: the few fields that decide where it goes and how it is counted,
 * and the same bytes with these changed. All else passes as it was written. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "gateway/llm_api.h"

struct llm_span {
	size_t from, end; /* end 0: it is not there */
};

struct llm_body {
	enum llm_api api;
	const char *bytes; /* not owned */
	size_t len;
	size_t inside; /* the first byte behind the opening brace */
	bool is_empty; /* nothing is between the braces */
	char model[256];
	struct llm_span model_at;
	bool is_stream;
	uint64_t max_tokens; /* of one answer; 0: it does not say */
	uint64_t answers;    /* that it asks for; 0: it does not say */
	/* Of chat completions: whether its figures were asked for. */
	struct llm_span options_at; /* an object: its first byte */
	bool is_options_object, is_options_empty;
	struct llm_span usage_at;
	bool has_usage;
};

/* ERR_INVALID: no JSON object, a field twice, or one that would make it impossible to count. */
int llm_body_read(struct llm_body *body, enum llm_api api, const char *bytes, size_t len,
                  struct err *err) NODISCARD;
/* As it goes out, for this model (NULL: as it is). -ENOBUFS when it does not fit. */
int llm_body_write(const struct llm_body *body, const char *model, struct buf *ret) NODISCARD;
