/*
 * What a call to a model used, read from its answer while that is passed on: server-sent events or
 * one JSON document, split anywhere. Where the provider says nothing, or was cut short, it is
 * estimated, rather too much than too little. The bytes are foreign. Pure.
 */
#pragma once

#include "base/base.h"
#include "gateway/json_scan.h"
#include "gateway/llm_api.h"

enum { LLM_BYTES_PER_TOKEN = 3 }; /* of an estimate; real ones have about four */

/* All of it, as a bill has it. */
struct llm_tokens {
	uint64_t input;  /* cached ones included */
	uint64_t cached; /* of these, read from the provider's cache */
	uint64_t output;
	bool is_estimate;
};

struct llm_usage {
	enum llm_api api;
	bool is_events;
	struct json_scan scan;
	/* Of lines: which field one has, and where in it we are. */
	uint8_t line_state;
	uint8_t matched;
	bool had_return;
	/* As the provider says it; UINT64_MAX: not yet. */
	uint64_t input, output, begun, cached, stored, tools, thoughts;
	uint64_t text_bytes;
	bool is_finished; /* an answer that counts in each event said that this one is its last */
	uint64_t body_bytes; /* of the request */
};

/* body_bytes: of the request, for an estimate. */
void llm_usage_init(struct llm_usage *usage, enum llm_api api, bool is_events, uint64_t body_bytes);
void llm_usage_feed(struct llm_usage *usage, const void *bytes, size_t len);
/* The provider has said all that it will say. */
bool llm_usage_is_final(const struct llm_usage *usage);
/* What was used up to now; is_over: the answer came to its end, so its own figures are final. */
void llm_usage_read(struct llm_usage *usage, bool is_over, struct llm_tokens *ret);
