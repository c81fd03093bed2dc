#include "keeper/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/never.h"

enum { PORT_HTTP = 80, PORT_TLS = 443, PORT_SSH = 22, V4_AT = 12 };

static const struct {
	const char *text;
	const char *remedy;
} reasons[] = {
#define GATEWAY_REASON(reason, text, remedy) {text, remedy},
#include "keeper/gateway_reasons.def"
#undef GATEWAY_REASON
};

void judge_init(struct judge *judge)
{
	*judge = (struct judge){0};
	policy_init(&judge->policy);
}

void judge_done(struct judge *judge)
{
	policy_done(&judge->policy);
	pins_done(&judge->pins);
	mem_freep(&judge->grants);
}

void judge_take_policy(struct judge *judge, struct policy *policy)
{
	policy_done(&judge->policy);
	judge->policy = *policy;
	policy_init(policy);
	free(judge->grants);
	judge->grants = mem_zalloc((POLICY_CIDRS + 1) * sizeof(*judge->grants));
	judge->grant_count = policy_grants(&judge->policy, judge->grants, POLICY_CIDRS);
	judge->grants = mem_resize(judge->grants, judge->grant_count + 1, sizeof(*judge->grants));
}

/* The pattern has at most one %s, and it is ours. */
static void fill_in(char *out, size_t size, const char *pattern, const char *what)
{
	const char *mark = strstr(pattern, "%s");
	int before = mark ? (int)(mark - pattern) : (int)strlen(pattern);
	(void)snprintf(out, size, "%.*s%s%s", before, pattern, mark ? what : "",
	               mark ? mark + 2 : "");
}

void judge_refuse(struct judgement *judgement, enum judge_reason reason, const char *what)
{
	judgement->answer = POLICY_DENY;
	judgement->is_recorded = false;
	fill_in(judgement->rule, sizeof(judgement->rule), reasons[reason].text, what);
	fill_in(judgement->remedy, sizeof(judgement->remedy), reasons[reason].remedy, what);
}

void judge_source(struct judgement *judgement, const struct addr *from)
{
	char text[ADDR_TEXT];
	addr_format(text, sizeof(text), from);
	judge_refuse(judgement, JUDGE_SOURCE, text);
}

static void by_policy(const struct judge *judge, const struct policy_verdict *verdict, bool is_cidr,
                      const char *what, struct judgement *ret)
{
	ret->answer = verdict->answer;
	ret->is_recorded = verdict->is_recorded;
	policy_rule_text(&judge->policy, verdict, is_cidr, ret->rule, sizeof(ret->rule));
	ret->remedy[0] = '\0';
	if (verdict->answer == POLICY_DENY)
		policy_remedy(verdict, what, ret->remedy, sizeof(ret->remedy));
}

/* A CIDR of the policy allows it. */
static bool is_by_cidr(const struct policy_verdict *verdict)
{
	return verdict->rule >= 0 && verdict->answer == POLICY_ALLOW;
}

static void set_host(struct judgement *judgement, const char *name)
{
	(void)snprintf(judgement->host, sizeof(judgement->host), "%s", name);
}

bool judge_is_stand_in(const struct addr *addr)
{
	return addr_is_v4(addr) && addr->bytes[V4_AT] == 198 && addr->bytes[V4_AT + 1] == 18;
}

struct addr judge_stand_in(uint16_t number)
{
	return addr_from_v4((const uint8_t[]){198, 18, (uint8_t)(number >> 8), (uint8_t)number});
}

void judge_question(const struct judge *judge, const char *name, struct judgement *ret)
{
	*ret = (struct judgement){.answer = POLICY_DENY};
	struct policy_verdict verdict = policy_name_verdict(&judge->policy, name, 0);
	set_host(ret, name);
	by_policy(judge, &verdict, false, name, ret);
}

const char *judge_address(const struct judge *judge, const struct addr *addr)
{
	int rule;
	if (policy_addr_denied(&judge->policy, addr, 0, &rule))
		return "denied";
	return never_reason(addr, judge->grants, judge->grant_count);
}

bool judge_may_dial(const struct judge *judge, const struct addr *addr, uint16_t port)
{
	struct policy_verdict verdict = policy_addr_verdict(&judge->policy, addr, port);
	int rule;
	if (policy_addr_denied(&judge->policy, addr, port, &rule))
		return false;
	return is_by_cidr(&verdict) || !never_reason(addr, NULL, 0);
}

/* What holds for the address whatever names led to it. False: *ret is a denial. */
static bool judge_place(const struct judge *judge, const struct transparent_end *to,
                        const struct policy_verdict *verdict, struct judgement *ret)
{
	char text[ADDR_CIDR_TEXT];
	struct addr_cidr single = {to->addr, 128};
	int rule;
	addr_format_cidr(text, sizeof(text), &single);
	if (policy_addr_denied(&judge->policy, &to->addr, to->port, &rule)) {
		struct policy_verdict denied = {POLICY_DENY, POLICY_RULE_DENY, rule, false};
		by_policy(judge, &denied, true, text, ret);
		return false;
	}
	const char *never = never_reason(&to->addr, NULL, 0);
	/* A range opens its special addresses for the ports it has and no others, whatever names
	 * lead there. Without any network that is the plainer reason. */
	if (!never || is_by_cidr(verdict) || judge->policy.level == ENVIRONMENT_NONE)
		return true;
	judge_refuse(ret, JUDGE_NEVER, text);
	(void)snprintf(ret->rule, sizeof(ret->rule), "%s addresses are never reached", never);
	return false;
}

/* The best verdict any of the address's names has: allowed before asked before denied. False: no
 * name led to it. */
static bool judge_names(const struct judge *judge, const struct transparent_end *to,
                        uint64_t now_ms, struct judgement *ret)
{
	size_t at = 0;
	const char *name;
	bool is_any = false;
	while ((name = pins_next_name(&judge->pins, &to->addr, now_ms, &at)) != NULL) {
		struct policy_verdict verdict = policy_name_verdict(&judge->policy, name, to->port);
		bool is_better = !is_any || verdict.answer == POLICY_ALLOW ||
		                 (verdict.answer == POLICY_ASK_FIRST && ret->answer == POLICY_DENY);
		if (!is_better)
			continue;
		is_any = true;
		set_host(ret, name);
		by_policy(judge, &verdict, false, name, ret);
		if (verdict.answer == POLICY_ALLOW)
			return true;
	}
	return is_any;
}

static bool has_denied_names(const struct policy *policy)
{
	return policy->rule_count > 0 && policy->rules[0].is_deny;
}

static enum inspect_kind kind_of_port(uint16_t port)
{
	switch (port) {
	case PORT_HTTP:
		return INSPECT_HTTP;
	case PORT_TLS:
		return INSPECT_TLS;
	case PORT_SSH:
		return INSPECT_NOTHING;
	default:
		return INSPECT_PERHAPS_TLS;
	}
}

void judge_stream(const struct judge *judge, const struct transparent_end *to, uint64_t now_ms,
                  struct judgement *ret, enum inspect_kind *ret_kind, bool *ret_is_strict)
{
	const struct policy *policy = &judge->policy;
	char text[ADDR_CIDR_TEXT];
	struct addr_cidr single = {to->addr, 128};
	*ret = (struct judgement){.answer = POLICY_DENY};
	*ret_kind = INSPECT_NOTHING;
	*ret_is_strict = !policy->names_any && policy->mode != ENVIRONMENT_RECORD;
	addr_format_cidr(text, sizeof(text), &single);
	struct policy_verdict verdict = policy_addr_verdict(policy, &to->addr, to->port);
	struct judgement named = {.answer = POLICY_DENY};
	bool has_name = judge_names(judge, to, now_ms, &named);
	bool has_place =
		(has_name && judge_is_stand_in(&to->addr)) || judge_place(judge, to, &verdict, ret);
	set_host(ret, named.host);
	if (!has_place)
		return;
	/* Names say more than addresses, except where the range itself was granted. */
	if (has_name && !is_by_cidr(&verdict))
		*ret = named;
	else
		by_policy(judge, &verdict, true, text, ret);
	if (is_by_cidr(&verdict) || ret->answer == POLICY_DENY)
		return;
	if (*ret_is_strict || has_denied_names(policy) || policy->mode == ENVIRONMENT_RECORD)
		*ret_kind = kind_of_port(to->port);
}

/* Strictly: an allowed name that led to this very address. */
static void judge_strictly(const struct judge *judge, const struct transparent_end *to,
                           const struct inspect *inspect, uint64_t now_ms, struct judgement *ret)
{
	char text[ADDR_TEXT];
	addr_format(text, sizeof(text), &to->addr);
	if (inspect->name[0] == '\0') {
		judge_refuse(ret, JUDGE_UNNAMED, text);
	} else if (inspect->has_ech) {
		judge_refuse(ret, JUDGE_HIDDEN, text);
	} else if (!pins_has(&judge->pins, inspect->name, &to->addr, now_ms)) {
		judge_refuse(ret, JUDGE_OTHER, inspect->name);
		set_host(ret, inspect->name);
	}
}

void judge_named(const struct judge *judge, const struct transparent_end *to,
                 const struct inspect *inspect, bool is_strict, uint64_t now_ms,
                 struct judgement *ret)
{
	*ret = (struct judgement){.answer = POLICY_ALLOW};
	if (is_strict)
		judge_strictly(judge, to, inspect, now_ms, ret);
	if (ret->answer == POLICY_DENY || inspect->name[0] == '\0')
		return;
	struct policy_verdict verdict =
		policy_name_verdict(&judge->policy, inspect->name, to->port);
	set_host(ret, inspect->name);
	by_policy(judge, &verdict, false, inspect->name, ret);
}

void judge_datagram(const struct judge *judge, const struct transparent_end *to,
                    struct judgement *ret)
{
	char text[ADDR_TEXT];
	*ret = (struct judgement){.answer = POLICY_DENY};
	addr_format(text, sizeof(text), &to->addr);
	if (judge->policy.level != ENVIRONMENT_NONE && !judge->policy.udp) {
		judge_refuse(ret, JUDGE_UDP, text);
		return;
	}
	struct policy_verdict verdict = policy_addr_verdict(&judge->policy, &to->addr, to->port);
	if (judge_place(judge, to, &verdict, ret))
		by_policy(judge, &verdict, true, text, ret);
}
