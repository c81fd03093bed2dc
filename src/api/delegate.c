#include "api/delegate.h"

#include <stdio.h>

#include "api/call.h"
#include "model/policy.h"
#include "store/identity.h"
#include "task/charge.h"

/* --- how far a policy reaches --- */

/* "PATTERN:443,80" as model/reach.h reads it; a rule may have a port of its own. */
static int add(struct reach *reach, const struct policy *policy, const char *pattern, uint16_t port,
               struct err *err)
{
	char text[REACH_TEXT];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s", pattern);

	if (port != 0)
		(void)snprintf(text + used, sizeof(text) - used, ":%u", port);
	for (size_t i = 0;
	     port == 0 && !policy->ports_any && i < policy->port_count && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u", i ? "," : ":",
		                         policy->ports[i]);
	return reach_add(reach, text, err);
}

static int add_rules(struct reach *reach, const struct policy *policy, struct err *err)
{
	for (size_t i = 0; i < policy->rule_count; i++) {
		const struct policy_rule *rule = &policy->rules[i];
		char pattern[300];

		(void)snprintf(pattern, sizeof(pattern), "%s%s", rule->is_wildcard ? "*." : "",
		               rule->name); /* a name has 253 characters at most */
		if (rule->is_deny)
			strings_add(&reach->denied, pattern);
		else if (add(reach, policy, pattern, rule->port, err) < 0)
			return -1;
	}
	return 0;
}

static int add_cidrs(struct reach *reach, const struct policy *policy, struct err *err)
{
	for (size_t i = 0; i < policy->cidr_count; i++) {
		const struct policy_cidr *cidr = &policy->cidrs[i];
		char text[80], pattern[90];

		addr_format_cidr(text, sizeof(text), &cidr->cidr);
		(void)snprintf(pattern, sizeof(pattern), "[%s]", text); /* fits */
		if (cidr->is_deny)
			strings_add(&reach->denied, text);
		else if (add(reach, policy, pattern, cidr->port, err) < 0)
			return -1;
	}
	return 0;
}

/* What is only recorded or asked about may be reached as well. */
static int reach_of(const struct policy *policy, struct reach *ret, struct err *err)
{
	bool is_open = policy->mode != ENVIRONMENT_ENFORCE && policy->level != ENVIRONMENT_NONE;

	if (is_open || policy->level == ENVIRONMENT_FULL)
		reach_add_all(ret);
	else if (policy->names_any && add(ret, policy, "*", 0, err) < 0)
		return -1;
	return add_rules(ret, policy, err) < 0 ? -1 : add_cidrs(ret, policy, err);
}

int delegate_reach(struct api *api, const struct spec *spec, struct reach *ret, struct err *err)
{
	auto_(environment_freep) struct environment *environment = NULL;
	struct policy_extra extra = {.domains = &spec->allow, .cidrs = &spec->allow_cidrs};
	enum environment_mode mode;
	struct policy policy;
	int r;

	if (api->engine->ops->environment_get(api->engine, spec->team ? spec->team : ACCESS_TEAM,
	                                      spec->network, &environment, err) < 0)
		return -1;
	if (spec->network_mode && environment_mode_from(spec->network_mode, &mode))
		extra.mode = &mode;
	if (policy_compile(environment, &extra, &policy, err) < 0)
		return -1;
	r = reach_of(&policy, ret, err);
	policy_done(&policy);
	return r;
}

/* --- variables --- */

int delegate_variables(struct api *api, const struct spec *spec, const struct allowed *own,
                       struct allowed *ret, struct err *err)
{
	auto_(environment_freep) struct environment *environment = NULL;

	if (api->engine->ops->environment_get(api->engine, spec->team ? spec->team : ACCESS_TEAM,
	                                      spec->network, &environment, err) < 0)
		return -1;
	allowed_done(ret);
	*ret = (struct allowed){0};
	if (environment->variables.count == 0)
		return 0;
	if (!allowed_has(own, environment->name))
		return err_set(err, ERR_FORBIDDEN,
		               "environments: the variables of '%.63s' are not the caller's own",
		               environment->name);
	strings_add(&ret->items, environment->name);
	return 0;
}

/* --- what a caller has --- */

int delegate_rights(struct api *api, const struct caller *caller, struct rights *ret,
                    struct err *err)
{
	auto_(credential_freep) struct credential *credential = NULL;

	if (!caller->run.text[0]) {
		rights_init(ret, &caller->scopes);
		if (caller->expires_ms)
			ret->until_ms = caller->expires_ms;
		return 0;
	}
	if (store_credential_get(api->store, caller->credential.text, &credential, err) < 0 ||
	    rights_load(&credential->rights, ret, err) < 0)
		return -1;
	scopes_intersect(&ret->scopes, &caller->scopes);
	/* The credential outlives the run by its grace; a child must not. */
	ret->until_ms = MIN(ret->until_ms, credential->expires_ms - RIGHTS_GRACE_MS);
	ret->budget = charge_left(api->tasks, caller->run.text);
	return 0;
}

int delegate_within(const struct reach *inner, const struct reach *outer, struct err *err)
{
	char extra[REACH_TEXT] = "";

	if (!reach_within(inner, outer, extra, sizeof(extra)))
		return err_set(err, ERR_FORBIDDEN, "network: %.150s is not within the caller's own",
		               extra);
	for (size_t i = 0; i < outer->denied.count; i++) {
		if (!strings_has(&inner->denied, outer->denied.items[i]))
			return err_set(err, ERR_FORBIDDEN,
			               "network: the caller is denied %.150s, this is not",
			               outer->denied.items[i]);
	}
	return 0;
}

int delegate_check(struct api *api, const struct caller *caller, const struct spec *spec,
                   struct err *err)
{
	struct rights rights = {0};
	struct reach reach = {0};
	struct allowed variables = {0};
	int r;

	if (!caller->run.text[0])
		return 0;
	r = delegate_rights(api, caller, &rights, err);
	if (r == 0 && !allowed_has(&rights.profiles, spec->profile))
		r = err_set(err, ERR_FORBIDDEN, "profiles: '%s' is not among the caller's own",
		            spec->profile);
	if (r == 0)
		r = delegate_reach(api, spec, &reach, err);
	if (r == 0)
		r = delegate_within(&reach, &rights.network, err);
	if (r == 0)
		r = delegate_variables(api, spec, &rights.environments, &variables, err);
	allowed_done(&variables);
	rights_done(&rights);
	reach_done(&reach);
	return r;
}
