#include "model/reach.h"

#include "base/addr.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/domain.h"

enum pattern_kind { PATTERN_ALL, PATTERN_DOMAIN, PATTERN_CIDR };

/* What a text of a rule means; texts are in their normal form, so this cannot fail on our own. */
struct pattern {
	enum pattern_kind kind;
	struct domain domain;
	struct addr_cidr cidr;
};

static int pattern_parse(const char *text, struct pattern *ret, struct err *err)
{
	struct addr addr;

	*ret = (struct pattern){0};
	if (str_eq(text, "*"))
		return 0;
	if (addr_parse_cidr(text, &ret->cidr)) {
		ret->kind = PATTERN_CIDR;
		return 0;
	}
	if (addr_parse(text, &addr)) {
		ret->kind = PATTERN_CIDR;
		ret->cidr = (struct addr_cidr){addr, 128};
		return 0;
	}
	ret->kind = PATTERN_DOMAIN;
	return domain_parse(text, &ret->domain, err);
}

static void pattern_format(const struct pattern *pattern, char *out, size_t size)
{
	if (pattern->kind == PATTERN_DOMAIN)
		domain_format(out, size, pattern->domain.name, pattern->domain.is_wildcard);
	else if (pattern->kind == PATTERN_CIDR)
		addr_format_cidr(out, size, &pattern->cidr);
	else
		(void)snprintf(out, size, "*"); /* fits */
}

/* An address range is never covered by "*", which stands for public names alone. */
static bool pattern_covers(const struct pattern *outer, const struct pattern *inner)
{
	if (inner->kind == PATTERN_CIDR)
		return outer->kind == PATTERN_CIDR && outer->cidr.bits <= inner->cidr.bits &&
		       addr_covers(&outer->cidr, &inner->cidr.base);
	if (outer->kind == PATTERN_ALL)
		return true;
	if (outer->kind != PATTERN_DOMAIN || inner->kind != PATTERN_DOMAIN)
		return false;
	return (outer->domain.is_wildcard || !inner->domain.is_wildcard) &&
	       domain_covers(outer->domain.name, outer->domain.is_wildcard, inner->domain.name);
}

void reach_done(struct reach *reach)
{
	for (size_t i = 0; i < reach->count; i++)
		free(reach->rules[i].pattern);
	free(reach->rules);
	strings_done(&reach->denied);
	*reach = (struct reach){0};
}

static struct reach_rule *new_rule(struct reach *reach)
{
	reach->rules = mem_resize(reach->rules, reach->count + 1, sizeof(*reach->rules));
	reach->rules[reach->count] = (struct reach_rule){0};
	return &reach->rules[reach->count++];
}

static bool has_port(const struct reach_rule *rule, uint16_t port)
{
	for (size_t i = 0; i < rule->port_count; i++) {
		if (rule->ports[i] == port)
			return true;
	}
	return rule->ports_any;
}

static bool is_same_rule(const struct reach_rule *a, const struct reach_rule *b)
{
	return str_eq(a->pattern, b->pattern) && a->ports_any == b->ports_any &&
	       a->port_count == b->port_count &&
	       memcmp(a->ports, b->ports, a->port_count * sizeof(a->ports[0])) == 0;
}

static void add_copy(struct reach *reach, const struct reach_rule *rule)
{
	struct reach_rule *copy;

	for (size_t i = 0; i < reach->count; i++) {
		if (is_same_rule(&reach->rules[i], rule))
			return;
	}
	copy = new_rule(reach);
	*copy = *rule;
	copy->pattern = mem_strdup(rule->pattern);
}

void reach_copy(struct reach *to, const struct reach *from)
{
	struct reach copy = {.udp = from->udp};

	for (size_t i = 0; i < from->count; i++)
		add_copy(&copy, &from->rules[i]);
	strings_copy(&copy.denied, &from->denied);
	reach_done(to);
	*to = copy;
}

static int add_port(struct reach_rule *rule, uint64_t port, struct err *err)
{
	size_t at = rule->port_count;

	if (port == 0 || port > UINT16_MAX)
		return err_set(err, ERR_INVALID, "%llu is no port", (unsigned long long)port);
	if (has_port(rule, (uint16_t)port))
		return 0;
	if (rule->port_count == REACH_PORTS)
		return err_set(err, ERR_INVALID, "more than %d ports", REACH_PORTS);
	for (; at > 0 && rule->ports[at - 1] > port; at--)
		rule->ports[at] = rule->ports[at - 1];
	rule->ports[at] = (uint16_t)port;
	rule->port_count++;
	return 0;
}

/* "443,80"; "" is none, which is refused: a rule without ports reaches nothing. */
static int read_ports(const char *text, struct reach_rule *rule, struct err *err)
{
	while (*text != '\0') {
		size_t len = strcspn(text, ",");
		auto_free char *part = mem_strndup(text, len);
		uint64_t port;

		if (str_to_u64(part, &port) < 0)
			return err_set(err, ERR_INVALID, "'%.20s' is no port", part);
		if (add_port(rule, port, err) < 0)
			return -1;
		text += len;
		text += *text == ',';
	}
	return rule->port_count > 0 ? 0 : err_set(err, ERR_INVALID, "no port behind ':'");
}

/* Where the ports begin: behind the last colon, unless that is inside an IPv6 address. */
static const char *find_ports(const char *text)
{
	const char *colon = strrchr(text, ':');

	if (text[0] == '[') {
		const char *close = strchr(text, ']');

		return close && close[1] == ':' ? close + 1 : NULL;
	}
	return colon && strchr(text, ':') == colon ? colon : NULL;
}

int reach_add(struct reach *reach, const char *text, struct err *err)
{
	const char *ports = find_ports(text);
	size_t len = ports ? (size_t)(ports - text) : strlen(text);
	bool bracketed = len > 1 && text[0] == '[' && text[len - 1] == ']';
	auto_free char *own = mem_strndup(text + bracketed, len - 2 * (size_t)bracketed);
	struct reach_rule rule = {.ports_any = ports == NULL};
	char normal[DOMAIN_ENTRY_TEXT];
	struct pattern pattern;

	if (reach->count >= REACH_RULES)
		return err_set(err, ERR_TOO_LARGE, "more than %d rules", REACH_RULES);
	if (pattern_parse(own, &pattern, err) < 0 ||
	    (ports && read_ports(ports + 1, &rule, err) < 0))
		return err_wrap(err, "network rule '%.80s'", text);
	pattern_format(&pattern, normal, sizeof(normal));
	rule.pattern = normal;
	add_copy(reach, &rule);
	return 0;
}

void reach_format(const struct reach_rule *rule, char *out, size_t size)
{
	bool bracketed = strchr(rule->pattern, ':') != NULL;
	size_t used = (size_t)snprintf(out, size, "%s%s%s", bracketed ? "[" : "", rule->pattern,
	                               bracketed ? "]" : "");

	for (size_t i = 0; i < rule->port_count && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%u", i > 0 ? "," : ":",
		                         rule->ports[i]);
}

void reach_add_all(struct reach *reach)
{
	struct reach_rule rule = {.pattern = (char *)"*", .ports_any = true};

	add_copy(reach, &rule);
	reach->udp = true;
}

static void deny_all_of(struct reach *reach, const struct strings *denied)
{
	for (size_t i = 0; i < denied->count; i++) {
		if (!strings_has(&reach->denied, denied->items[i]))
			strings_add(&reach->denied, denied->items[i]);
	}
}

void reach_join(struct reach *reach, const struct reach *more)
{
	for (size_t i = 0; i < more->count && reach->count < REACH_RULES; i++)
		add_copy(reach, &more->rules[i]);
	reach->udp = reach->udp || more->udp;
	deny_all_of(reach, &more->denied);
}

void reach_deny(struct reach *reach, const struct reach *outer)
{
	deny_all_of(reach, &outer->denied);
}

/* --- comparing --- */

/* Whether some rule of reach covers the pattern on this port (0: on every port). */
static bool is_covered(const struct reach *reach, const struct pattern *inner, uint16_t port)
{
	for (size_t i = 0; i < reach->count; i++) {
		const struct reach_rule *rule = &reach->rules[i];
		struct pattern outer;

		if (!rule->ports_any && (port == 0 || !has_port(rule, port)))
			continue;
		if (pattern_parse(rule->pattern, &outer, NULL) == 0 &&
		    pattern_covers(&outer, inner))
			return true;
	}
	return false;
}

/* The part of the rule that is not covered, if there is one. */
static bool find_extra(const struct reach_rule *rule, const struct reach *outer,
                       struct reach_rule *ret)
{
	struct pattern inner;

	*ret = (struct reach_rule){.pattern = rule->pattern, .ports_any = rule->ports_any};
	if (pattern_parse(rule->pattern, &inner, NULL) < 0)
		return true;
	if (rule->ports_any)
		return !is_covered(outer, &inner, 0);
	for (size_t i = 0; i < rule->port_count; i++) {
		if (!is_covered(outer, &inner, rule->ports[i]))
			ret->ports[ret->port_count++] = rule->ports[i];
	}
	return ret->port_count > 0;
}

bool reach_within(const struct reach *inner, const struct reach *outer, char *extra, size_t size)
{
	for (size_t i = 0; i < inner->count; i++) {
		struct reach_rule part;

		if (!find_extra(&inner->rules[i], outer, &part))
			continue;
		reach_format(&part, extra, size);
		return false;
	}
	if (inner->udp && !outer->udp) {
		(void)snprintf(extra, size, "UDP"); /* fits */
		return false;
	}
	return true;
}

bool reach_has(const struct reach *reach, const char *host, uint16_t port)
{
	struct pattern inner, denied;

	if (pattern_parse(host, &inner, NULL) < 0)
		return false;
	for (size_t i = 0; i < reach->denied.count; i++) {
		if (pattern_parse(reach->denied.items[i], &denied, NULL) == 0 &&
		    pattern_covers(&denied, &inner))
			return false;
	}
	return is_covered(reach, &inner, port);
}
