#include "base/base.h"
#include "harness/test.h"
#include "net/never.h"

static const char *reason(const char *text, const char *grant)
{
	struct addr ip;
	struct addr_cidr cidr;
	CHECK(addr_parse(text, &ip));
	if (grant)
		CHECK(addr_parse_cidr(grant, &cidr));
	return never_reason(&ip, &cidr, grant ? 1 : 0);
}

TEST(public_addresses_may_be_dialled)
{
	static const char *const texts[] = {
		"1.1.1.1",           "8.8.8.8",          "93.184.216.34",   "172.15.255.255",
		"172.32.0.0",        "100.63.255.255",   "100.128.0.0",     "169.253.0.1",
		"192.167.1.1",       "223.255.255.255",  "2606:4700::1111", "2a00:1450::1",
		"2002:0808:0808::1", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		CHECK_STR(reason(texts[i], NULL), NULL);
}

TEST(special_addresses_never)
{
	static const struct {
		const char *text;
		const char *rule;
	} cases[] = {
		{"127.0.0.1", "loopback"},
		{"127.255.255.254", "loopback"},
		{"0.0.0.0", "unspecified"},
		{"0.1.2.3", "unspecified"},
		{"10.0.0.1", "private"},
		{"172.16.0.1", "private"},
		{"172.31.255.255", "private"},
		{"192.168.1.1", "private"},
		{"100.64.0.1", "shared"},
		{"100.127.255.255", "shared"},
		{"169.254.1.1", "link-local"},
		{"169.254.169.254", "metadata"},
		{"168.63.129.16", "metadata"},
		{"100.100.100.200", "metadata"},
		{"224.0.0.1", "multicast"},
		{"239.255.255.250", "multicast"},
		{"255.255.255.255", "reserved"},
		{"240.0.0.1", "reserved"},
		{"198.18.0.1", "benchmark"},
		{"192.0.2.1", "documentation"},
		{"::", "unspecified"},
		{"::1", "loopback"},
		{"fe80::1", "link-local"},
		{"fd00::1", "private"},
		{"fc00::1", "private"},
		{"fd00:ec2::254", "metadata"},
		{"ff02::1", "multicast"},
		{"fec0::1", "private"},
		{"2001:db8::1", "documentation"},
		{"2001::1", "reserved"},
		{"100::1", "reserved"},
		{"4000::1", "reserved"},
		{"64:ff9b:1::1", "reserved"},
		{"5f00::1", "reserved"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(reason(cases[i].text, NULL), cases[i].rule);
}

TEST(a_dress_does_not_help)
{
	static const struct {
		const char *text;
		const char *rule;
	} cases[] = {
		{"::ffff:127.0.0.1", "loopback"},       {"::ffff:10.1.2.3", "private"},
		{"::ffff:169.254.169.254", "metadata"}, {"::127.0.0.1", "loopback"},
		{"2002:7f00:0001::", "loopback"},       {"2002:0a01:0203::1", "private"},
		{"2002:a9fe:a9fe::", "metadata"},       {"64:ff9b::127.0.0.1", "loopback"},
		{"64:ff9b::192.168.0.1", "private"},    {"::ffff:0:127.0.0.1", "loopback"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(reason(cases[i].text, NULL), cases[i].rule);
}

TEST(a_grant_opens_exactly_what_it_names)
{
	CHECK_STR(reason("10.1.2.3", "10.1.0.0/16"), NULL);
	CHECK_STR(reason("10.2.2.3", "10.1.0.0/16"), "private");
	CHECK_STR(reason("::ffff:10.1.2.3", "10.1.0.0/16"), NULL);
	CHECK_STR(reason("127.0.0.1", "127.0.0.1/32"), NULL);
	CHECK_STR(reason("127.0.0.2", "127.0.0.1/32"), "loopback");
	CHECK_STR(reason("fd12::1", "fd12::/16"), NULL);
	/* Another form of a granted address is another address. */
	CHECK_STR(reason("2002:0a01:0203::1", "10.0.0.0/8"), "private");
	CHECK_STR(reason("10.0.0.1", "::/0"), "private");
	CHECK_STR(reason("10.0.0.1", "0.0.0.0/0"), NULL);
}

TEST(only_numbers_are_addresses)
{
	static const char *const bad[] = {
		"",      "localhost", "1.2.3",    "1.2.3.4.5",  "0x7f.1", "1.2.3.256", "fe80::1%lo",
		"[::1]", " 1.1.1.1",  "1.1.1.1 ", "2130706433", "127.1",  "0177.0.0.1"};
	struct addr ip;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!addr_parse(bad[i], &ip));
}

TEST(a_cidr_is_exact)
{
	static const char *const bad[] = {"10.0.0.0",    "10.0.0.1/8", "10.0.0.0/33",
	                                  "10.0.0.0/-1", "/8",         "10.0.0.0/",
	                                  "::/129",      "fd00::1/16", "10.0.0.0/8/8"};
	struct addr_cidr cidr;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!addr_parse_cidr(bad[i], &cidr));
	CHECK(addr_parse_cidr("0.0.0.0/0", &cidr));
	CHECK_INT(cidr.bits, 96);
	CHECK(addr_parse_cidr("::/0", &cidr));
	CHECK_INT(cidr.bits, 0);
}
