/* [commands], [mcp] and [skills] of config.toml: what agents are given besides a machine. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/config_impl.h"

enum { HANDS_ASK_MS = 5 * 60 * 1000, HANDS_ASK_MOST_MS = 3600 * 1000 };

static int read_DIR(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING || config_has_nul(node))
		return config_refuse_kind(node, "a string", err);
	if (node->str[0] != '/' && !str_is_name(node->str))
		return err_set(err, ERR_CONFIG,
		               "'%s' is a name in the state directory or an absolute path",
		               node->key);
	free(*(char **)field);
	*(char **)field = mem_strdup(node->str);
	return 0;
}

static int read_LIST(void *field, const struct toml *node, struct err *err)
{
	return config_read_strings(field, node, err);
}

static int read_DURATION(void *field, const struct toml *node, struct err *err)
{
	uint64_t *ms = field;

	if (node->kind == TOML_STRING && !config_has_nul(node) && str_to_ms(node->str, ms) == 0 &&
	    *ms > 0 && *ms <= HANDS_ASK_MOST_MS)
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is a time of at most an hour such as \"5m\"",
	               node->key);
}

static const struct {
	const char *section, *name;
	int (*read)(void *field, const struct toml *node, struct err *err);
	size_t offset;
	const char *text, *about;
} keys[] = {
#define HANDS_KEY(section, key, kind, field, text, about)                                          \
	{section, key, read_##kind, offsetof(struct config, field), text, about},
#include "model/config_hands.def"
#undef HANDS_KEY
};

static int read_section(struct config *config, const struct config_place *place,
                        const struct toml *table, struct err *err)
{
	for (const struct toml *node = table->child; node; node = node->next) {
		const char *names[ARRAY_LEN(keys) + 1] = {NULL};
		size_t count = 0, i = 0;

		for (; i < ARRAY_LEN(keys); i++) {
			if (!str_eq(keys[i].section, place->section))
				continue;
			names[count++] = keys[i].name;
			if (str_eq(keys[i].name, node->key))
				break;
		}
		if (i == ARRAY_LEN(keys))
			return config_refuse_unknown(place, node, names, err);
		if (keys[i].read((char *)config + keys[i].offset, node, err) < 0)
			return config_blame(place, node->line, err);
	}
	return 0;
}

int config_read_commands(struct config *config, struct config_place *place,
                         const struct toml *table, struct err *err)
{
	place->section = "[commands]";
	return read_section(config, place, table, err);
}

int config_read_mcp(struct config *config, struct config_place *place, const struct toml *table,
                    struct err *err)
{
	place->section = "[mcp]";
	return read_section(config, place, table, err);
}

int config_read_skills(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err)
{
	place->section = "[skills]";
	return read_section(config, place, table, err);
}

void config_hands_init(struct config *config)
{
	config->commands_dir = mem_strdup("commands");
	config->skills_dir = mem_strdup("skills");
	config->mcp_ask_ms = HANDS_ASK_MS;
}

void config_hands_done(struct config *config)
{
	free(config->commands_dir);
	free(config->skills_dir);
	strings_done(&config->mcp_asks);
}

bool config_hands_line(size_t index, const char **ret_section, const char **ret_name,
                       const char **ret_text, const char **ret_about)
{
	if (index >= ARRAY_LEN(keys))
		return false;
	*ret_section = keys[index].section;
	*ret_name = keys[index].name;
	*ret_text = keys[index].text;
	*ret_about = keys[index].about;
	return true;
}
