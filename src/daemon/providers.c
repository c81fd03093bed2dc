#include "daemon/providers.h"

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/fleet.h"
#include "daemon/network.h"
#include "daemon/notes.h"
#include "daemon/vault.h"
#include "gateway/llm.h"
#include "http/request.h"
#include "model/access.h"
#include "store/provider.h"
#include "store/store.h"
#include "task/charge.h"

const struct provider *providers_at(const struct providers *providers, size_t index)
{
	const struct config_llm *llm = &providers->config->llm;

	if (index < llm->provider_count)
		return llm->providers[index];
	index -= llm->provider_count;
	return index < providers->made_count ? providers->made[index] : NULL;
}

static const struct provider *provider_at(size_t index, void *ctx)
{
	return providers_at(ctx, index);
}

/* --- keys --- */

static char *purpose_of(const struct provider *provider)
{
	/* The place is part of it: a key goes nowhere but where it was given for. */
	return mem_printf("provider %s %s", provider->id.text, provider->base_url);
}

static int unseal(const struct provider *provider, char **ret, struct err *err, void *ctx)
{
	const struct providers *providers = ctx;
	auto_free char *purpose = purpose_of(provider);
	auto_free char *sealed = NULL;

	if (store_provider_sealed(providers->store, provider->id.text, &sealed, err) < 0)
		return -1;
	if (!sealed)
		return err_set(err, ERR_UNAVAILABLE, "provider %s has no key", provider->name);
	return vault_open(providers->keys, purpose, sealed, ret, err);
}

/* --- changes --- */

static void forget(struct providers *providers)
{
	for (size_t i = 0; i < providers->made_count; i++)
		provider_free(providers->made[i]);
	mem_freep(&providers->made);
	providers->made_count = 0;
}

static int load(struct providers *providers, struct err *err)
{
	struct provider **made = NULL;
	size_t count = 0;

	if (store_provider_list(providers->store, &made, &count, err) < 0)
		return -1;
	forget(providers);
	providers->made = made;
	providers->made_count = count;
	return 0;
}

struct saving {
	struct providers *providers;
	engine_on_done on_done;
	void *ctx;
};

static void on_saved(const struct store_result *result, void *ctx)
{
	auto_free struct saving *saving = ctx;
	struct err err = {0};

	if (!result->ok)
		err = result->err;
	else if (load(saving->providers, &err) < 0)
		log_warn("the providers cannot be read again", LOG_ERR(&err));
	saving->on_done(&err, saving->ctx);
}

static void submit(struct providers *providers, struct store_write *write, struct event *event,
                   engine_on_done on_done, void *ctx)
{
	struct saving *saving = mem_new(struct saving);

	*saving = (struct saving){providers, on_done, ctx};
	store_put_event(write, event);
	event_done(event);
	store_write_submit(write, on_saved, saving);
}

void providers_put(struct providers *providers, const struct provider_change *change,
                   engine_on_done on_done, void *ctx)
{
	const struct provider *provider = change->provider;
	const char *value = change->value;
	auto_free char *purpose = purpose_of(provider);
	auto_free char *sealed = value ? vault_seal(providers->keys, purpose, value) : NULL;
	struct store_write *write = store_write_new(providers->store);
	struct event event;

	if (change->is_new)
		store_add_provider(write, provider, sealed);
	else
		store_set_provider(write, provider, sealed);
	note_provider(&event, change->is_new ? EVENT_PROVIDER_CREATED : EVENT_PROVIDER_CHANGED,
	              provider->id.text, provider->name);
	submit(providers, write, &event, on_done, ctx);
}

void providers_remove(struct providers *providers, const char *id, engine_on_done on_done,
                      void *ctx)
{
	struct store_write *write = store_write_new(providers->store);
	struct event event;

	store_delete_provider(write, id);
	note_provider(&event, EVENT_PROVIDER_REMOVED, id, NULL);
	submit(providers, write, &event, on_done, ctx);
}

void providers_test(struct providers *providers, const struct provider *provider,
                    engine_on_status on_status, void *ctx)
{
	llm_test(providers->llm, provider, on_status, ctx);
}

/* --- the books --- */

static struct charge_payer payer_of(const struct llm_who *who)
{
	return (struct charge_payer){.team = who->team, .chain = who->chain};
}

static uint64_t left_of(const struct providers *providers, const struct llm_who *who)
{
	struct charge_payer payer = payer_of(who);

	return who->run[0] ? charge_left(providers->tasks, who->run)
	                   : charge_outside_left(providers->tasks, &payer);
}

static int hold(const struct llm_who *who, uint64_t least, uint64_t most, uint64_t *ret_held,
                struct err *err, void *ctx)
{
	struct providers *providers = ctx;
	struct charge_payer payer = payer_of(who);
	uint64_t amount;
	int r;

	*ret_held = 0;
	if (!providers->tasks)
		return 0;
	amount = MAX(least, MIN(most, left_of(providers, who)));
	r = who->run[0] ? charge_hold(providers->tasks, who->run, amount, err)
	                : charge_outside_hold(providers->tasks, &payer, amount, err);
	if (r == 0)
		*ret_held = amount;
	return r;
}

static int may_spend(const struct llm_who *who, uint64_t cost, struct err *err, void *ctx)
{
	const struct providers *providers = ctx;
	uint64_t left;

	if (!providers->tasks)
		return 0;
	left = left_of(providers, who);
	if (left > cost || left == UINT64_MAX)
		return 0;
	return err_set(err, ERR_BUDGET, "the budget of this %s is spent",
	               who->run[0] ? "run" : "key or team");
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

	if (providers->tasks && report->tokens.input + report->tokens.output + report->held > 0) {
		struct charge_payer payer = payer_of(report->who);
		struct charge charge = {.input_tokens = report->tokens.input,
		                        .output_tokens = report->tokens.output,
		                        .cached_tokens = report->tokens.cached,
		                        .cost = report->cost,
		                        .held = report->held};

		if (report->who->run[0])
			charge_add(providers->tasks, report->who->run, &charge);
		else
			charge_outside_add(providers->tasks, &payer, &charge);
	}
	if (report->is_over && report->who->sandbox[0])
		note(providers, report);
}

int providers_start(struct providers *providers, struct loop *loop, struct upstreams *upstreams,
                    struct err *err)
{
	struct llm_config config = {.loop = loop,
	                            .upstreams = upstreams,
	                            .config = &providers->config->llm,
	                            .provider_at = provider_at,
	                            .unseal = unseal,
	                            .hold = hold,
	                            .may_spend = may_spend,
	                            .told = told,
	                            .ctx = providers};

	providers->llm = llm_new(&config);
	return load(providers, err);
}

void providers_stop(struct providers *providers)
{
	llm_free(providers->llm);
	providers->llm = NULL;
	forget(providers);
}

void providers_settle(struct providers *providers, const char *run)
{
	if (providers->llm)
		llm_settle(providers->llm, run);
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
	auto_free char *chain = caller ? caller_chain(caller) : NULL;
	struct llm_who who;

	if (!caller) {
		llm_refuse(request, target, err_http(err->code), err->msg);
		return;
	}
	fill_who(&who, caller, request_guest(request));
	who.chain = chain ? chain : "";
	llm_serve(providers->llm, request, target, &who);
}
