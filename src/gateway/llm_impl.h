/* What the parts of the model gateway share. */
#pragma once

#include "gateway/llm.h"
#include "gateway/llm_rate.h"
#include "gateway/upstream.h"

enum { LLM_GRANTS = 128 };

struct llm_call;

struct llm {
	struct llm_config config;
	struct llm_rate *rate;
	struct llm_call *calls; /* under way */
	struct addr_cidr granted[LLM_GRANTS];
	size_t granted_count;
};

/* --- llm.c --- */
void llm_answer_error(struct request *request, enum llm_api api, int status, const char *message);
/* Its key, or NULL where it needs none. The caller wipes it. */
int llm_read_key(struct llm *llm, const struct provider *provider, char **ret,
                 struct err *err) NODISCARD;
/* Where it may be dialled. */
void llm_fill_call(const struct llm *llm, const struct provider *provider,
                   struct upstream_call *call);
void llm_wipe_list(struct strings *list);

/* --- llm_call.c --- */
/* Takes what target holds. */
void llm_call_start(struct llm *llm, struct request *request, struct llm_target *target,
                    const struct llm_who *who);
