#include "model/policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "model/policy_order.h"

struct origin {
	bool is_deny;
	enum policy_source source;
};

/* The entry has its normal form. */
static void add_rule(struct policy *policy, const char *entry, struct origin origin)
{
	struct domain domain;

	must(domain_parse(entry, &domain, NULL) == 0);
	policy->rules = mem_resize(policy->rules, policy->rule_count + 1, sizeof(*policy->rules));
	policy->rules[policy->rule_count++] = (struct policy_rule){
		.name = mem_strdup(domain.name),
		.is_wildcard = domain.is_wildcard,
		.port = domain.port,
		.is_deny = origin.is_deny,
		.source = origin.source,
	};
}

static int add_domains(struct policy *policy, const char *what, const struct strings *list,
                       struct origin origin, struct err *err)
{
	struct strings normal = {0};

	if (list == NULL)
		return 0;
	if (domain_parse_list(what, list, &normal, err) < 0)
		return -1;
	for (size_t i = 0; i < normal.count; i++)
		add_rule(policy, normal.items[i], origin);
	strings_done(&normal);
	return 0;
}

static int add_cidrs(struct policy *policy, const char *what, const struct strings *list,
                     struct origin origin, struct err *err)
{
	struct strings normal = {0};

	if (list == NULL)
		return 0;
	if (environment_parse_cidrs(what, list, &normal, err) < 0)
		return -1;
	for (size_t i = 0; i < normal.count; i++) {
		struct policy_cidr cidr = {.is_deny = origin.is_deny, .source = origin.source};

		must(environment_parse_cidr(normal.items[i], &cidr.cidr, &cidr.port));
		policy->cidrs =
			mem_resize(policy->cidrs, policy->cidr_count + 1, sizeof(*policy->cidrs));
		policy->cidrs[policy->cidr_count++] = cidr;
	}
	strings_done(&normal);
	return 0;
}

/* Sorts, and keeps the first source of what is there twice. */
static void settle(struct policy *policy)
{
	size_t kept = 0;

	if (policy->rule_count > 0)
		qsort(policy->rules, policy->rule_count, sizeof(*policy->rules), policy_order_rule);
	for (size_t i = 0; i < policy->rule_count; i++) {
		struct policy_rule *rule = &policy->rules[i];

		if (kept > 0 && policy_order_rule(&policy->rules[kept - 1], rule) == 0) {
			policy->rules[kept - 1].source =
				MIN(policy->rules[kept - 1].source, rule->source);
			free(rule->name);
			continue;
		}
		policy->rules[kept++] = *rule;
	}
	policy->rule_count = kept;
	if (policy->cidr_count > 0)
		qsort(policy->cidrs, policy->cidr_count, sizeof(*policy->cidrs), policy_order_cidr);
	kept = 0;
	for (size_t i = 0; i < policy->cidr_count; i++) {
		struct policy_cidr *cidr = &policy->cidrs[i];

		if (kept > 0 && policy_order_cidr(&policy->cidrs[kept - 1], cidr) == 0)
			policy->cidrs[kept - 1].source =
				MIN(policy->cidrs[kept - 1].source, cidr->source);
		else
			policy->cidrs[kept++] = *cidr;
	}
	policy->cidr_count = kept;
}

static int add_environment(struct policy *policy, const struct environment *environment,
                           struct err *err)
{
	const struct origin allow = {false, POLICY_FROM_ENVIRONMENT};
	const struct origin deny = {true, POLICY_FROM_ENVIRONMENT};
	const struct origin trusted = {false, POLICY_FROM_TRUSTED};
	const char *entry;

	for (size_t i = 0;
	     (environment->level == ENVIRONMENT_TRUSTED ||
	      (environment->level == ENVIRONMENT_CUSTOM && environment->include_default)) &&
	     (entry = environment_trusted_at(i)) != NULL;
	     i++)
		add_rule(policy, entry, trusted);
	if (add_domains(policy, "deniedDomains", &environment->denied_domains, deny, err) < 0 ||
	    add_cidrs(policy, "allowedCidrs", &environment->cidrs, allow, err) < 0 ||
	    add_cidrs(policy, "deniedCidrs", &environment->denied_cidrs, deny, err) < 0)
		return -1;
	if (environment->level != ENVIRONMENT_CUSTOM)
		return 0;
	return add_domains(policy, "allowedDomains", &environment->domains, allow, err);
}

static int add_extra(struct policy *policy, const struct policy_extra *extra, struct err *err)
{
	const struct origin request = {false, POLICY_FROM_REQUEST};
	const struct origin approval = {false, POLICY_FROM_APPROVAL};
	bool is_more;

	if (extra == NULL)
		return 0;
	if (add_domains(policy, "allow", extra->domains, request, err) < 0 ||
	    add_cidrs(policy, "allowCidrs", extra->cidrs, request, err) < 0 ||
	    add_domains(policy, "approved", extra->approved, approval, err) < 0)
		return -1;
	if (extra->mode != NULL)
		policy->mode = *extra->mode;
	is_more = policy->rule_count > 0 || policy->cidr_count > 0 ||
	          policy->mode != ENVIRONMENT_ENFORCE;
	if (policy->level == ENVIRONMENT_NONE && is_more)
		policy->level = ENVIRONMENT_CUSTOM;
	return 0;
}

static void set_reach(struct policy *policy, const struct environment *environment)
{
	bool is_full = policy->level == ENVIRONMENT_FULL;

	policy->names_any =
		is_full || (policy->level == ENVIRONMENT_CUSTOM &&
	                    environment->level == ENVIRONMENT_CUSTOM && environment->domains_any);
	policy->udp = is_full;
	if (policy->level == ENVIRONMENT_NONE)
		return;
	policy->ports_any = is_full || environment->ports_any;
	policy->port_count = policy->ports_any ? 0 : environment->port_count;
	memcpy(policy->ports, environment->ports, policy->port_count * sizeof(policy->ports[0]));
}

static int check_size(const struct policy *policy, struct err *err)
{
	struct buf blob;
	int r;

	if (policy->rule_count > POLICY_RULES || policy->cidr_count > POLICY_CIDRS)
		return err_set(err, ERR_TOO_LARGE,
		               "the policy has more than %d rules or %d address ranges",
		               POLICY_RULES, POLICY_CIDRS);
	buf_init(&blob, POLICY_BLOB_MAX);
	r = policy_write(policy, &blob, err);
	buf_done(&blob);
	return r;
}

int policy_compile(const struct environment *environment, const struct policy_extra *extra,
                   struct policy *ret, struct err *err)
{
	struct policy made;

	policy_init(&made);
	made.level = environment->level;
	made.mode = environment->mode;
	made.egress_bytes = environment->egress_bytes;
	made.egress_rate = environment->egress_rate;
	if (add_environment(&made, environment, err) < 0 || add_extra(&made, extra, err) < 0)
		goto refused;
	set_reach(&made, environment);
	settle(&made);
	if (check_size(&made, err) < 0)
		goto refused;
	*ret = made;
	return 0;
refused:
	policy_done(&made);
	return -1;
}
