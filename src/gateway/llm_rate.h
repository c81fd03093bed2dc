/*
 * How much somebody may ask of models in a minute: requests, and tokens, which are only known
 * afterwards and may leave a debt. One bucket a caller, bounded in number. Pure but for its memory;
 * the caller brings the clock.
 */
#pragma once

#include "base/base.h"

struct llm_rate;

/* A limit of 0 is none. */
struct llm_rate *llm_rate_new(uint64_t requests_per_minute, uint64_t tokens_per_minute);
/* Accepts NULL. */
void llm_rate_free(struct llm_rate *rate);
/* One more request: 0, or after how many ms it may come; *ret_what then says what there was too
 * much of. */
uint64_t llm_rate_take(struct llm_rate *rate, const char *name, uint64_t now_ms,
                       const char **ret_what);
/* Tokens that were used. */
void llm_rate_used(struct llm_rate *rate, const char *name, uint64_t tokens, uint64_t now_ms);
