#include "base/addr.h"
#include "base/base.h"
#include "harness/test.h"

TEST(addresses_print_as_they_are_written)
{
	static const char *const texts[] = {"10.0.0.1", "::1", "2001:db8::1", "255.255.255.255",
	                                    "::"};
	struct addr addr;
	char out[ADDR_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CHECK(addr_parse(texts[i], &addr));
		addr_format(out, sizeof(out), &addr);
		CHECK_STR(out, texts[i]);
	}
	CHECK(addr_parse("::ffff:10.0.0.1", &addr));
	addr_format(out, sizeof(out), &addr);
	CHECK_STR(out, "10.0.0.1");
}

TEST(ranges_print_as_they_are_written)
{
	static const char *const texts[] = {"10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32",
	                                    "192.168.1.1/32"};
	struct addr_cidr cidr;
	char out[ADDR_CIDR_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CHECK(addr_parse_cidr(texts[i], &cidr));
		addr_format_cidr(out, sizeof(out), &cidr);
		CHECK_STR(out, texts[i]);
	}
}

TEST(a_range_from_bytes_must_be_exact)
{
	struct addr_cidr cidr;

	CHECK(addr_parse_cidr("10.1.0.0/16", &cidr));
	CHECK(addr_cidr_is_exact(&cidr));
	cidr.bits = 104;
	CHECK(!addr_cidr_is_exact(&cidr));
	cidr.bits = 129;
	CHECK(!addr_cidr_is_exact(&cidr));
}
