/* [server], [delegation], [audit], [scopes] and [capabilities.NAME] of config.toml. */
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config_impl.h"
#include "model/listen.h"

enum { HOSTS = 64, RATE_MOST = 1000000 };

typedef int (*read_value)(void *field, const struct toml *node, struct err *err);

static int read_TEXT(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING)
		return config_refuse_kind(node, "a string", err);
	if (config_has_nul(node))
		return err_set(err, ERR_CONFIG, "'%s' holds a NUL", node->key);
	spec_set(field, node->str);
	return 0;
}

static int read_BOOL(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_BOOL)
		return config_refuse_kind(node, "true or false", err);
	*(bool *)field = node->num != 0;
	return 0;
}

static int read_NUMBER(void *field, const struct toml *node, struct err *err)
{
	return config_read_number(field, node, RATE_MOST, err);
}

static int read_LIST(void *field, const struct toml *node, struct err *err)
{
	struct strings *list = field;

	if (config_read_strings(list, node, err) < 0)
		return -1;
	return list->count <= HOSTS ? 0
	                            : err_set(err, ERR_CONFIG, "'%s' has more than %d entries",
	                                      node->key, HOSTS);
}

static int read_DURATION(void *field, const struct toml *node, struct err *err)
{
	if (node->kind == TOML_INT && node->num == 0) {
		*(uint64_t *)field = 0;
		return 0;
	}
	if (node->kind != TOML_STRING || config_has_nul(node) || str_to_ms(node->str, field) < 0)
		return config_refuse_kind(node, "a time such as \"400d\", or 0", err);
	return 0;
}

static int read_LISTEN(void *field, const struct toml *node, struct err *err)
{
	struct listen listen;

	if (read_TEXT(field, node, err) < 0)
		return -1;
	return listen_parse(node->str, &listen, err);
}

struct key {
	const char *name;
	read_value read;
	size_t offset;
};

static const struct key server_keys[] = {
#define SERVER_KEY(key, kind, field, text, about)                                                  \
	{key, read_##kind, offsetof(struct config, field)},
#include "model/config.def"
#undef SERVER_KEY
	{0},
};

static const struct key delegation_keys[] = {
#define DELEGATION_KEY(key, kind, field, text, about)                                              \
	{key, read_##kind, offsetof(struct config, field)},
#include "model/config.def"
#undef DELEGATION_KEY
	{0},
};

static const struct key audit_keys[] = {
#define AUDIT_KEY(key, kind, field, text, about) {key, read_##kind, offsetof(struct config, field)},
#include "model/config.def"
#undef AUDIT_KEY
	{0},
};

static const struct key capability_keys[] = {
	{"about", read_TEXT, offsetof(struct capability, about)},
	{"network", read_LIST, offsetof(struct capability, network)},
	{"scopes", read_LIST, offsetof(struct capability, scopes)},
#define RIGHT(field, text, about) {text, read_LIST, offsetof(struct capability, field)},
#include "model/rights.def"
#undef RIGHT
	{0},
};

enum { KEYS_MOST = 16 };

/* Reads every key of a table into an object. */
static int read_keys(const struct key *keys, void *object, const struct config_place *place,
                     const struct toml *table, struct err *err)
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
		if (key->read((char *)object + key->offset, node, err) < 0)
			return config_blame(place, node->line, err);
	}
	return 0;
}

int config_read_server(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err)
{
	place->section = "[server]";
	if (read_keys(server_keys, config, place, table, err) < 0)
		return -1;
	config->server.has_listen = config->server.has_listen || toml_get(table, "listen") != NULL;
	if ((config->server.tls_cert == NULL) != (config->server.tls_key == NULL)) {
		err_set(err, ERR_CONFIG, "tls_cert and tls_key are given together or not at all");
		return config_blame(place, table->line, err);
	}
	return 0;
}

int config_read_delegation(struct config *config, struct config_place *place,
                           const struct toml *table, struct err *err)
{
	place->section = "[delegation]";
	return read_keys(delegation_keys, config, place, table, err);
}

int config_read_audit(struct config *config, struct config_place *place, const struct toml *table,
                      struct err *err)
{
	place->section = "[audit]";
	return read_keys(audit_keys, config, place, table, err);
}

int config_read_scopes(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err)
{
	place->section = "[scopes]";
	for (const struct toml *node = table->child; node != NULL; node = node->next) {
		if (scope_check_object(node->key, err) < 0)
			return config_blame(place, node->line, err);
		if (node->kind != TOML_STRING || config_has_nul(node)) {
			config_refuse_kind(node, "a string that says what it is", err);
			return config_blame(place, node->line, err);
		}
		if (config->scope_objects.count == SCOPES_OBJECTS) {
			err_set(err, ERR_CONFIG, "more than %d objects of scopes", SCOPES_OBJECTS);
			return config_blame(place, node->line, err);
		}
		strings_set(&config->scope_objects, node->key, node->str);
	}
	return 0;
}

static int read_capability(struct config *config, const struct config_place *place,
                           const struct toml *node, struct err *err)
{
	struct capability *capability;
	char section[LIMIT_NAME_LEN + 20];
	struct config_place inner = {.file = place->file, .section = section};

	if (node->kind != TOML_TABLE) {
		config_refuse_kind(node, "a table [capabilities.NAME]", err);
		return config_blame(place, node->line, err);
	}
	if (!str_is_name(node->key)) {
		err_set(err, ERR_CONFIG, "'%.64s' is not a name for a capability", node->key);
		return config_blame(place, node->line, err);
	}
	(void)snprintf(section, sizeof(section), "[capabilities.%s]", node->key); /* fits */
	capability = capabilities_enter(&config->capabilities, node->key);
	if (capability == NULL) {
		err_set(err, ERR_CONFIG, "capability '%s' is built in", node->key);
		return config_blame(place, node->line, err);
	}
	return read_keys(capability_keys, capability, &inner, node, err);
}

int config_read_capabilities(struct config *config, struct config_place *place,
                             const struct toml *table, struct err *err)
{
	place->section = "[capabilities]";
	for (const struct toml *node = table->child; node != NULL; node = node->next) {
		if (read_capability(config, place, node, err) < 0)
			return -1;
	}
	return 0;
}

/* Scopes may be defined below the capabilities that name them. */
int config_check_capabilities(const struct config *config, const char *file, struct err *err)
{
	for (size_t i = 0; i < config->capabilities.count; i++) {
		const struct capability *capability = &config->capabilities.items[i];

		if (capability_check(capability, &config->scope_objects, err) == 0)
			continue;
		if (err != NULL)
			err->code = ERR_CONFIG;
		return err_wrap(err, "%s: [capabilities.%s]", file, capability->name);
	}
	return 0;
}

void config_server_init(struct config *config)
{
	config->server = (struct config_server){.rate_limit = 200, .rate_burst = 400};
	config->server.listen = mem_strdup(LISTEN_DEFAULT);
	config->delegation_depth = RIGHTS_DEPTH;
	config->delegation_children = RIGHTS_CHILDREN;
}

void config_server_done(struct config *config)
{
	free(config->server.listen);
	free(config->server.tls_cert);
	free(config->server.tls_key);
	strings_done(&config->server.hosts);
	strings_done(&config->server.origins);
	strings_done(&config->scope_objects);
	capabilities_done(&config->capabilities);
}

/* For the default file. */
static const struct {
	const char *section, *name, *text, *about;
} lines[] = {
#define SERVER_KEY(key, kind, field, text, about) {"[server]", key, text, about},
#include "model/config.def"
#undef SERVER_KEY
#define DELEGATION_KEY(key, kind, field, text, about) {"[delegation]", key, text, about},
#include "model/config.def"
#undef DELEGATION_KEY
#define AUDIT_KEY(key, kind, field, text, about) {"[audit]", key, text, about},
#include "model/config.def"
#undef AUDIT_KEY
};

bool config_server_line(size_t index, const char **ret_section, const char **ret_name,
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
