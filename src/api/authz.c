#include "api/authz.h"

#include "api/agent_server.h"
#include "api/call.h"
#include "api/connect.h"
#include "api/decode.h"
#include "api/delegate.h"
#include "api/identify.h"
#include "api/origin.h"
#include "api/record.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/opt.h"
#include "base/str.h"
#include "http/request.h"
#include "model/backend.h"
#include "model/config.h"
#include "model/trust.h"
#include "store/audit.h"
#include "store/identity.h"
#include "task/tasks.h"

/* --- browsers --- */

static void allow_origin(struct request *request, const char *origin)
{
	request_add_header(request, "Access-Control-Allow-Origin", origin);
	request_add_header(request, "Access-Control-Expose-Headers", "Mcp-Session-Id");
	request_add_header(request, "Vary", "Origin");
}

/* A browser asks before it sends what a page of a listed place wants to send. */
static int answer_preflight(struct request *request)
{
	request_add_header(request, "Access-Control-Allow-Methods",
	                   "GET, POST, PUT, PATCH, DELETE");
	request_add_header(request, "Access-Control-Allow-Headers",
	                   "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, "
	                   "Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name");
	request_add_header(request, "Access-Control-Max-Age", "600");
	request_answer(request, 204, NULL, "", 0);
	return 1;
}

static int check_host(struct api *api, struct request *request, const char *host, struct err *err)
{
	char shown[80];

	/* No name of the network leads to a Unix socket or out of a sandbox, so none can be a
	 * trap. */
	if (request_is_local(request) || *request_guest(request))
		return 0;
	if (!host || request_count_header(request, "Host") != 1)
		return err_set(err, ERR_INVALID, "exactly one Host header is needed");
	if (origin_host_is_ours(host, &api->config->server.hosts))
		return 0;
	str_escape(shown, sizeof(shown), host, strlen(host));
	record_denial(api, request, NULL, "request", NULL, "host");
	return err_set(err, ERR_FORBIDDEN,
	               "'%s' is no name of this server: list it in [server] hosts", shown);
}

int authz_gate(struct api *api, struct request *request, struct err *err)
{
	const char *host = request_header(request, "Host");
	const char *origin = request_header(request, "Origin");

	if (!request_is_local(request)) {
		request_add_header(request, "X-Content-Type-Options", "nosniff");
		request_add_header(request, "Content-Security-Policy",
		                   "default-src 'none'; frame-ancestors 'none'");
	}
	if (check_host(api, request, host, err) < 0)
		return -1;
	switch (origin_of(origin, request_header(request, "Sec-Fetch-Site"), host,
	                  &api->config->server.origins)) {
	case ORIGIN_FOREIGN:
		record_denial(api, request, NULL, "request", NULL, "origin");
		return err_set(err, ERR_FORBIDDEN,
		               "a page of another place may not call this server: list it in "
		               "[server] origins");
	case ORIGIN_ALLOWED:
		allow_origin(request, origin);
		if (str_eq(request_method(request), "OPTIONS"))
			return answer_preflight(request);
		return 0;
	case ORIGIN_NONE:
	case ORIGIN_SAME:
		return 0;
	}
	return 0;
}

/* --- routes --- */

static const char *rule_of(const struct err *err)
{
	if (err->code == ERR_LIMITED)
		return "rate";
	return err->code == ERR_UNAUTHORIZED ? "key" : "user";
}

/* Runs always have task:write: for their own tasks, which is looked at where the task is known, and
 * to start others below them. */
static bool is_of_family(const struct route *route, const struct caller *caller)
{
	if (!caller->run.text[0] || !scopes_has(&caller->scopes, SCOPE_TASK_WRITE) ||
	    (route->scope != SCOPE_TASKS_READ && route->scope != SCOPE_TASKS_WRITE))
		return false;
	return route->method != ROUTE_GET || strstr(route->path, "{task}");
}

static int check_route(struct api *api, struct request *request, const struct route *route,
                       const struct caller *caller, struct err *err)
{
	if (!scopes_has(&caller->scopes, route->scope) && !is_of_family(route, caller)) {
		const char *scope = scope_name(route->scope);

		record_denial(api, request, caller, route->name, NULL, scope);
		return err_set(err, ERR_FORBIDDEN, "this needs the scope %s, which you do not have",
		               scope);
	}
	if (!(route->flags & ROUTE_OPERATOR) || caller->is_operator)
		return 0;
	record_denial(api, request, caller, route->name, NULL, "operator");
	return err_set(err, ERR_FORBIDDEN, "only an operator of this machine may do this");
}

int authz_admit(struct api *api, struct request *request, const struct route *route,
                struct caller **ret, struct err *err)
{
	auto_(caller_unrefp) struct caller *caller = NULL;
	int r;

	*ret = NULL;
	if (route && route->scope == SCOPE_PUBLIC)
		return 0;
	if (route && route->handler == handle_port && connect_token_of(request))
		r = identify_connect(api, request, &caller, err);
	else if (route && route->handler == handle_llm)
		r = identify_model_caller(api, request, &caller, err);
	else
		r = identify_caller(api, request, &caller, err);
	if (r < 0) {
		record_denial(api, request, NULL, route ? route->name : "request", NULL,
		              rule_of(err));
		return -1;
	}
	/* A token of connect.h opens one door, and agent_server_enter looks which. */
	if (route && !caller->is_connect && check_route(api, request, route, caller, err) < 0)
		return -1;
	*ret = take_ptr(caller);
	return 0;
}

/* --- objects --- */

static bool writes(const struct route *route)
{
	if (route->flags & ROUTE_VIA)
		return false;
	return route->scope >= 0 ? route->scope % 2 == 1 : route->method != ROUTE_GET;
}

static int hide(struct call *call, const char *what, const char *name, struct err *err)
{
	char shown[128];

	/* Who sees everything asked for something that is not there, which is no denial. For all
	 * others both look the same, on record too. */
	if (!call->caller->is_operator)
		record_denial(call->api, call->request, call->caller, call->route->name, name,
		              "not there, or not visible");
	str_escape(shown, sizeof(shown), name, strlen(name));
	return err_set(err, ERR_NOT_FOUND, "no %s '%s'", what, shown);
}

bool authz_sees(const struct call *call, const struct ownership *ownership)
{
	return access_to(call->caller, ownership) != ACCESS_HIDDEN;
}

int authz_look(struct call *call, const struct ownership *ownership, const char *what,
               const char *name, struct err *err)
{
	return authz_sees(call, ownership) ? 0 : hide(call, what, name, err);
}

int authz_change(struct call *call, const struct ownership *ownership, const char *what,
                 const char *name, struct err *err)
{
	enum access access = access_to(call->caller, ownership);

	if (access == ACCESS_HIDDEN)
		return hide(call, what, name, err);
	if (access == ACCESS_CHANGE)
		return 0;
	record_denial(call->api, call->request, call->caller, call->route->name, name,
	              "look, not change");
	return err_set(err, ERR_FORBIDDEN, "you may look at this %s, not change it", what);
}

struct ownership authz_ownership(const struct sandbox *sandbox)
{
	const struct spec *spec = &sandbox->spec;

	return (struct ownership){spec->owner ? spec->owner : ACCESS_OPERATOR,
	                          spec->team ? spec->team : ACCESS_TEAM, spec->visibility,
	                          spec->made_by ? spec->made_by : ""};
}

/* Whoever works in the sandbox of a run, or asks its agent, works with the run's rights: that takes
 * no less than these. What every run has is left out: it says nothing about who started it. */
int authz_run(struct call *call, const char *run, const char *what, const char *id, struct err *err)
{
	auto_(credential_freep) struct credential *token = NULL;
	struct scopes askable = {0}, own = {0};
	const char *extra = NULL;
	struct err none = {0};
	int r = 0;

	if (call->caller->is_operator || str_eq(run, call->caller->run.text) ||
	    store_credential_of_run(call->api->store, run, &token, &none) < 0 ||
	    !credential_is_live(token, io_real_ms()))
		return 0;
	scopes_preset(false, &call->api->config->scope_objects, &askable);
	scopes_intersect(&askable, &token->scopes);
	scopes_copy(&own, &call->caller->scopes);
	scopes_make_run(&own);
	if (!scopes_within(&askable, &own, &extra)) {
		record_denial(call->api, call->request, call->caller, call->route->name, id, extra);
		r = err_set(err, ERR_FORBIDDEN,
		            "this %s belongs to a run that has the scope %s, which you do not have",
		            what, extra);
	}
	scopes_done(&askable);
	scopes_done(&own);
	return r;
}

static int check_run(struct call *call, const struct sandbox *sandbox, struct err *err)
{
	const char *run = strings_value(&sandbox->spec.labels, "cloche/run");
	struct id guest;

	/* A session may work in a sandbox that was not made for it. */
	if (!run && call->api->tasks && tasks_run_in(call->api->tasks, sandbox->id.text, &guest))
		run = guest.text;
	return run ? authz_run(call, run, "sandbox", sandbox->id.text, err) : 0;
}

/* A run works in no sandbox that reaches further than it could make one. */
static int check_reach(struct call *call, const struct sandbox *sandbox, struct err *err)
{
	const char *run = strings_value(&sandbox->spec.labels, "cloche/run");

	if (run && str_eq(run, call->caller->run.text))
		return 0;
	if (delegate_check(call->api, call->caller, &sandbox->spec, err) == 0)
		return 0;
	if (err->code == ERR_FORBIDDEN)
		record_denial(call->api, call->request, call->caller, call->route->name,
		              sandbox->id.text, "delegation");
	return -1;
}

static int find_named(struct call *call, const char *name, bool to_change, struct err *err)
{
	struct ownership ownership;
	int r;

	sandbox_free(call->sandbox);
	call->sandbox = NULL;
	if (store_sandbox_find(call->api->store, call->caller->team.text, name, &call->sandbox,
	                       err) < 0)
		return err->code == ERR_NOT_FOUND ? hide(call, "sandbox", name, err) : -1;
	ownership = authz_ownership(call->sandbox);
	r = to_change ? authz_change(call, &ownership, "sandbox", name, err)
	              : authz_look(call, &ownership, "sandbox", name, err);
	if (r == 0 && to_change)
		r = check_run(call, call->sandbox, err);
	if (r == 0 && to_change)
		r = check_reach(call, call->sandbox, err);
	if (r < 0) {
		sandbox_free(call->sandbox);
		call->sandbox = NULL;
	}
	return r;
}

/* The sandbox of the path, checked. Fills call->sandbox. */
static int find_sandbox(struct call *call, bool to_change, struct err *err)
{
	return find_named(call, call->params[0], to_change, err);
}

int authz_sandbox(struct call *call, const char *name, struct err *err)
{
	if (scopes_has(&call->caller->scopes, SCOPE_SANDBOXES_WRITE))
		return find_named(call, name, true, err);
	record_denial(call->api, call->request, call->caller, call->route->name, name,
	              scope_name(SCOPE_SANDBOXES_WRITE));
	return err_set(err, ERR_FORBIDDEN, "this needs the scope %s, which you do not have",
	               scope_name(SCOPE_SANDBOXES_WRITE));
}

static bool is_of_sandbox(const struct route *route)
{
	return strstr(route->path, "{sandbox}") != NULL;
}

/* "sb_…", "sb_…/ex_…", "ops/alice". */
static char *object_of(const struct call *call)
{
	const char *first = call->sandbox ? call->sandbox->id.text : call->params[0];

	return call->params[1] ? mem_printf("%s/%s", first, call->params[1]) : mem_strdup(first);
}

static void record_entry(struct call *call)
{
	const char *rule = call->route->scope >= 0 ? scope_name(call->route->scope) : "known";
	auto_free char *object = call->params[0] ? object_of(call) : NULL;

	if (object)
		record_action(call, object, rule);
	else
		call->audit = record_creation(call, rule);
}

void authz_enter(struct call *call)
{
	struct err err = {0};

	if (call->caller && call->caller->is_connect) {
		agent_server_enter(call);
		return;
	}
	if (call->caller && is_of_sandbox(call->route) &&
	    find_sandbox(call, writes(call->route), &err) < 0 &&
	    !(call->route->flags & ROUTE_OUTLIVES && err.code == ERR_NOT_FOUND)) {
		call_fail(call, &err);
		return;
	}
	if (call->caller && writes(call->route))
		record_entry(call);
	call->route->handler(call);
}

int authz_more(struct call *call, enum scope scope, struct err *err)
{
	struct sandbox *kept = call->sandbox;

	if (!scopes_has(&call->caller->scopes, scope)) {
		record_denial(call->api, call->request, call->caller, call->route->name,
		              call->params[0], scope_name(scope));
		return err_set(err, ERR_FORBIDDEN, "this needs the scope %s, which you do not have",
		               scope_name(scope));
	}
	call->sandbox = NULL;
	if (is_of_sandbox(call->route) && find_sandbox(call, scope % 2 == 1, err) < 0) {
		sandbox_free(kept);
		return -1;
	}
	if (scope % 2 == 1) {
		auto_free char *object = object_of(call);

		record_action(call, object, scope_name(scope));
	}
	sandbox_free(call->sandbox);
	call->sandbox = kept;
	return 0;
}

void authz_made(struct call *call, const char *id)
{
	store_audit_bind(call->api->store, call->audit, id);
}

/* --- profiles and what is made of them --- */

bool authz_may_use(const struct caller *caller, const struct profile *profile)
{
	if (caller->is_operator || profile->visibility == VISIBILITY_GLOBAL)
		return true;
	if (!str_eq(profile->team ? profile->team : ACCESS_TEAM_NAME, caller->team_name))
		return false;
	return profile->visibility == VISIBILITY_TEAM || caller->role == ROLE_ADMIN ||
	       (profile->owner && str_eq(profile->owner, caller->name));
}

int authz_profile(const struct api *api, const struct caller *caller, const char *name,
                  const struct profile **ret, struct err *err)
{
	const struct config *config = api->config;
	auto_free const char **names = mem_resize(NULL, config->profile_count + 1, sizeof(*names));
	size_t count = 0;
	const char *near;
	char shown[64];

	for (size_t i = 0; i < config->profile_count; i++) {
		const struct profile *profile = &config->profiles[i];

		if (!authz_may_use(caller, profile))
			continue;
		if (str_eq(profile->spec.profile, name)) {
			*ret = profile;
			return 0;
		}
		names[count++] = profile->spec.profile;
	}
	names[count] = NULL;
	near = opt_nearest(name, names);
	str_escape(shown, sizeof(shown), name, strlen(name));
	return err_set(err, ERR_NOT_FOUND, "no profile '%s'%s%s%s", shown,
	               near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

/* Of a sandbox somebody asks for by hand nobody vouches less or more than they do: floors count. */
static int choose_runtime(struct api *api, const struct caller *caller,
                          const struct profile *profile, struct spec *spec, struct err *err)
{
	struct team team = {0};
	struct trust_ask ask = {
		.trust = TRUST_SIGNED, .wanted = spec->runtime, .have = backend_names()};
	const char *chosen = NULL;
	int r;

	if (!api->has_floors && !profile->trust_floor)
		return 0;
	if (store_team_get(api->store, caller->team.text, &team, err) < 0)
		return -1;
	ask.floors[0] = team.trust_floor;
	ask.floors[1] = profile->trust_floor;
	r = trust_choose(&ask, &chosen, err);
	if (r == 0)
		spec_set(&spec->runtime, chosen);
	team_done(&team);
	return r;
}

int authz_spec(struct api *api, const struct caller *caller, uint64_t ticket, const json_t *body,
               struct spec *ret, struct err *err)
{
	const char *name = json_string_value(json_object_get(body, "profile"));
	const struct profile *profile = NULL;

	if (authz_profile(api, caller, name ? name : "default", &profile, err) < 0 ||
	    decode_spec(body, api->config, ret, err) < 0)
		return -1;
	must(profile);
	spec_set(&ret->owner, caller->principal.text);
	spec_set(&ret->team, caller->team.text);
	ret->made_by = caller_chain(caller);
	if (caller->run.text[0])
		tasks_note_maker(api->tasks, caller->run.text);
	if (choose_runtime(api, caller, profile, ret, err) < 0 ||
	    delegate_check(api, caller, ret, err) < 0) {
		spec_done(ret);
		return -1;
	}
	ret->audit = ticket;
	return 0;
}
