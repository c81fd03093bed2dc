#include "gateway/llm.h"

#include <jansson.h>
#include <string.h>

#include "base/addr.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "gateway/llm_impl.h"
#include "http/request.h"
#include "model/service.h"

enum { TEST_MS = 20 * 1000 };

struct llm *llm_new(const struct llm_config *config)
{
	struct llm *llm = mem_new(struct llm);
	const struct strings *cidrs = &config->config->cidrs;

	llm->config = *config;
	llm->rate = llm_rate_new(config->config->requests_per_minute,
	                         config->config->tokens_per_minute);
	for (size_t i = 0; i < cidrs->count && llm->granted_count < LLM_GRANTS; i++) {
		/* Checked when the file was read. */
		if (addr_parse_cidr(cidrs->items[i], &llm->granted[llm->granted_count]))
			llm->granted_count++;
	}
	return llm;
}

void llm_free(struct llm *llm)
{
	if (!llm)
		return;
	must(!llm->calls);
	llm_rate_free(llm->rate);
	mem_freep(&llm);
}

void llm_answer_error(struct request *request, enum llm_api api, int status, const char *message)
{
	auto_free char *text = llm_error(api, status, message, false);

	request_answer(request, status, "application/json", text, strlen(text));
}

void llm_refuse(struct request *request, const char *target, int status, const char *message)
{
	struct llm_target read;

	llm_target_read(target, &read);
	llm_answer_error(request, read.api, status, message);
	llm_target_done(&read);
}

void llm_wipe_list(struct strings *list)
{
	for (size_t i = 0; i < list->count; i++)
		explicit_bzero(list->items[i], strlen(list->items[i]));
	strings_done(list);
}

/* --- providers --- */

struct unsealing {
	struct llm *llm;
	const struct provider *provider;
};

static int unseal(const struct service *service, char **ret, struct err *err, void *ctx)
{
	const struct unsealing *unsealing = ctx;
	const struct llm_config *config = &unsealing->llm->config;

	return config->unseal(unsealing->provider, ret, err, config->ctx);
}

int llm_read_key(struct llm *llm, const struct provider *provider, char **ret, struct err *err)
{
	/* A reference is read in one way, whoever has it. */
	struct service holder = {.name = provider->name, .secret = provider->secret};
	struct unsealing unsealing = {llm, provider};

	if (gateway_secret_read(&holder, unseal, &unsealing, ret, err) == 0)
		return 0;
	log_warn("the key of a provider is not there", LOG_STR("provider", provider->name),
	         LOG_ERR(err));
	return err_set(err, ERR_UNAVAILABLE, "its key cannot be read");
}

void llm_fill_call(const struct llm *llm, const struct provider *provider,
                   struct upstream_call *call)
{
	call->fd = -1;
	/* Who writes config.toml may name every place; who asks the API may not. */
	call->is_anywhere = str_eq(provider->origin, "config");
	call->granted = llm->granted;
	call->granted_count = llm->granted_count;
}

/* --- what there is --- */

static void add_model(json_t *list, json_t *seen, const struct provider *provider, const char *id)
{
	size_t len = strlen(id);

	if (len == 0 || id[len - 1] == '*' || json_object_get(seen, id))
		return;
	json_object_set_new(seen, id, json_true());
	/* Both forms there are of this list, in one. */
	json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s}", "id", id,
	                                      "object", "model", "type", "model", "display_name",
	                                      id, "created", 0, "created_at",
	                                      "1970-01-01T00:00:00Z", "owned_by", provider->name,
	                                      "kind", provider_kind_name(provider->kind)));
}

static void add_models(json_t *list, json_t *seen, const struct provider *provider)
{
	if (provider->default_model)
		add_model(list, seen, provider, provider->default_model);
	for (size_t i = 0; i < provider->aliases.count; i++) {
		const char *text = provider->aliases.items[i];
		auto_free char *name = mem_strndup(text, strcspn(text, "="));

		add_model(list, seen, provider, name);
	}
	for (size_t i = 0; i < provider->models.count; i++)
		add_model(list, seen, provider, provider->models.items[i]);
}

static void answer_models(struct llm *llm, struct request *request, const struct llm_who *who)
{
	json_t *list = json_array(), *seen = json_object(), *json;
	const struct provider *provider;
	auto_free char *text = NULL;

	for (size_t i = 0; (provider = llm->config.provider_at(i, llm->config.ctx)); i++) {
		if (provider_serves(provider, who->owner, who->team))
			add_models(list, seen, provider);
	}
	json = json_pack("{s:s, s:o, s:b}", "object", "list", "data", list, "has_more", 0);
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	json_decref(seen);
	request_answer(request, 200, "application/json", text ? text : "{}",
	               text ? strlen(text) : 2);
}

void llm_serve(struct llm *llm, struct request *request, const char *target,
               const struct llm_who *who)
{
	struct llm_target read;

	llm_target_read(target, &read);
	if (read.api == LLM_API_COUNT_) {
		llm_answer_error(
			request, read.api, 404,
			"no such API here: there are /v1/chat/completions, /v1/responses, "
			"/v1/messages, /v1beta/models/MODEL:generateContent and /v1/models");
	} else if (!str_eq(request_method(request), llm_api_method(read.api))) {
		request_add_header(request, "Allow", llm_api_method(read.api));
		llm_answer_error(request, read.api, 405, "not with this method");
	} else if (read.api == LLM_MODELS) {
		answer_models(llm, request, who);
	} else {
		llm_call_start(llm, request, &read, who);
		return;
	}
	llm_target_done(&read);
}

void llm_test(struct llm *llm, const struct provider *provider, trial_on_end on_tested, void *ctx)
{
	auto_free char *url = llm_models_url(provider);
	struct strings headers = {0};
	struct upstream_call call = {
		.method = "GET", .url = url, .headers = &headers, .timeout_ms = TEST_MS};
	struct err err = {0};
	char *key = NULL;

	llm_fill_call(llm, provider, &call);
	if (llm_read_key(llm, provider, &key, &err) < 0) {
		trial_fail(llm->config.loop, &err, on_tested, ctx);
		return;
	}
	if (key)
		strings_take(&headers, llm_key_header(provider, key));
	if (provider->kind == PROVIDER_ANTHROPIC)
		strings_add(&headers, "anthropic-version: 2023-06-01");
	trial_start(llm->config.upstreams, &call, on_tested, ctx);
	gateway_secret_wipe(&key);
	llm_wipe_list(&headers);
}
