/*
 * The blob, all numbers little-endian:
 *
 *	"CLP" version(1)
 *	level(1) mode(1) flags(1): NAMES_ANY, PORTS_ANY, UDP
 *	egress_bytes(8) egress_rate(8) dns_rate(4) dns_burst(4) dns_new_names(4) dns_label_bytes(4)
 *	ports: count(2), port(2)*                               ascending
 *	rules: count(2), {flags(1) source(1) port(2) len(1) name}*      as policy_order_rule has
 *them cidrs: count(2), {flags(1) source(1) port(2) bits(1) base(16)}* as policy_order_cidr has them
 *
 * The reader remembers the first failure and then reads zeros, so it has one place to look.
 */
#include "model/policy.h"

#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "model/policy_order.h"

enum { VERSION = 1, NAMES_ANY = 1, PORTS_ANY = 2, UDP = 4, RULE_WILDCARD = 1, RULE_DENY = 2 };

static const char MAGIC[3] = {'C', 'L', 'P'};

static int put(struct buf *out, uint64_t value, size_t bytes)
{
	uint8_t little[8];

	for (size_t i = 0; i < bytes; i++)
		little[i] = (uint8_t)(value >> (8 * i));
	return buf_put(out, little, bytes);
}

static int put_head(const struct policy *policy, struct buf *out)
{
	unsigned flags = (policy->names_any ? NAMES_ANY : 0U) |
	                 (policy->ports_any ? PORTS_ANY : 0U) | (policy->udp ? UDP : 0U);
	int r = buf_put(out, MAGIC, sizeof(MAGIC));

	r |= put(out, VERSION, 1) | put(out, policy->level, 1) | put(out, policy->mode, 1);
	r |= put(out, flags, 1) | put(out, policy->egress_bytes, 8);
	r |= put(out, policy->egress_rate, 8) | put(out, policy->dns_rate, 4);
	r |= put(out, policy->dns_burst, 4) | put(out, policy->dns_new_names, 4);
	r |= put(out, policy->dns_label_bytes, 4) | put(out, policy->port_count, 2);
	for (size_t i = 0; i < policy->port_count; i++)
		r |= put(out, policy->ports[i], 2);
	return r;
}

static int put_rule(const struct policy_rule *rule, struct buf *out)
{
	unsigned flags =
		(rule->is_wildcard ? RULE_WILDCARD : 0U) | (rule->is_deny ? RULE_DENY : 0U);
	size_t len = strlen(rule->name);
	int r = put(out, flags, 1) | put(out, rule->source, 1) | put(out, rule->port, 2) |
	        put(out, len, 1);

	return r | buf_put(out, rule->name, len);
}

static int put_cidr(const struct policy_cidr *cidr, struct buf *out)
{
	int r = put(out, cidr->is_deny ? RULE_DENY : 0U, 1) | put(out, cidr->source, 1);

	return r | put(out, cidr->port, 2) | put(out, cidr->cidr.bits, 1) |
	       buf_put(out, cidr->cidr.base.bytes, sizeof(cidr->cidr.base.bytes));
}

int policy_write(const struct policy *policy, struct buf *out, struct err *err)
{
	size_t before = buf_len(out);
	int r = put_head(policy, out) | put(out, policy->rule_count, 2);

	for (size_t i = 0; i < policy->rule_count; i++)
		r |= put_rule(&policy->rules[i], out);
	r |= put(out, policy->cidr_count, 2);
	for (size_t i = 0; i < policy->cidr_count; i++)
		r |= put_cidr(&policy->cidrs[i], out);
	if (r != 0 || buf_len(out) - before > POLICY_BLOB_MAX)
		return err_set(err, ERR_TOO_LARGE, "the policy has more than %d bytes",
		               POLICY_BLOB_MAX);
	return 0;
}

void policy_fingerprint(const struct policy *policy, char ret[SHA256_TEXT])
{
	struct buf blob;

	buf_init(&blob, POLICY_BLOB_MAX);
	/* Both ways to come by a policy, compile and parse, checked its size. */
	must(policy_write(policy, &blob, NULL) == 0);
	sha256_hex(ret, buf_head(&blob), buf_len(&blob));
	buf_done(&blob);
}

struct reader {
	const uint8_t *at;
	size_t left;
	bool failed;
};

static const uint8_t *take(struct reader *in, size_t len)
{
	static const uint8_t zeros[256] = {0};
	const uint8_t *at = in->at;

	must(len <= sizeof(zeros));
	if (in->failed || in->left < len) {
		in->failed = true;
		return zeros;
	}
	in->at += len;
	in->left -= len;
	return at;
}

static uint64_t get(struct reader *in, size_t bytes)
{
	const uint8_t *at = take(in, bytes);
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

/* A number below `most`. */
static unsigned get_below(struct reader *in, size_t bytes, unsigned most)
{
	uint64_t value = get(in, bytes);

	if (value < most)
		return (unsigned)value;
	in->failed = true;
	return 0;
}

static void get_ports(struct reader *in, struct policy *policy)
{
	size_t count = get_below(in, 2, ENVIRONMENT_PORTS + 1);

	for (size_t i = 0; i < count; i++) {
		policy->ports[i] = (uint16_t)get(in, 2);
		if (policy->ports[i] == 0 || (i > 0 && policy->ports[i] <= policy->ports[i - 1]))
			in->failed = true;
	}
	policy->port_count = count;
	if (policy->ports_any && count > 0)
		in->failed = true;
}

static void get_head(struct reader *in, struct policy *policy)
{
	unsigned flags;

	if (memcmp(take(in, sizeof(MAGIC)), MAGIC, sizeof(MAGIC)) != 0 || get(in, 1) != VERSION)
		in->failed = true;
	policy->level = get_below(in, 1, ENVIRONMENT_LEVEL_COUNT_);
	policy->mode = get_below(in, 1, ENVIRONMENT_MODE_COUNT_);
	flags = get_below(in, 1, 2 * UDP);
	policy->names_any = (flags & NAMES_ANY) != 0;
	policy->ports_any = (flags & PORTS_ANY) != 0;
	policy->udp = (flags & UDP) != 0;
	policy->egress_bytes = get(in, 8);
	policy->egress_rate = get(in, 8);
	policy->dns_rate = (uint32_t)get(in, 4);
	policy->dns_burst = (uint32_t)get(in, 4);
	policy->dns_new_names = (uint32_t)get(in, 4);
	policy->dns_label_bytes = (uint32_t)get(in, 4);
	get_ports(in, policy);
}

static void get_rules(struct reader *in, struct policy *policy)
{
	size_t count = get_below(in, 2, POLICY_RULES + 1);

	policy->rules = count > 0 ? mem_zalloc(count * sizeof(*policy->rules)) : NULL;
	for (size_t i = 0; i < count && !in->failed; i++) {
		struct policy_rule *rule = &policy->rules[i];
		unsigned flags = get_below(in, 1, 2 * RULE_DENY);
		size_t len;

		rule->is_wildcard = (flags & RULE_WILDCARD) != 0;
		rule->is_deny = (flags & RULE_DENY) != 0;
		rule->source = get_below(in, 1, POLICY_SOURCE_COUNT_);
		rule->port = (uint16_t)get(in, 2);
		len = get_below(in, 1, DOMAIN_TEXT);
		rule->name = mem_strndup((const char *)take(in, len), len);
		policy->rule_count++;
		if (strlen(rule->name) != len || !domain_is_normal(rule->name) ||
		    (i > 0 && policy_order_rule(rule - 1, rule) >= 0))
			in->failed = true;
	}
}

static void get_cidrs(struct reader *in, struct policy *policy)
{
	size_t count = get_below(in, 2, POLICY_CIDRS + 1);

	policy->cidrs = count > 0 ? mem_zalloc(count * sizeof(*policy->cidrs)) : NULL;
	for (size_t i = 0; i < count && !in->failed; i++) {
		struct policy_cidr *cidr = &policy->cidrs[i];
		unsigned flags = get_below(in, 1, 2 * RULE_DENY);

		cidr->is_deny = (flags & RULE_DENY) != 0;
		cidr->source = get_below(in, 1, POLICY_SOURCE_COUNT_);
		cidr->port = (uint16_t)get(in, 2);
		cidr->cidr.bits = get_below(in, 1, 129);
		memcpy(cidr->cidr.base.bytes, take(in, sizeof(cidr->cidr.base.bytes)),
		       sizeof(cidr->cidr.base.bytes));
		policy->cidr_count++;
		if ((flags & RULE_WILDCARD) != 0 || !addr_cidr_is_exact(&cidr->cidr) ||
		    (i > 0 && policy_order_cidr(cidr - 1, cidr) >= 0))
			in->failed = true;
	}
}

/* The level is what people see: it must not say less than the rules do. */
static bool is_consistent(const struct policy *policy)
{
	bool is_full = policy->level == ENVIRONMENT_FULL;

	if (policy->udp != is_full || (is_full && (!policy->names_any || !policy->ports_any)))
		return false;
	if (policy->level == ENVIRONMENT_NONE)
		return !policy->names_any && !policy->ports_any && policy->port_count == 0 &&
		       policy->rule_count == 0 && policy->cidr_count == 0 &&
		       policy->mode == ENVIRONMENT_ENFORCE;
	return policy->level != ENVIRONMENT_TRUSTED || !policy->names_any;
}

int policy_parse(const void *blob, size_t len, struct policy *ret, struct err *err)
{
	struct reader in = {.at = blob, .left = len, .failed = len > POLICY_BLOB_MAX};
	struct policy made;

	policy_init(&made);
	get_head(&in, &made);
	if (!in.failed)
		get_rules(&in, &made);
	if (!in.failed)
		get_cidrs(&in, &made);
	if (in.failed || in.left > 0 || !is_consistent(&made)) {
		policy_done(&made);
		return err_set(err, ERR_PROTOCOL, "the network policy is malformed");
	}
	*ret = made;
	return 0;
}
