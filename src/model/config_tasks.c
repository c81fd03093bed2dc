/* [tasks], [sessions], [rates], [budgets] and [webhooks] of config.toml. */
#include "base/addr.h"
#include "base/str.h"
#include "model/budget.h"
#include "model/config_impl.h"
#include "model/money.h"

enum { NUMBER_MOST = 1000000, LIST_MOST = 64, KEYS_MOST = 16, TIMEOUT_LEAST_MS = 100 };

#define DAY_MS  (UINT64_C(24) * 3600 * 1000)
#define HOUR_MS (UINT64_C(3600) * 1000)

typedef int (*read_value)(void *field, const struct toml *node, struct err *err);

static int read_NUMBER(void *field, const struct toml *node, struct err *err)
{
	return config_read_number(field, node, NUMBER_MOST, err);
}

static int read_DURATION(void *field, const struct toml *node, struct err *err)
{
	uint64_t ms = 0;

	if (node->kind == TOML_INT && node->num > 0 && node->num < INT32_MAX)
		ms = (uint64_t)node->num * 1000;
	else if (node->kind != TOML_STRING || config_has_nul(node) || str_to_ms(node->str, &ms) < 0)
		ms = 0;
	if (ms < TIMEOUT_LEAST_MS)
		return err_set(err, ERR_CONFIG,
		               "'%s' is not a time such as \"30m\", \"2h\" or 90 (seconds)",
		               node->key);
	*(uint64_t *)field = ms;
	return 0;
}

static int read_BYTES(void *field, const struct toml *node, struct err *err)
{
	uint64_t bytes = 0;

	if (node->kind == TOML_INT && node->num >= 0)
		bytes = (uint64_t)node->num;
	else if (node->kind != TOML_STRING || config_has_nul(node) ||
	         str_to_bytes(node->str, &bytes) < 0)
		return err_set(err, ERR_CONFIG, "'%s' is not a size such as \"20G\"", node->key);
	*(uint64_t *)field = bytes;
	return 0;
}

static int read_LIST(void *field, const struct toml *node, struct err *err)
{
	struct strings *list = field;

	if (config_read_strings(list, node, err) < 0)
		return -1;
	return list->count <= LIST_MOST ? 0
	                                : err_set(err, ERR_CONFIG, "'%s' has more than %d entries",
	                                          node->key, LIST_MOST);
}

static int read_TEXT(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING)
		return config_refuse_kind(node, "a text", err);
	if (config_has_nul(node))
		return err_set(err, ERR_CONFIG, "'%s' holds a NUL", node->key);
	spec_set(field, node->str);
	return 0;
}

static int read_CIDRS(void *field, const struct toml *node, struct err *err)
{
	struct strings *list = field;
	struct addr_cidr cidr;

	if (read_LIST(field, node, err) < 0)
		return -1;
	for (size_t i = 0; i < list->count; i++) {
		if (!addr_parse_cidr(list->items[i], &cidr))
			return err_set(err, ERR_CONFIG,
			               "'%s': entry %zu is not a range such as "
			               "\"10.0.0.0/8\"",
			               node->key, i + 1);
	}
	return 0;
}

static int read_MONEY(void *field, const struct toml *node, struct err *err)
{
	uint64_t amount = 0;

	if (node->kind == TOML_INT && node->num >= 0 && (uint64_t)node->num <= MONEY_MOST / 1000000)
		amount = (uint64_t)node->num * 1000000;
	else if (node->kind != TOML_STRING || config_has_nul(node) ||
	         (*node->str && !money_parse(node->str, &amount)))
		return err_set(err, ERR_CONFIG, "'%s' is no amount such as 20 or \"2.50\"",
		               node->key);
	*(uint64_t *)field = amount;
	return 0;
}

static int read_PERIOD(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING || !budget_period_from(node->str, field))
		return err_set(err, ERR_CONFIG, "'%s' is \"day\", \"month\" or \"total\"",
		               node->key);
	return 0;
}

static int read_ACTION(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING || !budget_action_from(node->str, field))
		return err_set(err, ERR_CONFIG, "'%s' is \"stop\" or \"freeze\"", node->key);
	return 0;
}

struct key {
	const char *name;
	read_value read;
	size_t offset;
};

#define KEY(key, kind, field, text, about) {key, read_##kind, offsetof(struct config, field)},
static const struct key tasks_keys[] = {
#define TASKS_KEY KEY
#include "model/config_tasks.def"
#undef TASKS_KEY
	{0},
};
static const struct key sessions_keys[] = {
#define SESSIONS_KEY KEY
#include "model/config_tasks.def"
#undef SESSIONS_KEY
	{0},
};
static const struct key rates_keys[] = {
#define RATES_KEY KEY
#include "model/config_tasks.def"
#undef RATES_KEY
	{0},
};
static const struct key budgets_keys[] = {
#define BUDGETS_KEY KEY
#include "model/config_tasks.def"
#undef BUDGETS_KEY
	{0},
};
static const struct key webhooks_keys[] = {
#define WEBHOOKS_KEY KEY
#include "model/config_tasks.def"
#undef WEBHOOKS_KEY
	{0},
};
#undef KEY

static int read_keys(const struct key *keys, struct config *config,
                     const struct config_place *place, const struct toml *table, struct err *err)
{
	const char *names[KEYS_MOST] = {NULL};

	for (size_t i = 0; keys[i].name != NULL; i++)
		names[i] = keys[i].name;
	for (const struct toml *node = table->child; node != NULL; node = node->next) {
		const struct key *key = keys;

		while (key->name != NULL && !str_eq(key->name, node->key))
			key++;
		if (key->name == NULL)
			return config_refuse_unknown(place, node, names, err);
		if (key->read((char *)config + key->offset, node, err) < 0)
			return config_blame(place, node->line, err);
	}
	return 0;
}

int config_read_tasks(struct config *config, struct config_place *place, const struct toml *table,
                      struct err *err)
{
	place->section = "[tasks]";
	if (read_keys(tasks_keys, config, place, table, err) < 0)
		return -1;
	if (config->tasks.timeout_ms > config->tasks.timeout_max_ms) {
		err_set(err, ERR_CONFIG, "timeout is more than timeout_max");
		return config_blame(place, table->line, err);
	}
	return 0;
}

int config_read_sessions(struct config *config, struct config_place *place,
                         const struct toml *table, struct err *err)
{
	place->section = "[sessions]";
	return read_keys(sessions_keys, config, place, table, err);
}

int config_read_rates(struct config *config, struct config_place *place, const struct toml *table,
                      struct err *err)
{
	place->section = "[rates]";
	return read_keys(rates_keys, config, place, table, err);
}

int config_read_budgets(struct config *config, struct config_place *place, const struct toml *table,
                        struct err *err)
{
	place->section = "[budgets]";
	return read_keys(budgets_keys, config, place, table, err);
}

int config_read_webhooks(struct config *config, struct config_place *place,
                         const struct toml *table, struct err *err)
{
	place->section = "[webhooks]";
	return read_keys(webhooks_keys, config, place, table, err);
}

void config_tasks_init(struct config *config)
{
	config->tasks = (struct config_tasks){.timeout_ms = 300 * 1000,
	                                      .timeout_max_ms = 600 * 1000,
	                                      .concurrency = 256,
	                                      .team_concurrency = 64,
	                                      .resume_ttl_ms = DAY_MS,
	                                      .resume_most = 100,
	                                      .resume_bytes = UINT64_C(20) << 30,
	                                      .artifact_ttl_ms = 30 * DAY_MS};
	config->sessions = (struct config_sessions){.timeout_ms = DAY_MS / 4,
	                                            .idle_ms = 30 * 60 * 1000,
	                                            .turn_ms = 30 * 60 * 1000,
	                                            .concurrency = 256,
	                                            .team_concurrency = 64};
	config->rates = (struct config_rates){30, 20, 4, 100, 10000};
	config->budgets = (struct config_budgets){.period = BUDGET_MONTH, .freeze_ms = HOUR_MS};
	config->webhook_retry_ms = 5000;
}

void config_tasks_done(struct config *config)
{
	strings_done(&config->tasks.origin_products);
	spec_set(&config->tasks.image, NULL);
	strings_done(&config->webhook_cidrs);
}

/* For the default file. */
static const struct {
	const char *section, *name, *text, *about;
} lines[] = {
#define TASKS_KEY(key, kind, field, text, about)    {"[tasks]", key, text, about},
#define SESSIONS_KEY(key, kind, field, text, about) {"[sessions]", key, text, about},
#define RATES_KEY(key, kind, field, text, about)    {"[rates]", key, text, about},
#define BUDGETS_KEY(key, kind, field, text, about)  {"[budgets]", key, text, about},
#define WEBHOOKS_KEY(key, kind, field, text, about) {"[webhooks]", key, text, about},
#include "model/config_tasks.def"
#undef TASKS_KEY
#undef SESSIONS_KEY
#undef RATES_KEY
#undef BUDGETS_KEY
#undef WEBHOOKS_KEY
};

bool config_tasks_line(size_t index, const char **ret_section, const char **ret_name,
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
