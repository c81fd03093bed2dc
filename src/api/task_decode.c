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
#include "api/tasks.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
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

enum { INPUTS_MOST = 64, TIMEOUT_LEAST_MS = 100, MODEL_MOST = 128 };
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
	static const char *const of_model[] = {"model", "reasoningEffort", "mcpServers", "skills"};
	static const char *const not_yet[] = {"reasoningEffort", "mcpServers", "skills"};
	static const char *const of_repository[] = {"branch", "createPr"};

	for (size_t i = 0; i < ARRAY_LEN(of_repository); i++) {
		const json_t *value = json_object_get(body, of_repository[i]);

		if (is_given(body, of_repository[i]) && !json_is_false(value) &&
		    !is_given(body, "repository"))
			return err_set(err, ERR_INVALID, "'%s' needs a repository",
			               of_repository[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(of_model); i++) {
		if (is_given(body, of_model[i]) && !agent->has_model)
			return err_set(err, ERR_INVALID, "'%s': the agent '%s' has no model",
			               of_model[i], agent->name);
	}
	for (size_t i = 0; i < ARRAY_LEN(not_yet); i++) {
		if (is_given(body, not_yet[i]))
			return err_set(err, ERR_UNSUPPORTED,
			               "'%s': this version does not pass it on", not_yet[i]);
	}
	return 0;
}

/* What a repository is fetched through is configured by the operator. */
static int check_repository(const json_t *body, struct err *err)
{
	if (!is_given(body, "repository"))
		return 0;
	return err_set(err, ERR_INVALID,
	               "'repository': no forge is configured on this server; let the instruction "
	               "clone it, in an environment that reaches it");
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

static int check_mode(const json_t *body, const struct agent *agent, struct err *err)
{
	const char *mode = text_of(body, "mode");

	if (!mode || str_eq(mode, "background"))
		return 0;
	if (!str_eq(mode, "interactive"))
		return err_set(err, ERR_INVALID, "'mode' is background or interactive");
	return err_set(err, ERR_INVALID, "'mode': the agent '%s' takes no messages while it works",
	               agent->name);
}

static int check_talk(const json_t *body, const struct agent *agent, struct err *err)
{
	static const char *const policies[] = {"allow", "deny"};
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
	return policy ? err_set(err, ERR_INVALID, "'permissions' is allow or deny") : 0;
}

static int find_agent(const struct config *config, const json_t *body, struct agent *ret,
                      struct err *err)
{
	const char *name = text_of(body, "agent");
	char known[200];

	if (agent_find(config, name ? name : "shell", ret))
		return 0;
	agent_names(config, known, sizeof(known));
	return err_set(err, ERR_INVALID, "'agent' is one of: %s", known);
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

static int take_timeouts(const json_t *body, const struct config *config, struct run *run,
                         struct err *err)
{
	const json_t *timeout = json_object_get(body, "timeout");
	const json_t *idle = json_object_get(body, "idleTimeout");
	uint64_t most = config->tasks.timeout_max_ms;

	if (timeout && schema_ms(timeout, "timeout", &run->timeout_ms, err) < 0)
		return -1;
	if (run->timeout_ms < TIMEOUT_LEAST_MS || run->timeout_ms > most)
		return err_set(err, ERR_INVALID, "'timeout' is %d to %llu ms ([tasks] timeout_max)",
		               TIMEOUT_LEAST_MS, (unsigned long long)most);
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

/* Public names to those of the runtimes: the only place that knows both. */
static int runtime_of(const char *name, const char **ret, struct err *err)
{
	static const char *const known[] = {"native"};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (str_eq(known[i], name)) {
			*ret = known[i];
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "'sandboxRuntime' is null or one of: native");
}

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

/* A SandboxRequest of what the task says about its sandbox. */
static int wish_of_body(const json_t *body, json_t **ret, struct err *err)
{
	const char *runtime = text_of(body, "sandboxRuntime");
	json_t *wish = json_object();

	for (size_t i = 0; i < ARRAY_LEN(of_sandbox); i++) {
		json_t *value = json_object_get(body, of_sandbox[i].from);

		if (value)
			json_object_set(wish, of_sandbox[i].to, value);
	}
	*ret = wish;
	if (runtime && runtime_of(runtime, &runtime, err) < 0)
		return -1;
	if (runtime)
		json_object_set_new(wish, "runtime", json_string(runtime));
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

static int make_wish(struct call *call, const struct task *before, json_t **ret, struct err *err)
{
	struct spec spec;
	int r = wish_of_body(call->body, ret, err);

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
	                                   "permissions", "repository",   "branch",
	                                   "createPr",    "outputSchema"};
	json_t *choices = json_object();
	json_t *wish = NULL;
	int r = make_wish(call, before, &wish, err);

	json_object_set_new(choices, "sandbox", wish);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		json_t *value = json_object_get(call->body, kept[i]);

		if (value && !json_is_null(value))
			json_object_set(choices, kept[i], value);
	}
	if (is_given(call->body, "repository") && !is_given(call->body, "createPr"))
		json_object_set_new(choices, "createPr", json_true());
	if (r == 0)
		r = check_inputs(json_object_get(choices, "inputs"), err);
	task->choices = json_dumps(choices, JSON_COMPACT);
	json_decref(choices);
	return r;
}

/* --- what its credential may do --- */

static int make_wish_of_rights(struct call *call, const struct run *run, struct demand *demand,
                               struct scopes *scopes, struct wish *ret, struct err *err)
{
	const struct config *config = call->api->config;
	const json_t *body = call->body;
	struct strings list = {0};
	int r = 0;

	decode_list(body, "capabilities", &list);
	if (is_given(body, "capabilities")) {
		r = capability_compile(&list, &config->capabilities, &config->scope_objects, demand,
		                       err);
		if (r == 0)
			*ret = demand->wish;
	}
	strings_done(&list);
	if (r == 0 && is_given(body, "scopes")) {
		decode_list(body, "scopes", &list);
		r = scopes_parse(&list, &config->scope_objects, scopes, err);
		strings_done(&list);
		if (ret->scopes)
			scopes_intersect(scopes, ret->scopes);
		ret->scopes = scopes;
	}
	ret->has_time = true;
	ret->time_ms = run->timeout_ms;
	ret->has_budget = run->budget != UINT64_MAX;
	ret->budget = run->budget;
	return r;
}

/* The run has the network and the variables its sandbox has, which is what its children are
 * measured by. */
static int take_reach(struct call *call, const struct task *task, const struct rights *parent,
                      struct rights *child, struct err *err)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	struct reach reach = {0};
	struct spec spec;
	int r = decode_spec(json_object_get(choices, "sandbox"), call->api->config, &spec, err);

	json_decref(choices);
	if (r < 0)
		return -1;
	spec_set(&spec.team, task->team.text);
	r = delegate_reach(call->api, &spec, &reach, err);
	if (r == 0 && call->caller->run.text[0])
		r = delegate_within(&reach, &parent->network, err);
	if (r == 0)
		reach_copy(&child->network, &reach);
	if (r == 0)
		r = delegate_variables(call->api, &spec, &parent->environments,
		                       &child->environments, err);
	reach_done(&reach);
	spec_done(&spec);
	return r;
}

static int take_rights(struct call *call, const struct task *task, struct run *run, struct err *err)
{
	struct rights parent = {0}, child = {0};
	struct demand demand = {0};
	struct scopes scopes = {0};
	struct wish wish = {0};
	uint64_t now = io_real_ms();
	int r = delegate_rights(call->api, call->caller, &parent, err);

	if (r == 0 && parent.budget == 0)
		r = err_set(err, ERR_BUDGET, "budget: nothing is left of the caller's own");
	/* Who does not say how long gets what there is. */
	if (r == 0 && !is_given(call->body, "timeout") && parent.until_ms > now)
		run->timeout_ms = MIN(run->timeout_ms, parent.until_ms - now);
	if (r == 0)
		r = make_wish_of_rights(call, run, &demand, &scopes, &wish, err);
	if (r == 0)
		r = rights_delegate(&parent, &wish, now,
		                    (unsigned)call->api->config->delegation_depth, &child, err);
	if (r == 0)
		r = take_reach(call, task, &parent, &child, err);
	if (r == 0) {
		scopes_make_run(&child.scopes);
		child.until_ms = parent.until_ms; /* its own time begins with its turn */
		rights_list(&child, &run->rights);
		/* A child that does not say how much shares what the runs above it have. */
		if (!call->caller->run.text[0] || wish.has_budget)
			run->budget = child.budget;
		run->parent = call->caller->credential;
	}
	rights_done(&parent);
	rights_done(&child);
	demand_done(&demand);
	scopes_done(&scopes);
	return r;
}

/* --- all together --- */

static int fill_task(struct call *call, const struct task *before, struct task *task,
                     struct err *err)
{
	struct agent agent;

	if (find_agent(call->api->config, call->body, &agent, err) < 0 ||
	    check_possible(call->body, &agent, err) < 0 || check_repository(call->body, err) < 0 ||
	    check_schema(call->body, err) < 0 || check_mode(call->body, &agent, err) < 0 ||
	    check_talk(call->body, &agent, err) < 0 ||
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

	if (task_find_resume(call, &before, &resume, err) < 0 ||
	    fill_task(call, before, task, err) < 0)
		return -1;
	run = run_new(task, io_real_ms());
	task_resume(run, &resume);
	run->timeout_ms = call->api->config->tasks.timeout_ms;
	if (take_timeouts(call->body, call->api->config, run, err) < 0 ||
	    take_numbers(call->body, run, err) < 0 || take_rights(call, task, run, err) < 0)
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

	if (task_find_resume(call, &other, &resume, err) < 0)
		return -1;
	if (other && !str_eq(other->id.text, task->id.text))
		return err_set(err, ERR_INVALID,
		               "'resumeFrom': that run is of another task: POST /tasks/run makes a "
		               "new task that goes on with its files");
	task_resume(run, &resume);
	run->timeout_ms = call->api->config->tasks.timeout_ms;
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
	if (take_timeouts(call->body, call->api->config, run, err) < 0 ||
	    take_numbers(call->body, run, err) < 0 || take_rights(call, task, run, err) < 0)
		return -1;
	*ret = take_ptr(run);
	return 0;
}
