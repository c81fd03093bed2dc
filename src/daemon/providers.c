#include "daemon/providers.h"

#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "daemon/fleet.h"
#include "daemon/network.h"
#include "gateway/llm.h"
#include "http/request.h"
#include "model/access.h"
#include "task/charge.h"

static const struct provider *provider_at(size_t index, void *ctx)
{
	const struct providers *providers = ctx;
	const struct config_llm *llm = &providers->config->llm;

	return index < llm->provider_count ? llm->providers[index] : NULL;
}

static int unseal(const struct provider *provider, char **ret, struct err *err, void *ctx)
{
	return err_set(err, ERR_UNAVAILABLE, "provider %s has no key yet", provider->name);
}

static int may_spend(const struct llm_who *who, uint64_t cost, struct err *err, void *ctx)
{
	const struct providers *providers = ctx;
	uint64_t left;

	if (!who->run[0] || !providers->tasks)
		return 0;
	left = charge_left(providers->tasks, who->run);
	if (left > cost || left == UINT64_MAX)
		return 0;
	return err_set(err, ERR_BUDGET, "the budget of this run is spent");
}

/* A sandbox's words, made fit to be shown. */
static void put_word(json_t *data, const char *name, const char *text)
{
	char shown[256];

	str_escape(shown, sizeof(shown), text, strlen(text));
	json_object_set_new(data, name, json_string(shown));
}

static void put_number(json_t *data, const char *name, uint64_t number)
{
	json_object_set_new(data, name, json_integer((json_int_t)number));
}

static void note(struct providers *providers, const struct llm_report *report)
{
	struct member *member = fleet_find(providers->fleet, report->who->sandbox);
	json_t *data;

	if (!member)
		return;
	data = json_object();
	json_object_set_new(data, "verdict", json_string(report->denied ? "deny" : "allow"));
	put_word(data, "provider", report->provider);
	put_word(data, "model", report->model);
	put_word(data, "api", report->api);
	if (report->denied)
		put_word(data, "rule", report->denied);
	put_number(data, "status", (uint64_t)report->status);
	put_number(data, "inputTokens", report->total.input);
	put_number(data, "cachedTokens", report->total.cached);
	put_number(data, "outputTokens", report->total.output);
	json_object_set_new(data, "estimated", json_boolean(report->total.is_estimate));
	json_object_set_new(data, "cost", json_real((double)report->total_cost / 1e6));
	put_number(data, "ms", report->took_ms);
	network_on_model(member, data);
}

static void told(const struct llm_report *report, void *ctx)
{
	struct providers *providers = ctx;

	if (report->who->run[0] && providers->tasks &&
	    report->tokens.input + report->tokens.output > 0) {
		struct charge charge = {.input_tokens = report->tokens.input,
		                        .output_tokens = report->tokens.output,
		                        .cached_tokens = report->tokens.cached,
		                        .cost = report->cost};

		charge_add(providers->tasks, report->who->run, &charge);
	}
	if (report->is_over && report->who->sandbox[0])
		note(providers, report);
}

void providers_start(struct providers *providers, struct loop *loop, struct upstreams *upstreams)
{
	struct llm_config config = {.loop = loop,
	                            .upstreams = upstreams,
	                            .config = &providers->config->llm,
	                            .provider_at = provider_at,
	                            .unseal = unseal,
	                            .may_spend = may_spend,
	                            .told = told,
	                            .ctx = providers};

	providers->llm = llm_new(&config);
}

void providers_stop(struct providers *providers)
{
	llm_free(providers->llm);
	providers->llm = NULL;
}

static void fill_who(struct llm_who *who, const struct caller *caller, const char *guest)
{
	*who = (struct llm_who){0};
	(void)snprintf(who->account, sizeof(who->account), "%s",
	               caller->credential.text[0] ? caller->credential.text : caller->source);
	(void)snprintf(who->run, sizeof(who->run), "%s", caller->run.text);
	(void)snprintf(who->sandbox, sizeof(who->sandbox), "%s", guest);
	(void)snprintf(who->credential, sizeof(who->credential), "%s", caller->credential.text);
	(void)snprintf(who->owner, sizeof(who->owner), "%s", caller->principal.text);
	(void)snprintf(who->team, sizeof(who->team), "%s", caller->team.text);
}

void providers_serve(struct providers *providers, struct request *request, const char *target,
                     const struct caller *caller, const struct err *err)
{
	struct llm_who who;

	if (!caller) {
		llm_refuse(request, target, err_http(err->code), err->msg);
		return;
	}
	fill_who(&who, caller, request_guest(request));
	llm_serve(providers->llm, request, target, &who);
}
