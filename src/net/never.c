/* The tables are text, for people; they are parsed once, because every connection is looked up. */
#include "net/never.h"

#include <pthread.h>

#include "base/must.h"

static const struct {
	const char *cidr;
	const char *rule;
} rules[] = {
#define NEVER(cidr, rule) {cidr, rule},
#include "net/never.def"
#undef NEVER
};

/* Prefixes behind which an IPv4 address hides, and where. */
static const struct {
	const char *cidr;
	size_t at;
} dresses[] = {
	{"::/96", 12},           /* v4-compatible, RFC 4291 (deprecated) */
	{"64:ff9b::/96", 12},    /* NAT64, RFC 6052 */
	{"2002::/16", 2},        /* 6to4, RFC 3056 */
	{"::ffff:0:0:0/96", 12}, /* SIIT, RFC 2765 */
};

static struct addr_cidr rule_cidrs[ARRAY_LEN(rules)];
static struct addr_cidr dress_cidrs[ARRAY_LEN(dresses)];
static struct addr_cidr public_v6;

static void parse(const char *text, struct addr_cidr *ret)
{
	bool is_valid = addr_parse_cidr(text, ret);
	must(is_valid); /* our own table */
}

static void parse_all(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		parse(rules[i].cidr, &rule_cidrs[i]);
	for (size_t i = 0; i < ARRAY_LEN(dresses); i++)
		parse(dresses[i].cidr, &dress_cidrs[i]);
	parse("2000::/3", &public_v6);
}

static const char *find_rule(const struct addr *ip)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (addr_covers(&rule_cidrs[i], ip))
			return rules[i].rule;
	return NULL;
}

/* What the address is once undressed: a 6to4 address of 127.0.0.1 is loopback. */
static bool undress(const struct addr *ip, struct addr *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(dresses); i++) {
		if (addr_is_v4(ip) || !addr_covers(&dress_cidrs[i], ip))
			continue;
		*ret = addr_from_v4(ip->bytes + dresses[i].at);
		return true;
	}
	return false;
}

const char *never_reason(const struct addr *ip, const struct addr_cidr *granted, size_t count)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int r = pthread_once(&once, parse_all);
	must(r == 0);
	for (size_t i = 0; i < count; i++)
		if (addr_covers(&granted[i], ip))
			return NULL;
	const char *rule = find_rule(ip);
	struct addr inner;
	if (rule)
		return rule;
	if (undress(ip, &inner))
		return find_rule(&inner);
	/* Outside 2000::/3 nothing is handed out as a public address. */
	return addr_is_v4(ip) || addr_covers(&public_v6, ip) ? NULL : "reserved";
}
