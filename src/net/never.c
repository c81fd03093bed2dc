#include "net/never.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/must.h"
#include "base/str.h"

enum { V4_BITS = 96 };

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

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static struct never_ip from_v4(const uint8_t *four)
{
	struct never_ip ip;
	memcpy(ip.bytes, v4_prefix, sizeof(v4_prefix));
	memcpy(ip.bytes + sizeof(v4_prefix), four, 4);
	return ip;
}

bool never_is_v4(const struct never_ip *ip)
{
	return memcmp(ip->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
}

bool never_parse_ip(const char *text, struct never_ip *ret)
{
	struct in_addr v4;
	struct in6_addr v6;
	if (inet_pton(AF_INET, text, &v4) == 1) {
		*ret = from_v4((const uint8_t *)&v4);
		return true;
	}
	if (inet_pton(AF_INET6, text, &v6) != 1)
		return false;
	memcpy(ret->bytes, &v6, sizeof(ret->bytes));
	return true;
}

/* The first `bits` bits. */
static struct never_ip masked(const struct never_ip *ip, unsigned bits)
{
	struct never_ip out = {{0}};
	for (unsigned i = 0; i < 16 && bits > 8 * i; i++) {
		unsigned left = bits - 8 * i;
		out.bytes[i] =
			left >= 8 ? ip->bytes[i] : ip->bytes[i] & (uint8_t)(0xff << (8 - left));
	}
	return out;
}

bool never_parse_cidr(const char *text, struct never_cidr *ret)
{
	char address[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	uint64_t bits;
	if (!slash || (size_t)(slash - text) >= sizeof(address) || str_to_u64(slash + 1, &bits) < 0)
		return false;
	memcpy(address, text, (size_t)(slash - text));
	address[slash - text] = '\0';
	if (!never_parse_ip(address, &ret->base))
		return false;
	bool is_v4 = !strchr(address, ':');
	if (bits > (is_v4 ? 32 : 128))
		return false;
	ret->bits = (unsigned)bits + (is_v4 ? V4_BITS : 0);
	struct never_ip clean = masked(&ret->base, ret->bits);
	return memcmp(clean.bytes, ret->base.bytes, sizeof(clean.bytes)) == 0;
}

bool never_covers(const struct never_cidr *cidr, const struct never_ip *ip)
{
	/* "::/0" is every IPv6 address; to mean IPv4 one must say so. */
	if (never_is_v4(ip) && cidr->bits < V4_BITS)
		return false;
	struct never_ip head = masked(ip, cidr->bits);
	return memcmp(head.bytes, cidr->base.bytes, sizeof(head.bytes)) == 0;
}

static bool text_covers(const char *text, const struct never_ip *ip)
{
	struct never_cidr cidr;
	bool is_valid = never_parse_cidr(text, &cidr);
	must(is_valid); /* our own table */
	return never_covers(&cidr, ip);
}

static const char *find_rule(const struct never_ip *ip)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (text_covers(rules[i].cidr, ip))
			return rules[i].rule;
	return NULL;
}

/* What the address is once undressed: a 6to4 address of 127.0.0.1 is loopback. */
static bool undress(const struct never_ip *ip, struct never_ip *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(dresses); i++) {
		if (never_is_v4(ip) || !text_covers(dresses[i].cidr, ip))
			continue;
		*ret = from_v4(ip->bytes + dresses[i].at);
		return true;
	}
	return false;
}

const char *never_reason(const struct never_ip *ip, const struct never_cidr *granted, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (never_covers(&granted[i], ip))
			return NULL;
	const char *rule = find_rule(ip);
	struct never_ip inner;
	if (rule)
		return rule;
	if (undress(ip, &inner))
		return find_rule(&inner);
	/* Outside 2000::/3 nothing is handed out as a public address. */
	return never_is_v4(ip) || text_covers("2000::/3", ip) ? NULL : "reserved";
}
