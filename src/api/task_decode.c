/*
 * What somebody asks for as a task and a run: everything that can be refused is refused here, with
 * the member's name, before anything is stored. Nothing above a limit is cut down in silence.
 */
#include <math.h>
#include <sodium.h>
#include <string.h>

#include "api/authz.h"
#include "api/decode.h"
#include "api/delegate.h"
#include "api/repository.h"
#include "api/tasks.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/str.h"
#include "model/backend.h"
#include "model/capability.h"
#include "model/config.h"
#include "model/entry.h"
#include "model/jsonschema.h"
#include "model/rights.h"
#include "model/trust.h"
#include "store/identity.h"
#include "store/resume.h"
#include "store/task.h"
#include "task/agent.h"
#include "task/servers.h"
#include "task/sessions.h"

enum { INPUTS_MOST = 64, TIMEOUT_LEAST_MS = 100, MODEL_MOST = 128, AGENTS_NEAR = 80 };
#define MODEL_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@"
#define BUDGET_MOST 1e6 /* dollars */

static const char *text_of(const json_t *body, const char *name)
{
	return json_string_value(json_object_get(body, name));
}

static bool is_given(const json_t *body, const char *name)
{
	const json_t *value = json_object_get(body, name);

	return value && !json_is_null(value);
}

/* --- what this agent does not do, and what belongs together --- */

static int check_possible(const json_t *body, const struct agent *agent, struct err *err)
{
	static const char *const of_model[] = {"model", "reasoningEffort", "mcpServers"};
	const char *effort = text_of(body, "reasoningEffort");

	for (size_t i = 0; i < ARRAY_LEN(of_model); i++) {
		if (is_given(body, of_model[i]) && !agent->has_model)
			return err_set(err, ERR_INVALID, "'%s': the agent '%s' has no model",
			               of_model[i], agent->name);
	}
	if (effort && !agent_is_effort(effort))
		return err_set(err, ERR_INVALID,
		               "'reasoningEffort' is minimal, low, medium or high");
	if (effort && !agent_has_effort(agent))
		return err_set(err, ERR_INVALID, "'reasoningEffort': the agent '%s' cannot be told",
		               agent->name);
	if (!is_given(body, "mcpServers"))
		return 0;
	if (!agent_takes_servers(agent))
		return err_set(err, ERR_INVALID,
		               "'mcpServers': the agent '%s' takes none, its protocol has no place "
		               "for them; cloche-agent, codex, claude, opencode and gemini do",
		               agent->name);
	return servers_parse(json_object_get(body, "mcpServers"), NULL, err);
}

/* As it will be read when the result is there: what fails then should not have been accepted. */
static int check_schema(const json_t *body, struct err *err)
{
	auto_(jsonschema_freep) struct jsonschema *schema = NULL;
	auto_free char *text = NULL;

	if (!is_given(body, "outputSchema"))
		return 0;
	text = json_dumps(json_object_get(body, "outputSchema"),
	                  JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
	if (jsonschema_compile(text, strlen(text), NULL, &schema, err) < 0)
		return err_wrap(err, "'outputSchema'");
	return 0;
}

static bool is_session(const struct call *call)
{
	return call->route->scope == SCOPE_SESSIONS_WRITE;
}

static int check_mode(const struct call *call, const struct agent *agent, struct err *err)
{
	const char *mode = text_of(call->body, "mode");

	if (!mode || str_eq(mode, "background"))
		return 0;
	if (!str_eq(mode, "interactive"))
		return err_set(err, ERR_INVALID, "'mode' is background or interactive");
	if (agent->protocol == AGENT_PLAIN && !is_session(call))
		return 0; /* after its instruction it takes commands from whoever attaches */
	if (agent->protocol != AGENT_ACP)
		return err_set(err, ERR_INVALID,
		               "'%s': the agent '%s' takes no messages while it works",
		               is_session(call) ? "agent" : "mode", agent->name);
	if (is_session(call))
		return 0;
	return err_set(err, ERR_INVALID,
	               "'mode': a task that takes messages is a session: POST /sessions");
}

static int check_talk(const json_t *body, const struct agent *agent, struct err *err)
{
	static const char *const policies[] = {"allow", "deny", "ask"};
	const char *policy = text_of(body, "permissions");
	const char *model = text_of(body, "model");

	if (policy && agent->protocol != AGENT_ACP)
		return err_set(err, ERR_INVALID, "'permissions': the agent '%s' asks for none",
		               agent->name);
	/* It goes into files of several formats. */
	if (model &&
	    (!*model || strlen(model) > MODEL_MOST || strspn(model, MODEL_BYTES) != strlen(model)))
		return err_set(err, ERR_INVALID,
		               "'model' is at most %d letters, digits and . _ - / : @", MODEL_MOST);
	for (size_t i = 0; policy && i < ARRAY_LEN(policies); i++) {
		if (str_eq(policy, policies[i]))
			return 0;
	}
	return policy ? err_set(err, ERR_INVALID, "'permissions' is allow, deny or ask") : 0;
}

static int find_agent(const struct config *config, const json_t *body, struct agent *ret,
                      struct err *err)
{
	const char *name = text_of(body, "agent");
	const char *names[AGENTS_NEAR + 1] = {0};
	char known[200];
	const char *near;

	if (agent_find(config, name ? name : "shell", ret))
		return 0;
	for (size_t i = 0; i < AGENTS_NEAR && agent_at(config, i, ret); i++)
		names[i] = ret->name;
	near = opt_nearest(name, names);
	agent_names(config, known, sizeof(known));
	return err_set(err, ERR_INVALID, "'agent' is one of: %s%s%s%s", known,
	               near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

/* --- texts --- */

static int take_instruction(const json_t *body, struct task *task, struct err *err)
{
	const char *text = text_of(body, "instruction");
	const char *other = text_of(body, "description");

	if (text && other && !str_eq(text, other))
		return err_set(err, ERR_INVALID, "give 'instruction' or 'description', not both");
	text = text ? text : other;
	if (!text || !text[strspn(text, " \t\r\n")])
		return err_set(err, ERR_INVALID, "'instruction' is missing");
	if (strlen(text) > TASK_INSTRUCTION_BYTES)
		return err_set(err, ERR_INVALID,
		               "'instruction' has more than %d bytes: put the rest into 'inputs'",
		               TASK_INSTRUCTION_BYTES);
	task->instruction = mem_strdup(text);
	return 0;
}

/* Cuts between characters. */
static char *first_line(const char *text)
{
	size_t len;

	text += strspn(text, " \t\r\n");
	len = MIN(strcspn(text, "\r\n"), (size_t)TASK_TITLE_BYTES);
	while (len > 0 && !str_is_utf8(text, len))
		len--;
	return mem_strndup(text, len);
}

static int take_title(const json_t *body, struct task *task, struct err *err)
{
	const char *title = text_of(body, "title");

	if (title && strlen(title) > TASK_TITLE_BYTES)
		return err_set(err, ERR_INVALID, "'title' has more than %d bytes",
		               TASK_TITLE_BYTES);
	task->title = title && *title ? mem_strdup(title) : first_line(task->instruction);
	return 0;
}

static int take_origin(const json_t *body, const struct config *config, struct task *task,
                       struct err *err)
{
	static const char *const known[] = {"user_created", "api", "cli", "automation"};
	const char *origin = text_of(body, "originProduct");
	bool is_known = !origin || strings_has(&config->tasks.origin_products, origin);

	for (size_t i = 0; !is_known && i < ARRAY_LEN(known); i++)
		is_known = str_eq(origin, known[i]);
	if (!is_known)
		return err_set(err, ERR_INVALID,
		               "'originProduct' is user_created, api, cli, automation, or one of "
		               "[tasks] origin_products");
	task->origin = origin ? mem_strdup(origin) : NULL;
	return 0;
}

/* --- whose it is --- */

static int take_team(struct call *call, struct task *task, struct err *err)
{
	const struct caller *caller = call->caller;
	const char *name = text_of(call->body, "team");
	struct team team = {0};
	bool is_own = !name || str_eq(name, caller->team_name) || str_eq(name, caller->team.text);

	task->team = caller->team;
	if (is_own)
		return 0;
	if (!caller->is_operator)
		return err_set(err, ERR_FORBIDDEN, "'team': you ask for another team than yours");
	if (store_team_get(call->api->store, name, &team, err) < 0)
		return -1;
	task->team = team.id;
	team_done(&team);
	return 0;
}

static int take_owner(struct call *call, struct task *task, struct err *err)
{
	const struct caller *caller = call->caller;
	const char *user = text_of(call->body, "userId");
	struct principal principal = {0};
	struct membership membership = {0};
	int r;

	task->owner = caller->principal;
	if (!user)
		return 0;
	if (!caller->is_operator && caller->role != ROLE_ADMIN)
		return err_set(err, ERR_FORBIDDEN, "'userId': only admins act for others");
	if (store_principal_get(call->api->store, user, &principal, err) < 0)
		return -1;
	r = store_membership_get(call->api->store, task->team.text, principal.id.text, &membership,
	                         err);
	task->owner = principal.id;
	principal_done(&principal);
	if (r == 0)
		membership_done(&membership);
	return r;
}

/* --- numbers --- */

/* Somebody talks to it: it has the times of a session. */
static bool is_interactive(const struct call *call, const struct task *task)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	bool is = is_session(call) || task_is_interactive(choices);

	json_decref(choices);
	return is;
}

/* What a run has that does not say. */
static void default_timeouts(const struct call *call, const struct task *task, struct run *run)
{
	const struct config *config = call->api->config;
	bool is = is_interactive(call, task);

	run->timeout_ms = is ? config->sessions.timeout_ms : config->tasks.timeout_ms;
	run->idle_ms = is ? config->sessions.idle_ms : 0;
}

static int take_timeouts(const struct call *call, const struct task *task, struct run *run,
                         struct err *err)
{
	const struct config *config = call->api->config;
	const json_t *timeout = json_object_get(call->body, "timeout");
	const json_t *idle = json_object_get(call->body, "idleTimeout");
	bool is_long = is_interactive(call, task);
	uint64_t most = is_long ? config->sessions.timeout_ms : config->tasks.timeout_max_ms;

	if (timeout && schema_ms(timeout, "timeout", &run->timeout_ms, err) < 0)
		return -1;
	if (run->timeout_ms < TIMEOUT_LEAST_MS || run->timeout_ms > most)
		return err_set(err, ERR_INVALID, "'timeout' is %d to %llu ms (%s)",
		               TIMEOUT_LEAST_MS, (unsigned long long)most,
		               is_long ? "[sessions] timeout" : "[tasks] timeout_max");
	if (idle && json_is_null(idle))
		run->idle_ms = 0;
	else if (idle && schema_ms(idle, "idleTimeout", &run->idle_ms, err) < 0)
		return -1;
	if (run->idle_ms > 0 && run->idle_ms < 1000)
		return err_set(err, ERR_INVALID, "'idleTimeout' is at least 1000 ms");
	return 0;
}

static int take_numbers(const json_t *body, struct run *run, struct err *err)
{
	const json_t *priority = json_object_get(body, "priority");
	const json_t *budget = json_object_get(body, "budget");
	double dollars = json_number_value(budget);

	if (priority)
		run->priority = (uint64_t)json_integer_value(priority);
	if (run->priority > TASK_PRIORITY_MOST)
		return err_set(err, ERR_INVALID, "'priority' is 0 to %d", TASK_PRIORITY_MOST);
	if (budget && json_is_null(budget))
		run->budget = UINT64_MAX;
	if (!is_given(body, "budget"))
		return 0;
	if (!isfinite(dollars) || dollars < 0 || dollars > BUDGET_MOST)
		return err_set(err, ERR_INVALID, "'budget' is 0 to %.0f dollars", BUDGET_MOST);
	run->budget = (uint64_t)(dollars * 1e6 + 0.5);
	return 0;
}

/* --- the sandbox --- */

int task_make_spec(const json_t *wish, const struct config *config, struct spec *ret,
                   struct err *err)
{
	return decode_spec(wish, config, ret, err);
}

/* Members of a task that are about its sandbox, and what a sandbox calls them. */
static const struct {
	const char *from, *to;
} of_sandbox[] = {{"profile", "profile"},
                  {"environment", "network"},
                  {"extraDomains", "allow"},
                  {"limits", "limits"},
                  {"env", "env"}};

static int check_environment(struct call *call, const char *name, struct err *err)
{
	auto_(environment_freep) struct environment *environment = NULL;
	struct engine *engine = call->api->engine;
	struct ownership whose;

	if (engine->ops->environment_get(engine, call->caller->team.text, name, &environment, err) <
	    0)
		return -1;
	whose = environment_ownership(environment);
	return authz_look(call, &whose, "environment", name, err);
}

/* Who says what is needed in words need not say where that is. */
static void name_network(const json_t *body, json_t *wish)
{
	auto_free char *name = NULL;
	struct strings words = {0};

	if (!is_given(body, "capabilities") || is_given(body, "environment"))
		return;
	decode_list(body, "capabilities", &words);
	name = capability_network_name(&words);
	json_object_set_new(wish, "network", json_string(name));
	strings_done(&words);
}

/* A SandboxRequest of what the task says about its sandbox. */
static int wish_of_body(const json_t *body, json_t **ret, struct err *err)
{
	const char *runtime = text_of(body, "sandboxRuntime");
	json_t *wish = json_object();
	enum backend backend;

	for (size_t i = 0; i < ARRAY_LEN(of_sandbox); i++) {
		json_t *value = json_object_get(body, of_sandbox[i].from);

		if (value)
			json_object_set(wish, of_sandbox[i].to, value);
	}
	*ret = wish;
	if (runtime && backend_of("'sandboxRuntime'", runtime, &backend, err) < 0)
		return -1;
	if (runtime)
		json_object_set_new(wish, "runtime", json_string(runtime));
	name_network(body, wish);
	return 0;
}

/* It has the sandbox of the run before, so it can wish for nothing else. */
static int check_same(const json_t *wish, const json_t *before, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)wish, name, value) {
		if (json_equal(value, json_object_get(before, name)) ||
		    json_object_size(value) == 0)
			continue;
		return err_set(err, ERR_INVALID,
		               "'resumeFrom': its sandbox is that of the run before, which has "
		               "another '%s': leave it out",
		               name);
	}
	return 0;
}

/* It works in a sandbox that is there: what its own would be made from is what that one is. */
static int take_guest(struct call *call, json_t *wish, struct err *err)
{
	const char *name = text_of(call->body, "guest");
	const struct spec *spec;
	struct id session;

	if (!name)
		return 0;
	if (json_object_size(wish) > 0 || is_given(call->body, "resumeFrom"))
		return err_set(err, ERR_INVALID,
		               "'sandbox': it is as it is: leave out profile, environment, "
		               "extraDomains, limits, env, sandboxRuntime and resumeFrom");
	if (authz_sandbox(call, name, err) < 0)
		return -1;
	spec = &call->sandbox->spec;
	if (call->sandbox->state != SANDBOX_RUNNING)
		return err_set(err, ERR_CONFLICT, "'sandbox': it does not run");
	if (strings_value(&spec->labels, "cloche/run"))
		return err_set(err, ERR_CONFLICT, "'sandbox': it belongs to a run");
	if (sessions_in(call->api->tasks, call->sandbox->id.text, &session))
		return err_set(err, ERR_CONFLICT, "'sandbox': session %s works in it",
		               session.text);
	json_object_set_new(call->body, "guest", json_string(call->sandbox->id.text));
	json_object_set_new(wish, "profile", json_string(spec->profile));
	json_object_set_new(wish, "network", json_string(spec->network));
	return 0;
}

static int make_wish(struct call *call, const struct task *before, json_t **ret, struct err *err)
{
	struct spec spec;
	int r = wish_of_body(call->body, ret, err);

	if (r == 0)
		r = take_guest(call, *ret, err);

	if (r == 0 && before) {
		json_t *choices = json_loads(before->choices, 0, NULL);
		json_t *old = json_object_get(choices, "sandbox");

		r = check_same(*ret, old, err);
		json_decref(*ret);
		*ret = json_incref(old);
		json_decref(choices);
	}
	if (r < 0 || authz_spec(call->api, call->caller, 0, *ret, &spec, err) < 0)
		return -1;
	/* What a run may use is known when it runs; that there is such a thing, now. */
	r = check_environment(call, spec.network, err);
	spec_done(&spec);
	return r;
}

/* --- files --- */

/* As the step sync will read it: what fails there should not have been accepted. */
static bool is_base64(const json_t *coded)
{
	size_t size = json_string_length(coded);
	auto_free uint8_t *bytes = mem_zalloc(size + 1);
	size_t len;

	return json_is_string(coded) &&
	       sodium_base642bin(bytes, size + 1, json_string_value(coded), size, "\r\n", &len,
	                         NULL, sodium_base64_VARIANT_ORIGINAL) == 0;
}

/* No part of it is "..": what it means would depend on what is there. */
static bool stays_below(const char *path)
{
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len == 2 && path[0] == '.' && path[1] == '.')
			return false;
		path += len + strspn(path + len, "/");
	}
	return true;
}

static int check_inputs(const json_t *inputs, struct err *err)
{
	size_t i;
	json_t *input;

	if (json_array_size(inputs) > INPUTS_MOST)
		return err_set(err, ERR_INVALID, "'inputs' has more than %d files", INPUTS_MOST);
	json_array_foreach (inputs, i, input) {
		const char *path = text_of(input, "path");
		bool has_text = json_object_get(input, "content") != NULL;
		bool has_bytes = json_object_get(input, "contentBase64") != NULL;

		if (!*path || strlen(path) > LIMIT_PATH_LEN)
			return err_set(err, ERR_INVALID,
			               "'inputs' %zu: 'path' is empty or too long", i + 1);
		if (!stays_below(path))
			return err_set(err, ERR_INVALID,
			               "'inputs' %zu: '..' leads out of its folder: say where it "
			               "shall be",
			               i + 1);
		if (has_text == has_bytes)
			return err_set(err, ERR_INVALID,
			               "'inputs' %zu: give either 'content' or 'contentBase64'",
			               i + 1);
		if (has_bytes && !is_base64(json_object_get(input, "contentBase64")))
			return err_set(err, ERR_INVALID,
			               "'inputs' %zu: 'contentBase64' is not base64", i + 1);
	}
	return 0;
}

static int take_choices(struct call *call, const struct task *before, struct task *task,
                        struct err *err)
{
	static const char *const kept[] = {"inputs",      "context",      "interactionOrigin",
	                                   "mode",        "capabilities", "model",
	                                   "permissions", "outputSchema", "scopes",
	                                   "mcpServers",  "skills",       "manifest",
	                                   "guest",       "begins",       "reasoningEffort"};
	json_t *choices = json_object();
	json_t *wish = NULL;
	int r = make_wish(call, before, &wish, err);

	json_object_set_new(choices, "sandbox", wish);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		json_t *value = json_object_get(call->body, kept[i]);

		if (value && !json_is_null(value))
			json_object_set(choices, kept[i], value);
	}
	if (r == 0) {
		json_t *old = before ? json_loads(before->choices, 0, NULL) : NULL;

		r = repository_take(call, task, old, choices, err);
		json_decref(old);
	}
	if (r == 0)
		r = check_inputs(json_object_get(choices, "inputs"), err);
	task->choices = json_dumps(choices, JSON_COMPACT);
	json_decref(choices);
	return r;
}

/* --- all together --- */

static int fill_task(struct call *call, const struct task *before, struct task *task,
                     struct err *err)
{
	struct agent agent;

	if (find_agent(call->api->config, call->body, &agent, err) < 0 ||
	    task_apply_manifest(call, agent.manifest, err) < 0 ||
	    check_possible(call->body, &agent, err) < 0 || check_schema(call->body, err) < 0 ||
	    check_mode(call, &agent, err) < 0 || check_talk(call->body, &agent, err) < 0 ||
	    take_instruction(call->body, task, err) < 0 || take_title(call->body, task, err) < 0 ||
	    take_origin(call->body, call->api->config, task, err) < 0 ||
	    take_team(call, task, err) < 0 || take_owner(call, task, err) < 0 ||
	    decode_entries(json_object_get(call->body, "labels"), &task->labels, decode_check_label,
	                   err) < 0 ||
	    entry_check_label_list(&task->labels, err) < 0)
		return -1;
	task->agent = mem_strdup(agent.name);
	task->made_by = caller_chain(call->caller);
	return take_choices(call, before, task, err);
}

int task_decode(struct call *call, struct task **ret_task, struct run **ret_run, struct err *err)
{
	auto_(task_freep) struct task *task = task_new();
	auto_(task_freep) struct task *before = NULL;
	auto_(resume_done) struct resume resume = {0};
	auto_(run_freep) struct run *run = NULL;

	if (is_session(call))
		task->id = id_new(TASK_SESSION_PREFIX);
	if (task_find_resume(call, &before, &resume, err) < 0 ||
	    fill_task(call, before, task, err) < 0)
		return -1;
	run = run_new(task, io_real_ms());
	task_resume(run, &resume);
	default_timeouts(call, task, run);
	if (take_timeouts(call, task, run, err) < 0 || take_numbers(call->body, run, err) < 0 ||
	    task_take_rights(call, task, run, err) < 0)
		return -1;
	*ret_task = take_ptr(task);
	*ret_run = take_ptr(run);
	return 0;
}

int task_decode_run(struct call *call, const struct task *task, struct run **ret, struct err *err)
{
	auto_(run_freep) struct run *before = NULL;
	auto_(task_freep) struct task *other = NULL;
	auto_(resume_done) struct resume resume = {0};
	auto_(run_freep) struct run *run = run_new(task, io_real_ms());

	if (str_has_prefix(task->id.text, TASK_SESSION_PREFIX "_"))
		return err_set(
			err, ERR_CONFLICT,
			"a session is not run again: POST /sessions with 'resumeFrom' makes one "
			"that goes on with its files");
	if (task_find_resume(call, &other, &resume, err) < 0)
		return -1;
	if (other && !str_eq(other->id.text, task->id.text))
		return err_set(err, ERR_INVALID,
		               "'resumeFrom': that run is of another task: POST /tasks/run makes a "
		               "new task that goes on with its files");
	task_resume(run, &resume);
	default_timeouts(call, task, run);
	if (task->run.text[0]) {
		if (store_run_get(call->api->store, task->run.text, &before, err) < 0)
			return -1;
		if (!run_is_over(before->state))
			return err_set(err, ERR_CONFLICT,
			               "run %s of this task is %s: stop it first", before->id.text,
			               run_state_name(before->state));
		run->timeout_ms = before->timeout_ms;
		run->idle_ms = before->idle_ms;
		run->priority = before->priority;
		run->budget = before->budget;
	}
	if (take_timeouts(call, task, run, err) < 0 || take_numbers(call->body, run, err) < 0 ||
	    task_take_rights(call, task, run, err) < 0)
		return -1;
	*ret = take_ptr(run);
	return 0;
}
