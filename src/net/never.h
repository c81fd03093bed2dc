/*
 * Addresses nobody inside may reach whatever the policy says: the machine itself, its neighbours,
 * the cloud's metadata services, and everything that is no ordinary public address; also when one
 * is dressed up as another (IPv4 in IPv6, 6to4, NAT64). Only a CIDR that was granted by name opens
 * one. Pure functions; used by the dialer, which is the last to look before a connection is made.
 */
#pragma once

#include "base/base.h"

/* Always 16 bytes; IPv4 is ::ffff:a.b.c.d, so there is one form of each address. */
struct never_ip {
	uint8_t bytes[16];
};

struct never_cidr {
	struct never_ip base;
	unsigned bits; /* of 128; an IPv4 prefix of n is 96 + n */
};

/* Numbers only ("10.0.0.1", "fe80::1"), no zone, no name. */
bool never_parse_ip(const char *text, struct never_ip *ret) NODISCARD;
/* "10.0.0.0/8", "2001:db8::/32"; a prefix with bits set behind it is refused. */
bool never_parse_cidr(const char *text, struct never_cidr *ret) NODISCARD;
bool never_is_v4(const struct never_ip *ip);
bool never_covers(const struct never_cidr *cidr, const struct never_ip *ip);
/* NULL: may be dialled. Otherwise the name of the rule: "loopback", "metadata", "private", … */
const char *never_reason(const struct never_ip *ip, const struct never_cidr *granted, size_t count);
