/* Providers of models: where the model gateway sends what it is asked. */
#include <string.h>

#include "api/authz.h"
#include "api/call.h"
#include "api/decode.h"
#include "api/encode.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "model/provider.h"
#include "model/service.h"

enum { PROVIDERS_MOST = 256 };

/* --- shape --- */

static json_t *encode_aliases(const struct provider *provider)
{
	json_t *object = json_object();

	for (size_t i = 0; i < provider->aliases.count; i++) {
		const char *text = provider->aliases.items[i], *equals = strchr(text, '=');
		auto_free char *name = mem_strndup(text, (size_t)(equals - text));

		json_object_set_new(object, name, encode_text(equals + 1));
	}
	return object;
}

static json_t *encode_prices(const struct provider *provider)
{
	json_t *object = json_object();
	struct provider_price price;

	for (size_t i = 0; i < provider->prices.count; i++) {
		const char *text = provider->prices.items[i];
		auto_free char *name = mem_strndup(text, strcspn(text, "="));

		if (provider_price(provider, name, &price))
			json_object_set_new(object, name,
			                    json_pack("{s:f, s:f, s:f}", "input",
			                              (double)price.input / 1e6, "output",
			                              (double)price.output / 1e6, "cached",
			                              (double)price.cached / 1e6));
	}
	return object;
}

static json_t *encode(const struct provider *provider)
{
	json_t *object = json_object(), *models = json_array();

	for (size_t i = 0; i < provider->models.count; i++)
		json_array_append_new(models, encode_text(provider->models.items[i]));
	json_object_set_new(object, "id", encode_text(provider->id.text));
	json_object_set_new(object, "name", encode_text(provider->name));
	json_object_set_new(object, "origin", encode_text(provider->origin));
	json_object_set_new(object, "kind", json_string(provider_kind_name(provider->kind)));
	json_object_set_new(object, "baseUrl", encode_text(provider->base_url));
	json_object_set_new(object, "secret", encode_text(provider->secret));
	json_object_set_new(object, "defaultModel", encode_text(provider->default_model));
	json_object_set_new(object, "models", models);
	json_object_set_new(object, "aliases", encode_aliases(provider));
	json_object_set_new(object, "prices", encode_prices(provider));
	json_object_set_new(object, "visibility",
	                    json_string(visibility_name(provider->visibility)));
	json_object_set_new(object, "owner", encode_text(provider->owner));
	json_object_set_new(object, "team", encode_text(provider->team));
	json_object_set_new(object, "createdAt", encode_time(provider->created_ms));
	return object;
}

/* --- reading --- */

static int read_dollars(const json_t *price, const char *key, uint64_t *ret, struct err *err)
{
	const json_t *value = json_object_get(price, key);
	double number = json_number_value(value);

	if (!value)
		return 0;
	if (!json_is_number(value) || !(number >= 0) || number > 1e6)
		return err_set(err, ERR_INVALID, "prices: '%s' is a number of dollars", key);
	*ret = (uint64_t)(number * 1e6 + 0.5);
	return 0;
}

static int read_prices(json_t *prices, struct provider *provider, struct err *err)
{
	const char *model;
	json_t *each;

	json_object_foreach (prices, model, each) {
		struct provider_price price = {0};

		if (!json_is_object(each) || strchr(model, '='))
			return err_set(err, ERR_INVALID,
			               "prices: of a model {\"input\": 1, \"output\": 4, "
			               "\"cached\": 0.1}");
		if (read_dollars(each, "input", &price.input, err) < 0)
			return -1;
		price.cached = price.input; /* unless it says otherwise */
		if (read_dollars(each, "output", &price.output, err) < 0 ||
		    read_dollars(each, "cached", &price.cached, err) < 0)
			return -1;
		provider_set_price(provider, model, &price);
	}
	return 0;
}

/* null and "" take it away, nothing leaves it as it is. */
static void take_text(const json_t *body, const char *name, char **to)
{
	const json_t *value = json_object_get(body, name);
	const char *text = json_string_value(value);

	if (!value)
		return;
	mem_freep(to);
	*to = text && *text ? mem_strdup(text) : NULL;
}

static void take_aliases(json_t *body, struct provider *provider)
{
	json_t *aliases = json_object_get(body, "aliases"), *model;
	const char *name;

	if (aliases)
		strings_done(&provider->aliases);
	json_object_foreach (aliases, name, model)
		strings_set(&provider->aliases, name, json_string_value(model));
}

static int take_prices(json_t *body, struct provider *provider, struct err *err)
{
	json_t *prices = json_object_get(body, "prices");

	if (prices)
		strings_done(&provider->prices);
	return read_prices(prices, provider, err);
}

static bool is_sealed(const struct provider *provider)
{
	return provider->secret && str_eq(provider->secret, SERVICE_SEALED);
}

/* A key goes nowhere but where it was given for. */
static int check_sealed(const struct provider *before, const struct provider *provider,
                        const char *value, struct err *err)
{
	if (value && (!is_sealed(provider) || !*value || strlen(value) > SERVICE_SECRET ||
	              !service_is_value(value)))
		return err_set(err, ERR_INVALID,
		               "secretValue: one line, and with secret \"" SERVICE_SEALED "\"");
	if (value || !is_sealed(provider))
		return 0;
	if (!before || !is_sealed(before))
		return err_set(err, ERR_INVALID, "secretValue is needed: there is nothing to seal");
	if (!str_eq(before->base_url, provider->base_url))
		return err_set(err, ERR_INVALID,
		               "secretValue is needed again: what is sealed was given for %.150s",
		               before->base_url);
	return 0;
}

/* Whose key may go where. */
static int check_rights(const struct call *call, const struct provider *provider, struct err *err)
{
	/* The daemon's own files and variables are not for everybody to send somewhere. */
	if (provider->secret && !is_sealed(provider) && !call->caller->is_operator)
		return err_set(err, ERR_FORBIDDEN,
		               "only an operator may refer to variables and files of the daemon");
	if (provider->visibility == VISIBILITY_TEAM && !call->caller->is_operator &&
	    call->caller->role != ROLE_ADMIN)
		return err_set(err, ERR_FORBIDDEN,
		               "only an admin makes what the whole team's questions go to");
	if (provider->visibility == VISIBILITY_GLOBAL && !call->caller->is_operator)
		return err_set(err, ERR_FORBIDDEN, "only an operator makes what all teams use");
	return 0;
}

/* The request on top of what is there (before; NULL: nothing); *ret_value is what to seal. */
static int decode(const struct call *call, const struct provider *before, struct provider *provider,
                  const char **ret_value, struct err *err)
{
	json_t *body = call->body;
	const char *visibility = json_string_value(json_object_get(body, "visibility"));
	const char *kind = json_string_value(json_object_get(body, "kind"));

	*ret_value = json_string_value(json_object_get(body, "secretValue"));
	take_text(body, "baseUrl", &provider->base_url);
	take_text(body, "secret", &provider->secret);
	if (*ret_value && !json_object_get(body, "secret")) {
		mem_freep(&provider->secret);
		provider->secret = mem_strdup(SERVICE_SEALED);
	}
	take_text(body, "defaultModel", &provider->default_model);
	decode_list(body, "models", &provider->models);
	take_aliases(body, provider);
	if ((kind && provider_kind_parse(kind, &provider->kind, err) < 0) ||
	    take_prices(body, provider, err) < 0 ||
	    (visibility && visibility_parse(visibility, &provider->visibility, err) < 0) ||
	    provider_normalise(provider, err) < 0 ||
	    check_sealed(before, provider, *ret_value, err) < 0)
		return -1;
	return check_rights(call, provider, err);
}

/* --- handlers --- */

void handle_provider_list(struct call *call)
{
	struct engine *engine = call->api->engine;
	const struct provider *provider;
	json_t *items = json_array();

	for (size_t i = 0; (provider = engine->ops->provider_at(engine, i)); i++) {
		struct ownership whose = provider_ownership(provider);

		if (access_to(call->caller, &whose) != ACCESS_HIDDEN)
			json_array_append_new(items, encode(provider));
	}
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

/* By id, or by name: of config.toml, then of the caller's team, then for everybody. */
static const struct provider *find(const struct call *call, const char *name)
{
	struct engine *engine = call->api->engine;
	const struct provider *provider, *found = NULL;

	for (size_t i = 0; (provider = engine->ops->provider_at(engine, i)); i++) {
		bool is_team = provider->team && str_eq(provider->team, call->caller->team.text);

		if (str_eq(provider->id.text, name) && *name)
			return provider;
		if (!str_eq(provider->name, name))
			continue;
		if (str_eq(provider->origin, "config"))
			return provider;
		if (is_team || (!found && provider->visibility == VISIBILITY_GLOBAL))
			found = provider;
	}
	return found;
}

/* The one of the path, if the caller may do with it what is asked; else the call was ended. */
static const struct provider *find_for(struct call *call, bool to_change)
{
	const char *name = call->params[0];
	const struct provider *provider = find(call, name);
	struct ownership whose = {"", "", VISIBILITY_PRIVATE};
	struct err err = {0};
	int r = 0;

	if (!provider) {
		char shown[100];

		str_escape(shown, sizeof(shown), name, strlen(name));
		err_set(&err, ERR_NOT_FOUND, "no provider '%s'", shown);
		call_fail(call, &err);
		return NULL;
	}
	whose = provider_ownership(provider);
	r = to_change && provider->id.text[0] ? authz_change(call, &whose, "provider", name, &err)
	                                      : authz_look(call, &whose, "provider", name, &err);
	if (r == 0 && to_change && !provider->id.text[0])
		r = err_set(&err, ERR_CONFLICT,
		            "provider '%s' is of config.toml: it does not change here",
		            provider->name);
	if (r < 0)
		call_fail(call, &err);
	return r < 0 ? NULL : provider;
}

void handle_provider_info(struct call *call)
{
	const struct provider *provider = find_for(call, false);

	if (provider)
		call_answer(call, 200, encode(provider));
}

struct saving {
	struct call *call;
	struct provider *provider; /* to answer with; NULL: nothing */
};

static void on_saved(const struct err *err, void *ctx)
{
	auto_free struct saving *saving = ctx;

	if (err->code != ERR_OK)
		call_fail(saving->call, err);
	else if (saving->provider)
		call_answer(saving->call, saving->call->route->status, encode(saving->provider));
	else
		call_answer_empty(saving->call);
	provider_free(saving->provider);
}

static int check_room(const struct call *call, const char *name, struct err *err)
{
	struct engine *engine = call->api->engine;
	size_t count = 0;

	if (provider_check_name(name, err) < 0)
		return -1;
	if (config_provider(call->api->config, name))
		return err_set(err, ERR_CONFLICT, "config.toml has a provider '%s'", name);
	while (engine->ops->provider_at(engine, count))
		count++;
	if (count < PROVIDERS_MOST)
		return 0;
	return err_set(err, ERR_LIMITED, "there are %d providers already", PROVIDERS_MOST);
}

/* Takes the provider; before: what is there, NULL: nothing. */
static void save(struct call *call, const struct provider *before, struct provider *provider)
{
	struct engine *engine = call->api->engine;
	struct provider_change change = {.provider = provider, .is_new = !before};
	struct saving *saving;
	struct err err = {0};

	if (decode(call, before, provider, &change.value, &err) < 0) {
		provider_free(provider);
		call_fail(call, &err);
		return;
	}
	saving = mem_new(struct saving);
	*saving = (struct saving){call, provider};
	engine->ops->provider_put(engine, &change, on_saved, saving);
}

void handle_provider_add(struct call *call)
{
	const char *name = json_string_value(json_object_get(call->body, "name"));
	struct provider *provider;
	struct err err = {0};

	if (check_room(call, name, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	provider = provider_new(name);
	provider->id = id_new("pv");
	provider->created_ms = provider->updated_ms = io_real_ms();
	provider->owner = mem_strdup(call->caller->principal.text);
	provider->team = mem_strdup(call->caller->team.text);
	authz_made(call, provider->id.text);
	save(call, NULL, provider);
}

void handle_provider_change(struct call *call)
{
	const struct provider *before = find_for(call, true);

	if (before)
		save(call, before, provider_copy(before));
}

void handle_provider_remove(struct call *call)
{
	const struct provider *provider = find_for(call, true);
	struct engine *engine = call->api->engine;
	struct saving *saving;

	if (!provider)
		return;
	saving = mem_new(struct saving);
	*saving = (struct saving){call, NULL};
	engine->ops->provider_remove(engine, provider->id.text, on_saved, saving);
}

static void on_tested(int status, const struct err *err, void *ctx)
{
	struct call *call = ctx;

	if (status == 0)
		call_fail(call, err);
	else
		call_answer(call, 200, json_pack("{s:i}", "status", status));
}

void handle_provider_test(struct call *call)
{
	const struct provider *provider = find_for(call, false);
	struct engine *engine = call->api->engine;

	if (provider)
		engine->ops->provider_test(engine, provider, on_tested, call);
}
