/* [services] and [services.NAME] of config.toml. */
#include <stdlib.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config_impl.h"
#include "model/environment.h"

typedef int (*read_value)(void *field, const struct toml *node, struct err *err);

static int read_TEXT(void *field, const struct toml *node, struct err *err)
{
	return config_read_text(field, node, err);
}

static int read_LIST(void *field, const struct toml *node, struct err *err)
{
	return config_read_strings(field, node, err);
}

static int read_BYTES(void *field, const struct toml *node, struct err *err)
{
	uint64_t *bytes = field;

	if (node->kind == TOML_INT && node->num > 0) {
		*bytes = (uint64_t)node->num;
		return 0;
	}
	if (node->kind == TOML_STRING && !config_has_nul(node) &&
	    str_to_bytes(node->str, bytes) == 0)
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is not a size such as \"64M\"", node->key);
}

static int read_DURATION(void *field, const struct toml *node, struct err *err)
{
	uint64_t *ms = field;

	if (node->kind == TOML_INT && node->num > 0 && node->num < INT64_MAX / 1000) {
		*ms = (uint64_t)node->num * 1000;
		return 0;
	}
	if (node->kind == TOML_STRING && !config_has_nul(node) && str_to_ms(node->str, ms) == 0)
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is not a time such as \"30s\"", node->key);
}

static int read_VISIBILITY(void *field, const struct toml *node, struct err *err)
{
	if (node->kind == TOML_STRING && visibility_from(node->str, field))
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is none of private, team, global", node->key);
}

static const struct {
	const char *name;
	read_value read;
	size_t offset;
} keys[] = {
#define SERVICE_KEY(key, kind, field, text, about)                                                 \
	{key, read_##kind, offsetof(struct service, field)},
#include "model/config.def"
#undef SERVICE_KEY
};

static int read_key(struct service *service, const struct config_place *place,
                    const struct toml *node, struct err *err)
{
	const char *names[ARRAY_LEN(keys) + 1] = {NULL};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		names[i] = keys[i].name;
		if (!str_eq(keys[i].name, node->key))
			continue;
		if (keys[i].read((char *)service + keys[i].offset, node, err) < 0)
			return config_blame(place, node->line, err);
		return 0;
	}
	return config_refuse_unknown(place, node, names, err);
}

/* Replaces one of an earlier file. */
static struct service *enter(struct config *config, const char *name)
{
	struct service *service = service_new(name);

	spec_set(&service->origin, "config");
	service->visibility = VISIBILITY_GLOBAL;
	for (size_t i = 0; i < config->service_count; i++) {
		if (!str_eq(config->services[i]->name, name))
			continue;
		service_free(config->services[i]);
		config->services[i] = service;
		return service;
	}
	config->services =
		mem_resize(config->services, config->service_count + 1, sizeof(struct service *));
	config->services[config->service_count++] = service;
	return service;
}

static int read_service(struct config *config, const struct config_place *place,
                        const struct toml *table, struct err *err)
{
	char section[SERVICE_NAME + 24];
	struct config_place inner = {.file = place->file, .section = section};
	struct service *service;

	if (service_check_name(table->key, err) < 0)
		return config_blame(place, table->line, err);
	(void)snprintf(section, sizeof(section), "[services.%s]", table->key); /* fits */
	service = enter(config, table->key);
	for (const struct toml *node = table->child; node; node = node->next) {
		if (read_key(service, &inner, node, err) < 0)
			return -1;
	}
	if (service_normalise(service, err) < 0)
		return config_blame(&inner, table->line, err);
	if (service->secret && str_eq(service->secret, SERVICE_SEALED)) {
		err_set(err, ERR_CONFIG,
		        "secret: config.toml has no sealed values; use env:NAME or file:/PATH");
		return config_blame(&inner, table->line, err);
	}
	return 0;
}

static int read_common(struct config *config, const struct config_place *place,
                       const struct toml *node, struct err *err)
{
	static const char *const names[] = {"allow_cidrs", "ca_file", NULL};
	struct strings list = {0};
	int r = -1;

	if (str_eq(node->key, "ca_file"))
		r = read_TEXT(&config->service_ca, node, err);
	else if (!str_eq(node->key, "allow_cidrs"))
		return config_refuse_unknown(place, node, names, err);
	else if (config_read_strings(&list, node, err) == 0)
		r = environment_parse_cidrs("allow_cidrs", &list, &config->service_cidrs, err);
	strings_done(&list);
	return r < 0 ? config_blame(place, node->line, err) : 0;
}

int config_read_services(struct config *config, struct config_place *place,
                         const struct toml *table, struct err *err)
{
	place->section = "[services]";
	for (const struct toml *node = table->child; node; node = node->next) {
		if ((node->kind == TOML_TABLE ? read_service(config, place, node, err)
		                              : read_common(config, place, node, err)) < 0)
			return -1;
	}
	return 0;
}

void config_services_done(struct config *config)
{
	for (size_t i = 0; i < config->service_count; i++)
		service_free(config->services[i]);
	free(config->services);
	free(config->service_ca);
	strings_done(&config->service_cidrs);
}

const struct service *config_service(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->service_count; i++) {
		if (str_eq(config->services[i]->name, name))
			return config->services[i];
	}
	return NULL;
}
