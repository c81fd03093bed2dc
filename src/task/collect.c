/* What is left out of the output of a run. */
#include "task/collect.h"

#include "base/mem.h"
#include "base/str.h"
#include "task/agent.h"
#include "task/job.h"
#include "task/redact.h"

/* Every variable of the environment: they are sealed because somebody thought them secret. */
static void add_variables(struct redact *redact, const struct tasks *tasks, const struct task *task,
                          const json_t *wish)
{
	const struct tasks_config *config = &tasks->config;
	struct strings values = {0};
	struct err err = {0};
	struct spec spec;

	if (!config->secrets || config->make_spec(wish, config->config, &spec, &err) < 0)
		return;
	spec_set(&spec.owner, task->owner.text);
	spec_set(&spec.team, task->team.text);
	config->secrets(&spec, &values, config->ctx);
	for (size_t i = 0; i < values.count; i++) {
		char *equals = strchr(values.items[i], '=');

		if (equals)
			redact_add(redact, equals + 1);
		explicit_bzero(values.items[i], strlen(values.items[i]));
	}
	strings_done(&values);
	spec_done(&spec);
}

struct redact *collect_redact(const struct tasks *tasks, const struct task *task)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	const json_t *wish = json_object_get(choices, "sandbox");
	struct redact *redact = redact_new();
	const char *name;
	json_t *value;

	json_object_foreach (json_object_get(wish, "env"), name, value) {
		if (redact_is_secret_name(name) && json_is_string(value))
			redact_add(redact, json_string_value(value));
	}
	add_variables(redact, tasks, task, wish);
	json_decref(choices);
	return redact;
}

static json_t *cleaned(struct redact *redact, const json_t *text)
{
	auto_free char *clean = redact_text(redact, json_string_value(text));

	return json_string(clean);
}

static void clean_names(struct redact *redact, json_t *object)
{
	const char *name;
	json_t *item;
	void *next;

	json_object_foreach_safe(object, next, name, item)
	{
		auto_free char *clean = redact_text(redact, name);

		if (str_eq(clean, name))
			continue;
		json_object_set(object, clean, item);
		json_object_del(object, name);
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as a document that was accepted */
void collect_clean(struct redact *redact, json_t *document)
{
	const char *name;
	json_t *item;
	size_t i;

	json_array_foreach (document, i, item) {
		if (json_is_string(item))
			json_array_set_new(document, i, cleaned(redact, item));
		else
			collect_clean(redact, item);
	}
	json_object_foreach (document, name, item) {
		if (json_is_string(item))
			json_object_set_new(document, name, cleaned(redact, item));
		else
			collect_clean(redact, item);
	}
	clean_names(redact, document);
}

void collect_clean_text(const struct tasks *tasks, const struct task *task, char **text)
{
	struct redact *redact;
	char *clean;

	if (!*text)
		return;
	redact = collect_redact(tasks, task);
	clean = redact_text(redact, *text);
	redact_free(redact);
	free(*text);
	*text = clean;
}

bool collect_is_talk(const struct tasks *tasks, const struct task *task)
{
	struct agent agent;

	return agent_find(tasks->config.config, task->agent, &agent) && agent.protocol == AGENT_ACP;
}
