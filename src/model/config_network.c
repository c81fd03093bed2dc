/* [network] and [environments.NAME] of config.toml. */
#include "base/addr.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config_impl.h"

enum { RESOLVERS = 8, ASK_MOST_S = 3600 };

typedef int (*read_value)(struct environment *environment, void *field, const struct toml *node,
                          struct err *err);

static bool is_any(const struct toml *node)
{
	return node->kind == TOML_STRING && str_eq(node->str, "any");
}

static int read_LEVEL(struct environment *environment, void *field, const struct toml *node,
                      struct err *err)
{
	if (node->kind == TOML_STRING && environment_level_from(node->str, field))
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is none of none, trusted, custom, full", node->key);
}

static int read_MODE(struct environment *environment, void *field, const struct toml *node,
                     struct err *err)
{
	if (node->kind == TOML_STRING && environment_mode_from(node->str, field))
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is none of enforce, record, ask", node->key);
}

static int read_BOOL(struct environment *environment, void *field, const struct toml *node,
                     struct err *err)
{
	if (node->kind != TOML_BOOL)
		return config_refuse_kind(node, "true or false", err);
	*(bool *)field = node->num != 0;
	return 0;
}

static int read_LIST(struct environment *environment, void *field, const struct toml *node,
                     struct err *err)
{
	return config_read_strings(field, node, err);
}

/* TOML has no null: the word "any" stands for it. */
static int read_DOMAINS(struct environment *environment, void *field, const struct toml *node,
                        struct err *err)
{
	environment->domains_any = is_any(node);
	if (environment->domains_any) {
		strings_done(field);
		return 0;
	}
	if (node->kind != TOML_ARRAY)
		return config_refuse_kind(node, "an array of strings, or \"any\"", err);
	return config_read_strings(field, node, err);
}

static int read_PORTS(struct environment *environment, void *field, const struct toml *node,
                      struct err *err)
{
	uint64_t ports[ENVIRONMENT_PORTS];
	size_t count = 0;

	environment->ports_any = is_any(node);
	if (environment->ports_any) {
		environment->port_count = 0;
		return 0;
	}
	if (node->kind != TOML_ARRAY)
		return config_refuse_kind(node, "an array of numbers, or \"any\"", err);
	for (const struct toml *item = node->child; item != NULL; item = item->next) {
		if (count == ENVIRONMENT_PORTS)
			return err_set(err, ERR_CONFIG, "'%s' has more than %d entries", node->key,
			               ENVIRONMENT_PORTS);
		/* What is no number is refused as 0 is, with its position. */
		ports[count++] = item->kind == TOML_INT && item->num > 0 ? (uint64_t)item->num : 0;
	}
	return environment_set_ports(environment, ports, count, err);
}

static int read_BYTES(struct environment *environment, void *field, const struct toml *node,
                      struct err *err)
{
	uint64_t *bytes = field;

	if (node->kind == TOML_INT && node->num >= 0) {
		*bytes = (uint64_t)node->num;
		return 0;
	}
	if (node->kind == TOML_STRING && !config_has_nul(node) &&
	    str_to_bytes(node->str, bytes) == 0)
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is not a size such as \"64M\"; 0: none", node->key);
}

static const struct {
	const char *name;
	read_value read;
	size_t offset;
} environment_keys[] = {
#define ENVIRONMENT_KEY(key, kind, field, text, about)                                             \
	{key, read_##kind, offsetof(struct environment, field)},
#include "model/config.def"
#undef ENVIRONMENT_KEY
};

static int read_key(struct environment *environment, const struct config_place *place,
                    const struct toml *node, struct err *err)
{
	const char *names[ARRAY_LEN(environment_keys) + 1] = {NULL};

	for (size_t i = 0; i < ARRAY_LEN(environment_keys); i++) {
		void *field = (char *)environment + environment_keys[i].offset;

		names[i] = environment_keys[i].name;
		if (!str_eq(environment_keys[i].name, node->key))
			continue;
		if (environment_keys[i].read(environment, field, node, err) < 0)
			return config_blame(place, node->line, err);
		return 0;
	}
	return config_refuse_unknown(place, node, names, err);
}

/* Replaces one of an earlier file: half of one and half of another would be nobody's wish. */
static struct environment *enter(struct config *config, const char *name)
{
	struct environment *environment = environment_new(name);

	spec_set(&environment->origin, "config");
	environment->visibility = VISIBILITY_GLOBAL;
	environment->level = ENVIRONMENT_CUSTOM;
	for (size_t i = 0; i < config->environment_count; i++) {
		if (!str_eq(config->environments[i]->name, name))
			continue;
		environment_free(config->environments[i]);
		config->environments[i] = environment;
		return environment;
	}
	config->environments = mem_resize(config->environments, config->environment_count + 1,
	                                  sizeof(struct environment *));
	config->environments[config->environment_count++] = environment;
	return environment;
}

static int read_environment(struct config *config, const struct config_place *place,
                            const struct toml *table, struct err *err)
{
	char section[LIMIT_NAME_LEN + 24];
	struct config_place inner = {.file = place->file, .section = section};
	struct environment *environment;

	if (table->kind != TOML_TABLE) {
		config_refuse_kind(table, "a table [environments.NAME]", err);
		return config_blame(place, table->line, err);
	}
	if (environment_check_name(table->key, err) < 0)
		return config_blame(place, table->line, err);
	snprintf(section, sizeof(section), "[environments.%s]", table->key);
	environment = enter(config, table->key);
	for (const struct toml *node = table->child; node != NULL; node = node->next) {
		if (read_key(environment, &inner, node, err) < 0)
			return -1;
	}
	if (environment_normalise(environment, err) < 0)
		return config_blame(place, table->line, err);
	return 0;
}

int config_read_environments(struct config *config, struct config_place *place,
                             const struct toml *table, struct err *err)
{
	for (const struct toml *node = table->child; node != NULL; node = node->next) {
		if (read_environment(config, place, node, err) < 0)
			return -1;
	}
	return 0;
}

static int read_resolvers(struct strings *resolvers, const struct toml *node, struct err *err)
{
	struct addr addr;
	uint16_t port;

	if (config_read_strings(resolvers, node, err) < 0)
		return -1;
	for (size_t i = 0; i < resolvers->count; i++) {
		if (i >= RESOLVERS || !config_parse_resolver(resolvers->items[i], &addr, &port))
			return err_set(err, ERR_CONFIG,
			               "resolvers: entry %zu: at most %d of \"ADDRESS\", "
			               "\"ADDRESS:PORT\" or \"[ADDRESS]:PORT\"",
			               i + 1, RESOLVERS);
	}
	return 0;
}

static int read_ask_timeout(uint64_t *ret_ms, const struct toml *node, struct err *err)
{
	uint64_t ms = 0;

	if (node->kind == TOML_INT && node->num > 0 && node->num <= ASK_MOST_S)
		ms = (uint64_t)node->num * 1000;
	else if (node->kind != TOML_STRING || config_has_nul(node) || str_to_ms(node->str, &ms) < 0)
		ms = 0;
	if (ms < 1000 || ms > ASK_MOST_S * UINT64_C(1000))
		return err_set(err, ERR_CONFIG,
		               "'%s' is not a time from \"1s\" to \"1h\", or 90 (seconds)",
		               node->key);
	*ret_ms = ms;
	return 0;
}

int config_read_network(struct config *config, struct config_place *place, const struct toml *table,
                        struct err *err)
{
	static const char *const keys[] = {"resolvers", "ask_timeout", NULL};
	int r;

	place->section = "[network]";
	for (const struct toml *node = table->child; node != NULL; node = node->next) {
		if (str_eq(node->key, "resolvers"))
			r = read_resolvers(&config->resolvers, node, err);
		else if (str_eq(node->key, "ask_timeout"))
			r = read_ask_timeout(&config->ask_timeout_ms, node, err);
		else
			return config_refuse_unknown(place, node, keys, err);
		if (r < 0)
			return config_blame(place, node->line, err);
	}
	return 0;
}

bool config_parse_resolver(const char *text, struct addr *ret_addr, uint16_t *ret_port)
{
	const char *colon = strrchr(text, ':');
	bool is_bracketed = text[0] == '[';
	char address[ADDR_TEXT];
	uint64_t port = 53;
	size_t len;

	if (addr_parse(text, ret_addr)) {
		*ret_port = (uint16_t)port;
		return true;
	}
	if (colon == NULL || str_to_u64(colon + 1, &port) < 0 || port < 1 || port > UINT16_MAX)
		return false;
	len = (size_t)(colon - text);
	if (is_bracketed && (len < 2 || text[len - 1] != ']'))
		return false;
	text += is_bracketed;
	len -= is_bracketed ? 2 : 0;
	if (len >= sizeof(address))
		return false;
	memcpy(address, text, len);
	address[len] = '\0';
	*ret_port = (uint16_t)port;
	/* "::1:53" is an address, not one with a port. */
	return addr_parse(address, ret_addr) && is_bracketed == (strchr(address, ':') != NULL);
}

const struct environment *config_environment(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->environment_count; i++) {
		if (str_eq(config->environments[i]->name, name))
			return config->environments[i];
	}
	return environment_builtin(name);
}
