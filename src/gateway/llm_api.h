/*
 * The APIs of models that the gateway speaks: which a request is for, where it leads at a provider,
 * and what an error looks like in each. Pure.
 */
#pragma once

#include "base/base.h"
#include "model/provider.h"

enum llm_api {
#define LLM_API(id, method, path, kind, shape, is_counted) LLM_##id,
#include "gateway/llm_apis.def"
#undef LLM_API
	LLM_API_COUNT_ /* none of them */
};

struct llm_target {
	enum llm_api api;
	char *model;     /* where the path names it; NULL: the body does */
	char *action;    /* behind the model: "generateContent"; NULL: none */
	char *query;     /* "?…" without a key; "": none */
	bool is_counted; /* its answer says what was used */
};

/* What path and query ask for; api is LLM_API_COUNT_ for what there is not. */
void llm_target_read(const char *target, struct llm_target *ret);
void llm_target_done(struct llm_target *target);
/* The URL at a provider, for a model that only counts where the path names it. Caller frees. */
char *llm_target_url(const struct llm_target *target, const struct provider *provider,
                     const char *model) NODISCARD;
/* That lists its models: a call that costs nothing. */
char *llm_models_url(const struct provider *provider) NODISCARD;
/* "Authorization: Bearer …", as this provider wants its key. The caller wipes and frees. */
char *llm_key_header(const struct provider *provider, const char *key) NODISCARD;

const char *llm_api_method(enum llm_api api);
/* Without the name of a model. */
const char *llm_api_path(enum llm_api api);
enum provider_kind llm_api_kind(enum llm_api api);
/* An error as its clients read it, whole or (is_event) as the last event of a stream. Caller frees.
 */
char *llm_error(enum llm_api api, int status, const char *message, bool is_event) NODISCARD;
