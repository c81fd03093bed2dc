/* [agents.NAME] of config.toml: agents that speak the Agent Client Protocol on their stdio. */
#include <stdlib.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config_impl.h"
#include "model/entry.h"

enum { AGENTS_MOST = 64 };

/* Replaces one of an earlier file; NULL: there are too many. */
static struct config_agent *enter(struct config *config, const char *name)
{
	struct config_agent *agent = NULL;

	for (size_t i = 0; i < config->agent_count && !agent; i++) {
		if (str_eq(config->agents[i].name, name))
			agent = &config->agents[i];
	}
	if (!agent && config->agent_count == AGENTS_MOST)
		return NULL;
	if (!agent) {
		config->agents = mem_resize(config->agents, config->agent_count + 1,
		                            sizeof(*config->agents));
		agent = &config->agents[config->agent_count++];
		*agent = (struct config_agent){.name = mem_strdup(name)};
	}
	return agent;
}

static int read_env(struct strings *env, const struct toml *node, struct err *err)
{
	if (config_read_strings(env, node, err) < 0)
		return -1;
	for (size_t i = 0; i < env->count; i++) {
		if (entry_check_env(env->items[i], err) < 0)
			return -1;
	}
	return 0;
}

static int read_key(struct config_agent *agent, const struct config_place *place,
                    const struct toml *node, struct err *err)
{
	static const char *const names[] = {"command", "env", "about", "manifest", NULL};
	int r = 0;

	if (str_eq(node->key, "command"))
		r = config_read_strings(&agent->command, node, err);
	else if (str_eq(node->key, "env"))
		r = read_env(&agent->env, node, err);
	else if (!str_eq(node->key, "about") && !str_eq(node->key, "manifest"))
		return config_refuse_unknown(place, node, names, err);
	else if (node->kind != TOML_STRING || config_has_nul(node))
		r = config_refuse_kind(node, "a text", err);
	else if (str_eq(node->key, "about"))
		spec_set(&agent->about, node->str);
	else if (node->str[0] != '/')
		r = err_set(err, ERR_CONFIG, "'manifest' is the path of a file: \"/PATH\"");
	else
		spec_set(&agent->manifest, node->str);
	return r < 0 ? config_blame(place, node->line, err) : 0;
}

static int read_agent(struct config *config, const struct config_place *place,
                      const struct toml *table, struct err *err)
{
	char section[LIMIT_NAME_LEN + 24];
	struct config_place inner = {.file = place->file, .section = section};
	struct config_agent *agent;

	if (table->kind != TOML_TABLE || !str_is_name(table->key)) {
		err_set(err, ERR_CONFIG, "'%.63s' is not [agents.NAME]", table->key);
		return config_blame(place, table->line, err);
	}
	(void)snprintf(section, sizeof(section), "[agents.%s]", table->key); /* fits */
	agent = enter(config, table->key);
	if (!agent) {
		err_set(err, ERR_CONFIG, "more than %d agents", AGENTS_MOST);
		return config_blame(&inner, table->line, err);
	}
	for (const struct toml *node = table->child; node; node = node->next) {
		if (read_key(agent, &inner, node, err) < 0)
			return -1;
	}
	if (agent->command.count == 0) {
		err_set(err, ERR_CONFIG, "'command' is missing: [\"PROGRAM\", \"ARGUMENT\"]");
		return config_blame(&inner, table->line, err);
	}
	return 0;
}

int config_read_agents(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err)
{
	place->section = "[agents]";
	for (const struct toml *node = table->child; node; node = node->next) {
		if (read_agent(config, place, node, err) < 0)
			return -1;
	}
	return 0;
}

void config_agents_done(struct config *config)
{
	for (size_t i = 0; i < config->agent_count; i++) {
		free(config->agents[i].name);
		free(config->agents[i].about);
		free(config->agents[i].manifest);
		strings_done(&config->agents[i].command);
		strings_done(&config->agents[i].env);
	}
	free(config->agents);
}
