#include "task/agent.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/config.h"

enum { TEXT_MOST = 64 * 1024 };

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
static const struct agent agents[] = {
#define AGENT(id, name, protocol, model, mode, argv, env, packages, about)                         \
	{name, about, AGENT_##protocol, model, mode, argv, env, packages},
#include "task/agents.def"
#undef AGENT
};
#undef WORDS

/* The row of each. */
enum {
#define AGENT(id, ...) AT_##id,
#include "task/agents.def"
#undef AGENT
};

static const struct {
	size_t agent;
	const char *path, *text;
} agent_files_table[] = {
#define AGENT_FILE(id, path, text) {AT_##id, path, text},
#include "task/agents.def"
#undef AGENT_FILE
};

/* --- finding --- */

static void from_config(const struct config_agent *row, struct agent *ret)
{
	*ret = (struct agent){
		.name = row->name,
		.about = row->about ? row->about : "of config.toml",
		.protocol = AGENT_ACP,
		.has_model = true,
		.argv = (const char *const *)row->command.items,
		.env = (const char *const *)row->env.items,
	};
}

bool agent_at(const struct config *config, size_t index, struct agent *ret)
{
	if (index < ARRAY_LEN(agents)) {
		*ret = agents[index];
		return true;
	}
	index -= ARRAY_LEN(agents);
	if (index >= config->agent_count)
		return false;
	from_config(&config->agents[index], ret);
	return true;
}

bool agent_find(const struct config *config, const char *name, struct agent *ret)
{
	for (size_t i = 0; agent_at(config, i, ret); i++) {
		if (str_eq(ret->name, name))
			return true;
	}
	return false;
}

void agent_names(const struct config *config, char *out, size_t size)
{
	struct agent agent;
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; agent_at(config, i, &agent) && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "",
		                         agent.name);
}

bool agent_is_built_in(const struct agent *agent)
{
	return agent->packages && !*agent->packages;
}

/* --- starting --- */

/* The text with {model}, {url} and {token} replaced; the caller frees. */
static char *fill_in(const char *text, const struct agent_start *start)
{
	const struct {
		const char *name, *value;
	} places[] = {{"{model}", start->model ? start->model : AGENT_MODEL},
	              {"{url}", AGENT_GATEWAY},
	              {"{token}", start->token}};
	struct buf out;
	char *filled;

	buf_init(&out, TEXT_MOST);
	while (*text) {
		size_t i = 0;

		while (i < ARRAY_LEN(places) && !str_has_prefix(text, places[i].name))
			i++;
		if (i < ARRAY_LEN(places)) {
			must(buf_puts(&out, places[i].value) == 0);
			text += strlen(places[i].name);
		} else {
			must(buf_put(&out, text++, 1) == 0);
		}
	}
	filled = buf_take_string(&out);
	buf_done(&out);
	return filled;
}

static void put_env(struct strings *env, char *entry)
{
	char *equals = strchr(entry, '=');

	must(equals);
	*equals = '\0';
	strings_set(env, entry, equals + 1);
	free(entry);
}

/* What was installed comes first: the version that was tried, not one that is in the image. */
static void put_path(const struct agent *agent, struct strings *env)
{
	const char *path = strings_value(env, "PATH");
	auto_free char *full = mem_printf(AGENT_ROOT "/%s/node_modules/.bin:%s", agent->name,
	                                  path ? path : "/usr/local/bin:/usr/bin:/bin");

	strings_set(env, "PATH", full);
}

void agent_command(const struct agent *agent, const struct agent_start *start, struct exec *exec,
                   struct strings *env)
{
	for (size_t i = 0; agent->argv && agent->argv[i]; i++)
		strings_take(&exec->argv, fill_in(agent->argv[i], start));
	if (agent->protocol == AGENT_PLAIN) {
		strings_add(&exec->argv, start->task->instruction);
		return;
	}
	strings_set(env, "HOME", AGENT_HOME);
	for (size_t i = 0; agent->env && agent->env[i]; i++)
		put_env(env, fill_in(agent->env[i], start));
	if (!agent_is_built_in(agent))
		put_path(agent, env);
}

void agent_files(const struct agent *agent, const struct agent_start *start, json_t *inputs)
{
	for (size_t i = 0; i < ARRAY_LEN(agent_files_table); i++) {
		auto_free char *text = NULL;

		if (!str_eq(agents[agent_files_table[i].agent].name, agent->name))
			continue;
		text = fill_in(agent_files_table[i].text, start);
		json_array_append_new(inputs,
		                      json_pack("{s:s, s:s}", "path", agent_files_table[i].path,
		                                "content", text));
	}
}
