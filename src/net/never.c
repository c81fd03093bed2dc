#include "net/never.h"

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

static bool text_covers(const char *text, const struct addr *ip)
{
	struct addr_cidr cidr;
	bool is_valid = addr_parse_cidr(text, &cidr);
	must(is_valid); /* our own table */
	return addr_covers(&cidr, ip);
}

static const char *find_rule(const struct addr *ip)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (text_covers(rules[i].cidr, ip))
			return rules[i].rule;
	return NULL;
}

/* What the address is once undressed: a 6to4 address of 127.0.0.1 is loopback. */
static bool undress(const struct addr *ip, struct addr *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(dresses); i++) {
		if (addr_is_v4(ip) || !text_covers(dresses[i].cidr, ip))
			continue;
		*ret = addr_from_v4(ip->bytes + dresses[i].at);
		return true;
	}
	return false;
}

const char *never_reason(const struct addr *ip, const struct addr_cidr *granted, size_t count)
{
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
	return addr_is_v4(ip) || text_covers("2000::/3", ip) ? NULL : "reserved";
}
