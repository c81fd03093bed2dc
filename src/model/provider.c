#include "model/provider.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/service.h"

static const char *const kind_names[] = {
#define PROVIDER_KIND(id, text, about) text,
#include "model/provider_kinds.def"
#undef PROVIDER_KIND
};

struct provider *provider_new(const char *name)
{
	struct provider *provider = mem_new(struct provider);

	provider->name = mem_strdup(name);
	provider->origin = mem_strdup("api");
	provider->kind = PROVIDER_KIND_COUNT_;
	provider->visibility = VISIBILITY_PRIVATE;
	return provider;
}

struct provider *provider_copy(const struct provider *provider)
{
	struct provider *copy = mem_new(struct provider);
	struct strings *lists[] = {&copy->models, &copy->aliases, &copy->prices};
	char **texts[] = {&copy->name,          &copy->origin, &copy->base_url, &copy->secret,
	                  &copy->default_model, &copy->owner,  &copy->team};

	*copy = *provider;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		*texts[i] = *texts[i] ? mem_strdup(*texts[i]) : NULL;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct strings borrowed = *lists[i];

		*lists[i] = (struct strings){0};
		strings_copy(lists[i], &borrowed);
	}
	return copy;
}

void provider_free(struct provider *provider)
{
	if (!provider)
		return;
	free(provider->name);
	free(provider->origin);
	free(provider->base_url);
	free(provider->secret);
	free(provider->default_model);
	free(provider->owner);
	free(provider->team);
	strings_done(&provider->models);
	strings_done(&provider->aliases);
	strings_done(&provider->prices);
	free(provider);
}

void provider_freep(struct provider **provider)
{
	provider_free(*provider);
	*provider = NULL;
}

/* --- words --- */

const char *provider_kind_name(enum provider_kind kind)
{
	return kind < PROVIDER_KIND_COUNT_ ? kind_names[kind] : "";
}

int provider_kind_parse(const char *text, enum provider_kind *ret, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(kind_names); i++) {
		if (!str_eq(kind_names[i], text))
			continue;
		*ret = (enum provider_kind)i;
		return 0;
	}
	return err_set(err, ERR_INVALID, "kind: '%.40s' is none of openai, anthropic, gemini",
	               text);
}

int provider_check_name(const char *name, struct err *err)
{
	char shown[80];

	if (str_is_name(name))
		return 0;
	str_escape(shown, sizeof(shown), name, strlen(name));
	return err_set(err, ERR_INVALID,
	               "'%s' is no name of a provider: at most %d of a-z 0-9 . _ -", shown,
	               PROVIDER_NAME);
}

/* --- checks --- */

/* What can stand in a header, in a path and in JSON as it is. */
static bool is_model(const char *text, bool is_pattern)
{
	size_t len = strlen(text);

	if (len > 0 && is_pattern && text[len - 1] == '*')
		len--;
	else if (len == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      strchr("-._/:@+", c)))
			return false;
	}
	return len <= PROVIDER_MODEL && !strstr(text, "..");
}

static int check_models(const struct provider *provider, struct err *err)
{
	if (provider->default_model && !is_model(provider->default_model, false))
		return err_set(err, ERR_INVALID, "default_model: no name of a model");
	for (size_t i = 0; i < provider->models.count; i++) {
		if (!is_model(provider->models.items[i], true))
			return err_set(err, ERR_INVALID,
			               "models: entry %zu is no name of a model, nor the beginning "
			               "of one with a '*' behind it",
			               i + 1);
	}
	for (size_t i = 0; i < provider->aliases.count; i++) {
		const char *text = provider->aliases.items[i], *equals = strchr(text, '=');
		auto_free char *name = mem_strndup(text, equals ? (size_t)(equals - text) : 0);

		if (!equals || !is_model(name, false) || !is_model(equals + 1, false))
			return err_set(err, ERR_INVALID,
			               "aliases: entry %zu is not a name and a model", i + 1);
	}
	return 0;
}

static bool read_price(const char *text, struct provider_price *ret)
{
	unsigned long long input, output, cached;
	int end = 0;

	if (sscanf(text, "%llu/%llu/%llu%n", &input, &output, &cached, &end) != 3 || text[end])
		return false;
	*ret = (struct provider_price){input, output, cached};
	return true;
}

static int check_prices(const struct provider *provider, struct err *err)
{
	struct provider_price price;

	for (size_t i = 0; i < provider->prices.count; i++) {
		const char *text = provider->prices.items[i], *equals = strrchr(text, '=');
		auto_free char *name = mem_strndup(text, equals ? (size_t)(equals - text) : 0);

		if (!equals || !is_model(name, true) || !read_price(equals + 1, &price))
			return err_set(err, ERR_INVALID, "prices: entry %zu is not a model's",
			               i + 1);
	}
	return 0;
}

int provider_normalise(struct provider *provider, struct err *err)
{
	const struct strings *lists[] = {&provider->models, &provider->aliases, &provider->prices};

	if (provider->kind >= PROVIDER_KIND_COUNT_)
		return err_set(err, ERR_INVALID, "kind is needed: openai, anthropic or gemini");
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (lists[i]->count > PROVIDER_LIST)
			return err_set(err, ERR_INVALID, "a list has more than %d entries",
			               PROVIDER_LIST);
	}
	if (service_check_url("base_url", &provider->base_url, err) < 0 ||
	    service_check_secret(provider->secret, err) < 0 || check_models(provider, err) < 0)
		return -1;
	return check_prices(provider, err);
}

/* --- whose --- */

struct ownership provider_ownership(const struct provider *provider)
{
	return (struct ownership){provider->owner ? provider->owner : ACCESS_OPERATOR,
	                          provider->team ? provider->team : ACCESS_TEAM,
	                          provider->visibility};
}

bool provider_serves(const struct provider *provider, const char *owner, const char *team)
{
	struct ownership whose = provider_ownership(provider);

	if (whose.visibility == VISIBILITY_GLOBAL)
		return true;
	if (!str_eq(whose.team, team))
		return false;
	return whose.visibility == VISIBILITY_TEAM || str_eq(whose.owner, owner);
}

/* --- models --- */

static enum provider_fit listed(const struct provider *provider, const char *model)
{
	enum provider_fit fit = provider->models.count == 0 ? PROVIDER_PERHAPS : PROVIDER_NOT;

	for (size_t i = 0; i < provider->models.count; i++) {
		const char *item = provider->models.items[i];
		size_t len = strlen(item);

		if (str_eq(item, model))
			return PROVIDER_EXACT;
		if (len > 0 && item[len - 1] == '*' && strncmp(item, model, len - 1) == 0)
			fit = PROVIDER_PATTERN;
	}
	return fit;
}

enum provider_fit provider_fits(const struct provider *provider, const char *model,
                                const char **ret_model)
{
	size_t len = strlen(provider->name);
	const char *alias;
	bool is_named = strncmp(model, provider->name, len) == 0 && model[len] == '/';
	enum provider_fit fit = PROVIDER_NOT;

	if (is_named)
		model += len + 1;
	*ret_model = model;
	if (*model == '\0' || str_eq(model, "default") || str_eq(model, "cloche-default")) {
		*ret_model = provider->default_model;
		if (!*ret_model)
			return PROVIDER_NOT;
		return is_named ? PROVIDER_NAMED : PROVIDER_PATTERN;
	}
	alias = strings_value(&provider->aliases, model);
	if (alias)
		*ret_model = alias;
	if (alias || (provider->default_model && str_eq(provider->default_model, model)))
		fit = PROVIDER_EXACT;
	else if (is_model(model, false))
		fit = listed(provider, model);
	/* Who names the provider gets no other models of it than everybody else. */
	return is_named && fit != PROVIDER_NOT ? PROVIDER_NAMED : fit;
}

/* --- money --- */

bool provider_price(const struct provider *provider, const char *model, struct provider_price *ret)
{
	const char *text = strings_value(&provider->prices, model);

	if (!text)
		text = strings_value(&provider->prices, "*");
	return text && read_price(text, ret);
}

uint64_t provider_cost(const struct provider_price *price, uint64_t input, uint64_t cached,
                       uint64_t output)
{
	double sum = (double)price->input * (double)(input - cached) +
	             (double)price->cached * (double)cached +
	             (double)price->output * (double)output;

	return (uint64_t)(sum / 1e6 + 0.999999);
}

void provider_set_price(struct provider *provider, const char *model,
                        const struct provider_price *price)
{
	auto_free char *text =
		mem_printf("%llu/%llu/%llu", (unsigned long long)price->input,
	                   (unsigned long long)price->output, (unsigned long long)price->cached);

	strings_set(&provider->prices, model, text);
}
