/*
 * IP addresses and prefixes as values. One form for both families, so that nothing is compared
 * twice: IPv4 is ::ffff:a.b.c.d. Pure functions.
 */
#pragma once

#include "base/base.h"

struct addr {
	uint8_t bytes[16];
};

struct addr_cidr {
	struct addr base;
	unsigned bits; /* of 128; an IPv4 prefix of n is 96 + n */
};

enum { ADDR_V4_BITS = 96, ADDR_TEXT = 46, ADDR_CIDR_TEXT = 50 };

/* Numbers only ("10.0.0.1", "fe80::1"), no zone, no name. */
bool addr_parse(const char *text, struct addr *ret) NODISCARD;
/* "10.0.0.0/8", "2001:db8::/32"; a prefix with bits set behind it is refused. */
bool addr_parse_cidr(const char *text, struct addr_cidr *ret) NODISCARD;
struct addr addr_from_v4(const uint8_t *four);
bool addr_is_v4(const struct addr *addr);
/* "::/0" is every IPv6 address; to mean IPv4 one must say so. */
bool addr_covers(const struct addr_cidr *cidr, const struct addr *addr);
/* No bit set behind the prefix, and a prefix there can be. For prefixes that came as bytes. */
bool addr_cidr_is_exact(const struct addr_cidr *cidr);
/* IPv4 as "10.0.0.1", IPv6 in its short form; out has room for ADDR_TEXT bytes. */
void addr_format(char *out, size_t size, const struct addr *addr);
/* out has room for ADDR_CIDR_TEXT bytes. */
void addr_format_cidr(char *out, size_t size, const struct addr_cidr *cidr);
