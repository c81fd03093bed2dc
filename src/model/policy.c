/*
 * Rules are kept sorted with the denials first, so the first one that covers a name decides.
 * There are a few hundred at most: a scan costs about a microsecond.
 */
#include "model/policy.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/policy_order.h"

/* What resolvers may be asked by one sandbox: ample for builds, slow for a covert channel. */
enum {
	DNS_RATE = 50,
	DNS_BURST = 200,
	DNS_NEW_NAMES = 60,
	DNS_LABEL_BYTES = 4096,
};

void policy_init(struct policy *policy)
{
	*policy = (struct policy){
		.dns_rate = DNS_RATE,
		.dns_burst = DNS_BURST,
		.dns_new_names = DNS_NEW_NAMES,
		.dns_label_bytes = DNS_LABEL_BYTES,
	};
}

void policy_done(struct policy *policy)
{
	for (size_t i = 0; i < policy->rule_count; i++)
		free(policy->rules[i].name);
	free(policy->rules);
	free(policy->cidrs);
	policy_init(policy);
}

int policy_order_rule(const void *left, const void *right)
{
	const struct policy_rule *a = left, *b = right;
	int order;

	if (a->is_deny != b->is_deny)
		return a->is_deny ? -1 : 1;
	order = strcmp(a->name, b->name);
	if (order == 0)
		order = (int)a->is_wildcard - (int)b->is_wildcard;
	return order != 0 ? order : (int)a->port - (int)b->port;
}

int policy_order_cidr(const void *left, const void *right)
{
	const struct policy_cidr *a = left, *b = right;
	int order;

	if (a->is_deny != b->is_deny)
		return a->is_deny ? -1 : 1;
	order = memcmp(a->cidr.base.bytes, b->cidr.base.bytes, sizeof(a->cidr.base.bytes));
	if (order == 0)
		order = (int)a->cidr.bits - (int)b->cidr.bits;
	return order != 0 ? order : (int)a->port - (int)b->port;
}

bool policy_has_port(const struct policy *policy, uint16_t port)
{
	for (size_t i = 0; i < policy->port_count; i++) {
		if (policy->ports[i] == port)
			return true;
	}
	return policy->ports_any;
}

/* What becomes of a destination that no rule names. */
static struct policy_verdict otherwise(const struct policy *policy, enum policy_reason reason)
{
	switch (policy->mode) {
	case ENVIRONMENT_RECORD:
		return (struct policy_verdict){POLICY_ALLOW, POLICY_BY_RECORD, -1, true};
	case ENVIRONMENT_ASK:
		return (struct policy_verdict){POLICY_ASK_FIRST, POLICY_ASK, -1, false};
	case ENVIRONMENT_ENFORCE:
	case ENVIRONMENT_MODE_COUNT_:
		break;
	}
	if (policy->level == ENVIRONMENT_NONE)
		reason = reason == POLICY_ADDRESS ? POLICY_LEVEL_NONE_ADDRESS : POLICY_LEVEL_NONE;
	return (struct policy_verdict){POLICY_DENY, reason, -1, false};
}

/* No rule decided; reason: why none did. */
static struct policy_verdict by_default(const struct policy *policy, uint16_t port,
                                        enum policy_reason reason)
{
	if (!policy->names_any)
		return otherwise(policy, reason);
	if (port != 0 && !policy_has_port(policy, port))
		return otherwise(policy, POLICY_PORT);
	return (struct policy_verdict){POLICY_ALLOW, POLICY_BY_LEVEL, -1, false};
}

static struct policy_verdict by_rule(bool is_deny, size_t rule)
{
	return (struct policy_verdict){
		.answer = is_deny ? POLICY_DENY : POLICY_ALLOW,
		.reason = is_deny ? POLICY_RULE_DENY : POLICY_BY_RULE,
		.rule = (int)rule,
	};
}

/* Whether a rule with this port of its own (0: none) is about the port that is asked for. A denial
 * without one is about all; with one it does not forbid the question for the name (port 0). */
static bool port_fits(const struct policy *policy, bool is_deny, uint16_t own, uint16_t port)
{
	if (is_deny)
		return own == 0 || own == port;
	if (port == 0)
		return true;
	return own != 0 ? own == port : policy_has_port(policy, port);
}

struct policy_verdict policy_name_verdict(const struct policy *policy, const char *name,
                                          uint16_t port)
{
	enum policy_reason reason = POLICY_NAME;
	char host[DOMAIN_TEXT];

	if (!domain_fold(name, host))
		return (struct policy_verdict){POLICY_DENY, POLICY_BAD_NAME, -1, false};
	for (size_t i = 0; i < policy->rule_count; i++) {
		const struct policy_rule *rule = &policy->rules[i];

		if (!domain_covers(rule->name, rule->is_wildcard, host))
			continue;
		if (port_fits(policy, rule->is_deny, rule->port, port))
			return by_rule(rule->is_deny, i);
		reason = POLICY_PORT;
	}
	return by_default(policy, port, reason);
}

bool policy_addr_denied(const struct policy *policy, const struct addr *addr, uint16_t port,
                        int *ret_rule)
{
	for (size_t i = 0; i < policy->cidr_count && policy->cidrs[i].is_deny; i++) {
		if (!addr_covers(&policy->cidrs[i].cidr, addr) ||
		    !port_fits(policy, true, policy->cidrs[i].port, port))
			continue;
		*ret_rule = (int)i;
		return true;
	}
	return false;
}

struct policy_verdict policy_addr_verdict(const struct policy *policy, const struct addr *addr,
                                          uint16_t port)
{
	enum policy_reason reason = POLICY_ADDRESS;

	for (size_t i = 0; i < policy->cidr_count; i++) {
		const struct policy_cidr *rule = &policy->cidrs[i];

		if (!addr_covers(&rule->cidr, addr))
			continue;
		if (port_fits(policy, rule->is_deny, rule->port, port))
			return by_rule(rule->is_deny, i);
		reason = POLICY_PORT;
	}
	return by_default(policy, port, reason);
}

size_t policy_grants(const struct policy *policy, struct addr_cidr *out, size_t most)
{
	size_t count = 0;

	for (size_t i = 0; i < policy->cidr_count && count < most; i++) {
		if (!policy->cidrs[i].is_deny)
			out[count++] = policy->cidrs[i].cidr;
	}
	return count;
}

static const struct {
	const char *text;
	const char *remedy;
} reasons[] = {
#define REASON(reason, text, remedy) {text, remedy},
#include "model/policy_reasons.def"
#undef REASON
};

static const char *const source_names[POLICY_SOURCE_COUNT_] = {
	[POLICY_FROM_ENVIRONMENT] = "environment",
	[POLICY_FROM_TRUSTED] = "trusted list",
	[POLICY_FROM_REQUEST] = "this sandbox",
	[POLICY_FROM_APPROVAL] = "approved",
};

static void format_cidr(char *out, size_t size, const struct policy_cidr *cidr)
{
	char text[ADDR_CIDR_TEXT];

	addr_format_cidr(text, sizeof(text), &cidr->cidr);
	if (cidr->port != 0)
		snprintf(out, size, "%s:%u", text, cidr->port);
	else
		snprintf(out, size, "%s", text);
}

void policy_rule_entry(const struct policy_rule *rule, char *out, size_t size)
{
	struct domain domain = {.is_wildcard = rule->is_wildcard, .port = rule->port};

	must(str_copy(domain.name, sizeof(domain.name), rule->name));
	domain_format_entry(out, size, &domain);
}

void policy_rule_text(const struct policy *policy, const struct policy_verdict *verdict,
                      bool is_cidr, char *out, size_t size)
{
	size_t rule = (size_t)verdict->rule;
	char what[DOMAIN_ENTRY_TEXT];
	enum policy_source source;
	bool is_deny;

	must((size_t)verdict->reason < ARRAY_LEN(reasons));
	/* The policy may be a newer one than the verdict was made by. */
	if (verdict->rule < 0 || rule >= (is_cidr ? policy->cidr_count : policy->rule_count)) {
		snprintf(out, size, "%s", reasons[verdict->reason].text);
		return;
	}
	if (is_cidr)
		format_cidr(what, sizeof(what), &policy->cidrs[rule]);
	else
		policy_rule_entry(&policy->rules[rule], what, sizeof(what));
	is_deny = is_cidr ? policy->cidrs[rule].is_deny : policy->rules[rule].is_deny;
	source = is_cidr ? policy->cidrs[rule].source : policy->rules[rule].source;
	snprintf(out, size, "%s %s (%s)", is_deny ? "deny" : "allow", what, source_names[source]);
}

void policy_remedy(const struct policy_verdict *verdict, const char *what, char *out, size_t size)
{
	const char *at = reasons[verdict->reason].remedy;
	size_t used = 0;

	must((size_t)verdict->reason < ARRAY_LEN(reasons) && size > 0);
	out[0] = '\0';
	while (*at != '\0' && used + 1 < size) {
		const char *mark = strstr(at, "%s");
		size_t plain = mark != NULL ? (size_t)(mark - at) : strlen(at);

		snprintf(out + used, size - used, "%.*s%s", (int)plain, at,
		         mark != NULL ? what : "");
		used += strlen(out + used);
		at += plain + (mark != NULL ? 2 : 0);
	}
}
