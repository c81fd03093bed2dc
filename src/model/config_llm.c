/* [llm] and [llm.providers.NAME] of config.toml. */
#include <stdlib.h>

#include "base/addr.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config_impl.h"
#include "model/environment.h"
#include "model/service.h"

enum { NUMBER_MOST = 1000000000, KEYS_MOST = 16, PRICE_MOST = 1000000 };

typedef int (*read_value)(void *field, const struct toml *node, struct err *err);

static int read_NUMBER(void *field, const struct toml *node, struct err *err)
{
	return config_read_number(field, node, NUMBER_MOST, err);
}

static int read_DURATION(void *field, const struct toml *node, struct err *err)
{
	return config_read_ms(field, node, err);
}

static int read_BYTES(void *field, const struct toml *node, struct err *err)
{
	uint64_t bytes = 0;

	if (node->kind == TOML_INT && node->num > 0)
		bytes = (uint64_t)node->num;
	else if (node->kind != TOML_STRING || config_has_nul(node) ||
	         str_to_bytes(node->str, &bytes) < 0)
		bytes = 0;
	if (bytes == 0 || bytes > INT32_MAX)
		return err_set(err, ERR_CONFIG, "'%s' is not a size such as \"64M\", below 2G",
		               node->key);
	*(uint64_t *)field = bytes;
	return 0;
}

static int read_LIST(void *field, const struct toml *node, struct err *err)
{
	return config_read_strings(field, node, err);
}

static int read_CIDRS(void *field, const struct toml *node, struct err *err)
{
	struct strings list = {0};
	int r = config_read_strings(&list, node, err);

	if (r == 0)
		r = environment_parse_cidrs("allow_cidrs", &list, field, err);
	strings_done(&list);
	return r;
}

static int read_TEXT(void *field, const struct toml *node, struct err *err)
{
	return config_read_text(field, node, err);
}

static int read_KIND(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING)
		return config_refuse_kind(node, "a string", err);
	return provider_kind_parse(node->str, field, err);
}

static int read_VISIBILITY(void *field, const struct toml *node, struct err *err)
{
	if (node->kind == TOML_STRING && visibility_from(node->str, field))
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is none of private, team, global", node->key);
}

static int read_ALIASES(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_TABLE)
		return config_refuse_kind(node, "a table { name = \"model\" }", err);
	for (const struct toml *item = node->child; item; item = item->next) {
		if (item->kind != TOML_STRING || config_has_nul(item))
			return config_refuse_kind(item, "the name of a model", err);
		strings_set(field, item->key, item->str);
	}
	return 0;
}

/* Dollars for a million tokens. */
static int read_dollars(const struct toml *table, const char *key, uint64_t *ret, struct err *err)
{
	const struct toml *node = toml_get(table, key);
	double number = 0;

	if (!node)
		return 0;
	if (node->kind == TOML_INT)
		number = (double)node->num;
	else if (node->kind == TOML_FLOAT)
		number = node->real;
	else
		return config_refuse_kind(node, "a number of dollars", err);
	if (!(number >= 0) || number > PRICE_MOST)
		return err_set(err, ERR_CONFIG, "'%s' is not between 0 and %d dollars", key,
		               PRICE_MOST);
	*ret = (uint64_t)(number * 1e6 + 0.5);
	return 0;
}

static int read_PRICES(void *field, const struct toml *node, struct err *err)
{
	static const char *const known[] = {"input", "output", "cached"};
	struct provider holder = {0};

	if (node->kind != TOML_TABLE)
		return config_refuse_kind(node, "a table { model = { input = 1.0 } }", err);
	for (const struct toml *item = node->child; item; item = item->next) {
		struct provider_price price = {0};

		if (item->kind != TOML_TABLE)
			return config_refuse_kind(item, "a table { input = 1.0, output = 4.0 }",
			                          err);
		for (const struct toml *part = item->child; part; part = part->next) {
			if (!str_eq(part->key, known[0]) && !str_eq(part->key, known[1]) &&
			    !str_eq(part->key, known[2]))
				return err_set(err, ERR_CONFIG,
				               "'%.40s' is none of input, output, cached",
				               part->key);
		}
		if (read_dollars(item, "input", &price.input, err) < 0)
			return -1;
		price.cached = price.input; /* unless it says otherwise */
		if (read_dollars(item, "output", &price.output, err) < 0 ||
		    read_dollars(item, "cached", &price.cached, err) < 0)
			return -1;
		holder.prices = *(struct strings *)field;
		provider_set_price(&holder, item->key, &price);
		*(struct strings *)field = holder.prices;
	}
	return 0;
}

struct key {
	const char *name;
	read_value read;
	size_t offset;
};

static const struct key llm_keys[] = {
#define LLM_KEY(key, kind, field, text, about)                                                     \
	{key, read_##kind, offsetof(struct config_llm, field)},
#include "model/config_llm.def"
#undef LLM_KEY
	{0},
};

static const struct key provider_keys[] = {
#define PROVIDER_KEY(key, kind, field, text, about)                                                \
	{key, read_##kind, offsetof(struct provider, field)},
#include "model/config_llm.def"
#undef PROVIDER_KEY
	{0},
};

static int read_key(const struct key *keys, void *object, const struct config_place *place,
                    const struct toml *node, struct err *err)
{
	const char *names[KEYS_MOST] = {NULL};

	for (size_t i = 0; keys[i].name; i++) {
		names[i] = keys[i].name;
		if (!str_eq(keys[i].name, node->key))
			continue;
		if (keys[i].read((char *)object + keys[i].offset, node, err) < 0)
			return config_blame(place, node->line, err);
		return 0;
	}
	return config_refuse_unknown(place, node, names, err);
}

/* Replaces one of an earlier file. */
static struct provider *enter(struct config_llm *llm, const char *name)
{
	struct provider *provider = provider_new(name);

	spec_set(&provider->origin, "config");
	provider->visibility = VISIBILITY_GLOBAL;
	for (size_t i = 0; i < llm->provider_count; i++) {
		if (!str_eq(llm->providers[i]->name, name))
			continue;
		provider_free(llm->providers[i]);
		llm->providers[i] = provider;
		return provider;
	}
	llm->providers =
		mem_resize(llm->providers, llm->provider_count + 1, sizeof(struct provider *));
	llm->providers[llm->provider_count++] = provider;
	return provider;
}

static int read_provider(struct config *config, const struct config_place *place,
                         const struct toml *table, struct err *err)
{
	char section[PROVIDER_NAME + 24];
	struct config_place inner = {.file = place->file, .section = section};
	struct provider *provider;

	if (provider_check_name(table->key, err) < 0)
		return config_blame(place, table->line, err);
	(void)snprintf(section, sizeof(section), "[llm.providers.%s]", table->key); /* fits */
	if (table->kind != TOML_TABLE) {
		config_refuse_kind(table, "a table [llm.providers.NAME]", err);
		return config_blame(place, table->line, err);
	}
	provider = enter(&config->llm, table->key);
	for (const struct toml *node = table->child; node; node = node->next) {
		if (read_key(provider_keys, provider, &inner, node, err) < 0)
			return -1;
	}
	if (provider_normalise(provider, err) < 0)
		return config_blame(&inner, table->line, err);
	if (provider->secret && str_eq(provider->secret, SERVICE_SEALED)) {
		err_set(err, ERR_CONFIG,
		        "secret: config.toml has no sealed values; use env:NAME or file:/PATH");
		return config_blame(&inner, table->line, err);
	}
	return 0;
}

int config_read_llm(struct config *config, struct config_place *place, const struct toml *table,
                    struct err *err)
{
	place->section = "[llm]";
	for (const struct toml *node = table->child; node; node = node->next) {
		if (!str_eq(node->key, "providers")) {
			if (read_key(llm_keys, &config->llm, place, node, err) < 0)
				return -1;
			continue;
		}
		if (node->kind != TOML_TABLE) {
			config_refuse_kind(node, "tables [llm.providers.NAME]", err);
			return config_blame(place, node->line, err);
		}
		for (const struct toml *item = node->child; item; item = item->next) {
			if (read_provider(config, place, item, err) < 0)
				return -1;
		}
	}
	return 0;
}

void config_llm_init(struct config *config)
{
	config->llm = (struct config_llm){.request_bytes = 32 * 1024 * 1024,
	                                  .answer_tokens = 4096,
	                                  .response_bytes = 256 * 1024 * 1024,
	                                  .timeout_ms = 30 * 60 * 1000,
	                                  .idle_ms = 5 * 60 * 1000};
}

void config_llm_done(struct config *config)
{
	for (size_t i = 0; i < config->llm.provider_count; i++)
		provider_free(config->llm.providers[i]);
	free(config->llm.providers);
	strings_done(&config->llm.cidrs);
}

const struct provider *config_provider(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->llm.provider_count; i++) {
		if (str_eq(config->llm.providers[i]->name, name))
			return config->llm.providers[i];
	}
	return NULL;
}

/* For the default file: a line of a provider's begins with a comment sign of its own section. */
static const struct {
	const char *section, *name, *text, *about;
} lines[] = {
#define LLM_KEY(key, kind, field, text, about)      {"[llm]", key, text, about},
#define PROVIDER_KEY(key, kind, field, text, about) {"#[llm.providers.example]", key, text, about},
#include "model/config_llm.def"
#undef LLM_KEY
#undef PROVIDER_KEY
};

bool config_llm_line(size_t index, const char **ret_section, const char **ret_name,
                     const char **ret_text, const char **ret_about)
{
	if (index >= ARRAY_LEN(lines))
		return false;
	*ret_section = lines[index].section;
	*ret_name = lines[index].name;
	*ret_text = lines[index].text;
	*ret_about = lines[index].about;
	return true;
}
