/*
 * What the credential of a run may do: at most what its caller may, narrowed by what the task says
 * (scopes, capabilities, what it names) and by its agent's manifest. All of it is among the task's
 * choices, so a further run of the task has no more than the first.
 */
#include <string.h>

#include "api/authz.h"
#include "api/decode.h"
#include "api/delegate.h"
#include "api/repository.h"
#include "api/skills.h"
#include "api/tasks.h"
#include "api/vouch.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "mcp/tools.h"
#include "model/capability.h"
#include "model/command.h"
#include "model/config.h"
#include "model/rights.h"
#include "store/identity.h"

/* --- an agent's manifest --- */

static json_t *encode_strings(const struct strings *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, json_string(list->items[i]));
	return array;
}

/* A task needs no more than its agent says it does. */
static int take_words(json_t *body, const struct vouched *manifest, struct err *err)
{
	struct strings words = {0};
	int r = 0;

	if (!json_object_get(body, "capabilities")) {
		json_object_set_new(body, "capabilities", encode_strings(&manifest->capabilities));
		return 0;
	}
	decode_list(body, "capabilities", &words);
	for (size_t i = 0; r == 0 && i < words.count; i++) {
		if (!strings_has(&manifest->capabilities, words.items[i]))
			r = err_set(err, ERR_FORBIDDEN,
			            "capabilities: the agent's manifest does not declare '%.63s'",
			            words.items[i]);
	}
	strings_done(&words);
	return r;
}

int task_apply_manifest(struct call *call, const char *path, struct err *err)
{
	json_t *runtime = json_object_get(call->body, "sandboxRuntime");
	struct vouched manifest = {0};
	const char *chosen = NULL;
	int r;

	if (!path)
		return 0;
	if (vouch_load(call->api, call->caller->team.text, path, &manifest, err) < 0)
		return -1;
	r = vouch_runtime(&manifest, json_string_value(runtime), &chosen, err);
	if (r == 0)
		r = take_words(call->body, &manifest, err);
	if (r == 0) {
		json_object_set_new(call->body, "sandboxRuntime", json_string(chosen));
		json_object_set_new(call->body, "manifest",
		                    json_pack("{s:s, s:s?, s:o, s:o}", "trust",
		                              trust_name(manifest.trust), "signedBy",
		                              manifest.signed_by, "tools",
		                              encode_strings(&manifest.tools), "repositories",
		                              encode_strings(&manifest.repositories)));
	}
	vouched_done(&manifest);
	return r;
}

/* --- wishes --- */

/* What is asked for, with the memory it points into. */
struct asked {
	struct demand demand;
	struct scopes scopes;
	struct allowed repositories, tools;
	struct wish wish;
};

static void asked_done(struct asked *asked)
{
	demand_done(&asked->demand);
	scopes_done(&asked->scopes);
	allowed_done(&asked->repositories);
	allowed_done(&asked->tools);
}

static void add_name(struct allowed *list, const char *name)
{
	if (name && !strings_has(&list->items, name))
		strings_add(&list->items, name);
}

/* A text, a list of texts, a list of objects with a name, or an object whose members are names. */
static void add_names(struct allowed *list, const json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	add_name(list, json_string_value(value));
	json_array_foreach (value, i, item)
		add_name(list, json_is_object(item)
		                       ? json_string_value(json_object_get(item, "name"))
		                       : json_string_value(item));
	json_object_foreach ((json_t *)(uintptr_t)value, key, item)
		add_name(list, key);
}

/* What the manifest declares is given along; what it does not is refused. */
static int hold_to_manifest(struct allowed *list, const json_t *manifest, const char *what,
                            struct err *err)
{
	struct allowed declared = {0};
	int r = 0;

	if (!manifest)
		return 0;
	add_names(&declared, json_object_get(manifest, what));
	for (size_t i = 0; r == 0 && i < list->items.count; i++) {
		if (!allowed_has(&declared, list->items.items[i]))
			r = err_set(err, ERR_FORBIDDEN,
			            "%s: the agent's manifest does not declare '%.150s'", what,
			            list->items.items[i]);
	}
	add_names(list, json_object_get(manifest, what));
	allowed_done(&declared);
	return r;
}

/* Our own tools and the commands of manifests, as far as the caller has them: scopes say which of
 * them a run may use, unless words or a manifest name tools. */
static void add_own_tools(struct call *call, const struct rights *parent, struct allowed *tools)
{
	struct engine *engine = call->api->engine;
	const struct command *command;

	for (const struct tool *tool = tool_table; tool->name; tool++) {
		if (allowed_has(&parent->tools, tool->name))
			add_name(tools, tool->name);
	}
	for (size_t i = 0; (command = engine->ops->command_at(engine, i)); i++) {
		if (allowed_has(&parent->tools, command->tool))
			add_name(tools, command->tool);
	}
}

/* A name that is wrong is told now, not by a run that fails. */
static int check_skills(struct call *call, const json_t *skills, struct err *err)
{
	struct engine *engine = call->api->engine;
	json_t *name;
	size_t i;

	if (json_array_size(skills) > SKILL_OF_TASK)
		return err_set(err, ERR_INVALID, "'skills': at most %d", SKILL_OF_TASK);
	json_array_foreach (skills, i, name) {
		auto_(skill_freep) struct skill *skill = NULL;

		if (engine->ops->skills->get(engine, call->caller->team.text,
		                             json_string_value(name), &skill, err) == 0)
			continue;
		err->code = ERR_INVALID;
		return err_wrap(err, "'skills'");
	}
	return 0;
}

/* A run has the repositories and tools that its task names, and its words: so has whatever it
 * starts. */
static int ask_names(struct call *call, const struct rights *parent, const json_t *choices,
                     struct asked *asked, struct err *err)
{
	const json_t *manifest = json_object_get(choices, "manifest");

	if (asked->wish.repositories)
		allowed_copy(&asked->repositories, asked->wish.repositories);
	if (asked->wish.tools)
		allowed_copy(&asked->tools, asked->wish.tools);
	else if (!manifest)
		add_own_tools(call, parent, &asked->tools);
	add_names(&asked->repositories, json_object_get(choices, "repository"));
	add_names(&asked->tools, json_object_get(choices, "mcpServers"));
	add_names(&asked->tools, json_object_get(choices, "skills"));
	asked->wish.repositories = &asked->repositories;
	asked->wish.tools = &asked->tools;
	if (check_skills(call, json_object_get(choices, "skills"), err) < 0)
		return -1;
	return hold_to_manifest(&asked->repositories, manifest, "repositories", err) < 0
	               ? -1
	               : hold_to_manifest(&asked->tools, manifest, "tools", err);
}

static int ask_words(struct call *call, const json_t *choices, struct asked *asked, struct err *err)
{
	const struct config *config = call->api->config;
	struct strings words = {0};
	int r;

	if (!json_object_get(choices, "capabilities"))
		return 0;
	decode_list(choices, "capabilities", &words);
	r = capability_compile(&words, &config->capabilities, &config->scope_objects,
	                       &asked->demand, err);
	if (r == 0)
		asked->wish = asked->demand.wish;
	strings_done(&words);
	return r;
}

/* What is left out is what the team's keys get by themselves. */
static int ask_scopes(struct call *call, const json_t *choices, struct asked *asked,
                      struct err *err)
{
	const json_t *given = json_object_get(choices, "scopes");
	struct strings words = {0};
	struct team team = {0};
	int r;

	if (given) {
		decode_words(given, &words);
	} else {
		if (call->caller->run.text[0])
			return 0;
		if (store_team_get(call->api->store, call->caller->team.text, &team, err) < 0)
			return -1;
		if (team.default_scopes)
			strings_split(&words, team.default_scopes);
		given = team.default_scopes ? json_true() : NULL;
		team_done(&team);
	}
	if (!given)
		return 0;
	r = scopes_parse(&words, &call->api->config->scope_objects, &asked->scopes, err);
	strings_done(&words);
	if (asked->wish.scopes)
		scopes_intersect(&asked->scopes, asked->wish.scopes);
	asked->wish.scopes = &asked->scopes;
	return r;
}

static int ask(struct call *call, const struct rights *parent, const json_t *choices,
               const struct run *run, struct asked *asked, struct err *err)
{
	if (ask_words(call, choices, asked, err) < 0 || ask_scopes(call, choices, asked, err) < 0 ||
	    ask_names(call, parent, choices, asked, err) < 0)
		return -1;
	asked->wish.has_time = true;
	asked->wish.time_ms = run->timeout_ms;
	asked->wish.has_budget = run->budget != UINT64_MAX;
	asked->wish.budget = run->budget;
	return 0;
}

/* --- the network it really has --- */

/* What the words grant is the most, whatever environment it is to have. */
static int check_words(const struct asked *asked, const struct reach *reach, struct err *err)
{
	char extra[REACH_TEXT] = "";

	if (!asked->wish.network || reach_within(reach, asked->wish.network, extra, sizeof(extra)))
		return 0;
	return err_set(err, ERR_FORBIDDEN,
	               "capabilities: '%.150s' is more network than they grant; leave out "
	               "'environment' and 'extraDomains'",
	               extra);
}

/* The run has the network and the variables its sandbox has, which is what its children are
 * measured by. */
static int take_reach(struct call *call, const struct task *task, const struct asked *asked,
                      const struct rights *parent, struct rights *child, struct err *err)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	struct reach reach = {0};
	struct spec spec;
	int r = decode_spec(json_object_get(choices, "sandbox"), call->api->config, &spec, err);

	json_decref(choices);
	if (r < 0)
		return -1;
	if (call->sandbox) { /* one that is there: as it really is */
		spec_done(&spec);
		spec_copy(&spec, &call->sandbox->spec);
	}
	spec_set(&spec.team, task->team.text);
	r = delegate_reach(call->api, &spec, &reach, err);
	if (r == 0 && call->caller->run.text[0])
		r = delegate_within(&reach, &parent->network, err);
	if (r == 0)
		r = check_words(asked, &reach, err);
	if (r == 0)
		reach_copy(&child->network, &reach);
	if (r == 0)
		r = delegate_variables(call->api, &spec, &parent->environments,
		                       &child->environments, err);
	reach_done(&reach);
	spec_done(&spec);
	return r;
}

/* --- all together --- */

static void keep(struct call *call, const struct asked *asked, const struct rights *parent,
                 struct rights *child, struct run *run)
{
	scopes_make_run(&child->scopes);
	child->until_ms = parent->until_ms; /* its own time begins with its turn */
	rights_list(child, &run->rights);
	/* A child that does not say how much shares what the runs above it have. */
	if (!call->caller->run.text[0] || asked->wish.has_budget)
		run->budget = child->budget;
	run->parent = call->caller->credential;
}

/* now_ms is the moment by which its time was chosen: a later one would find that it is too much. */
static int derive(struct call *call, const struct task *task, struct run *run,
                  struct rights *parent, uint64_t now_ms, struct err *err)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	struct asked asked = {0};
	struct rights child = {0};
	int r = ask(call, parent, choices, run, &asked, err);

	json_decref(choices);
	/* Who is no run has no network of their own to be within: words are the operator's. */
	if (r == 0 && !call->caller->run.text[0] && asked.wish.network)
		reach_join(&parent->network, asked.wish.network);
	if (r == 0)
		r = rights_delegate(parent, &asked.wish, now_ms,
		                    (unsigned)call->api->config->delegation_depth, &child, err);
	if (r == 0)
		r = take_reach(call, task, &asked, parent, &child, err);
	if (r == 0)
		r = repository_check_scopes(task, &child.scopes, err);
	if (r == 0)
		keep(call, &asked, parent, &child, run);
	rights_done(&child);
	asked_done(&asked);
	return r;
}

int task_take_rights(struct call *call, const struct task *task, struct run *run, struct err *err)
{
	struct rights parent = {0};
	uint64_t now_ms = io_real_ms(); /* one look: what is left must not shrink while we check */
	int r = delegate_rights(call->api, call->caller, &parent, err);

	if (r == 0 && parent.budget == 0)
		r = err_set(err, ERR_BUDGET, "budget: nothing is left of the caller's own");
	/* Who does not say how long gets what there is. */
	if (r == 0 && !json_object_get(call->body, "timeout") && parent.until_ms > now_ms)
		run->timeout_ms = MIN(run->timeout_ms, parent.until_ms - now_ms);
	if (r == 0)
		r = derive(call, task, run, &parent, now_ms, err);
	rights_done(&parent);
	return r;
}
