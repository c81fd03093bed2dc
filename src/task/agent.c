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
		.manifest = row->manifest,
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

/* --- how hard to think, and with which tools --- */

static const struct {
	size_t agent;
	const char *effort, *reasoning;
} efforts[] = {
#define AGENT_EFFORT(id, effort, reasoning) {AT_##id, effort, reasoning},
#include "task/agents.def"
#undef AGENT_EFFORT
};

static const size_t takers[] = {
#define AGENT_MCP(id) AT_##id,
#include "task/agents.def"
#undef AGENT_MCP
};

static const struct {
	const char *name, *budget; /* tokens, for those that count these */
} levels[] = {{"minimal", "1024"}, {"low", "4096"}, {"medium", "10240"}, {"high", "31999"}};

static bool is_row(const struct agent *agent, size_t row)
{
	return agent->packages && str_eq(agents[row].name, agent->name);
}

static bool mentions(const char *const *words, const char *what)
{
	for (; words && *words; words++) {
		if (strstr(*words, what))
			return true;
	}
	return false;
}

bool agent_has_effort(const struct agent *agent)
{
	for (size_t i = 0; i < ARRAY_LEN(efforts); i++) {
		if (is_row(agent, efforts[i].agent))
			return true;
	}
	return !agent->packages &&
	       (mentions(agent->argv, "{effort}") || mentions(agent->env, "{effort}"));
}

bool agent_takes_servers(const struct agent *agent)
{
	for (size_t i = 0; i < ARRAY_LEN(takers); i++) {
		if (is_row(agent, takers[i]))
			return true;
	}
	return !agent->packages;
}

static size_t find_level(const char *level)
{
	size_t i = 0;

	while (level && i < ARRAY_LEN(levels) && !str_eq(levels[i].name, level))
		i++;
	return level ? i : ARRAY_LEN(levels);
}

bool agent_is_effort(const char *level)
{
	return find_level(level) < ARRAY_LEN(levels);
}

/* --- starting --- */

bool task_is_interactive(const json_t *choices)
{
	const char *mode = json_string_value(json_object_get(choices, "mode"));

	return mode && str_eq(mode, "interactive");
}

struct place {
	const char *name, *value;
};

static void replace(struct buf *out, const char *text, const struct place *places, size_t count)
{
	while (*text) {
		size_t i = 0;

		while (i < count && !str_has_prefix(text, places[i].name))
			i++;
		if (i < count) {
			must(buf_puts(out, places[i].value) == 0);
			text += strlen(places[i].name);
		} else {
			must(buf_put(out, text++, 1) == 0);
		}
	}
}

/* What {effort} or {reasoning} becomes. */
static void put_effort(struct buf *out, const char *text, const char *level)
{
	size_t at = find_level(level);

	if (at < ARRAY_LEN(levels))
		replace(out, text,
		        (const struct place[]){{"{level}", level}, {"{budget}", levels[at].budget}},
		        2);
	must(buf_put(out, "", 1) == 0);
}

/* The text with {model}, {url}, {token} and the effort replaced; the caller frees. */
static char *fill_in(const struct agent *agent, const char *text, const struct agent_start *start)
{
	const char *effort = "{level}", *reasoning = "";
	struct buf out, first, second;
	char *filled;

	for (size_t i = 0; i < ARRAY_LEN(efforts); i++) {
		if (!is_row(agent, efforts[i].agent))
			continue;
		effort = efforts[i].effort;
		reasoning = efforts[i].reasoning;
	}
	buf_init(&out, TEXT_MOST);
	buf_init(&first, TEXT_MOST);
	buf_init(&second, TEXT_MOST);
	put_effort(&first, effort, start->effort);
	put_effort(&second, reasoning, start->effort);
	const struct place places[] = {{"{model}", start->model ? start->model : AGENT_MODEL},
	                               {"{url}", AGENT_GATEWAY},
	                               {"{token}", start->token},
	                               {"{effort}", (const char *)buf_head(&first)},
	                               {"{reasoning}", (const char *)buf_head(&second)}};

	replace(&out, text, places, ARRAY_LEN(places));
	filled = buf_take_string(&out);
	buf_done(&out);
	buf_done(&first);
	buf_done(&second);
	return filled;
}

/* Takes the entry. One that has no value is left out. */
static void put_env(struct strings *env, char *entry)
{
	char *equals = strchr(entry, '=');

	must(equals);
	*equals = '\0';
	if (equals[1])
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
		strings_take(&exec->argv, fill_in(agent, agent->argv[i], start));
	if (agent->protocol == AGENT_PLAIN && start->is_interactive) {
		/* Then it goes on with what it is told on its standard input. */
		strings_take(&exec->argv,
		             mem_printf("%s\nexec /bin/sh -s", start->task->instruction));
		return;
	}
	if (agent->protocol == AGENT_PLAIN) {
		strings_add(&exec->argv, start->task->instruction);
		return;
	}
	strings_set(env, "HOME", AGENT_HOME);
	for (size_t i = 0; agent->env && agent->env[i]; i++)
		put_env(env, fill_in(agent, agent->env[i], start));
	if (!agent_is_built_in(agent))
		put_path(agent, env);
}

void agent_files(const struct agent *agent, const struct agent_start *start, json_t *inputs)
{
	for (size_t i = 0; i < ARRAY_LEN(agent_files_table); i++) {
		auto_free char *text = NULL;

		if (!str_eq(agents[agent_files_table[i].agent].name, agent->name))
			continue;
		text = fill_in(agent, agent_files_table[i].text, start);
		json_array_append_new(inputs,
		                      json_pack("{s:s, s:s}", "path", agent_files_table[i].path,
		                                "content", text));
	}
}
