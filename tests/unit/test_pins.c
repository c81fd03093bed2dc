#include "net/pins.h"

#include <stdio.h>

#include "harness/test.h"

static struct addr parse(const char *text)
{
	struct addr addr;
	CHECK(addr_parse(text, &addr));
	return addr;
}

TEST(a_pin_holds_for_its_time)
{
	struct pins pins = {0};
	struct addr one = parse("93.184.216.34"), other = parse("2606:2800::1");
	pins_add(&pins, "a.test", &one, 100, 0);
	CHECK(pins_has(&pins, "a.test", &one, 99));
	CHECK(!pins_has(&pins, "a.test", &one, 100));
	CHECK(!pins_has(&pins, "b.test", &one, 0));
	CHECK(!pins_has(&pins, "a.test", &other, 0));
	pins_add(&pins, "a.test", &one, 200, 50);
	pins_add(&pins, "a.test", &one, 150, 60); /* never shorter */
	CHECK_INT(pins.count, 1);
	CHECK(pins_has(&pins, "a.test", &one, 199));
	pins_done(&pins);
}

TEST(names_and_addresses_are_listed)
{
	struct pins pins = {0};
	struct addr one = parse("93.184.216.34"), other = parse("2606:2800::1");
	size_t at = 0;
	pins_add(&pins, "a.test", &one, 100, 0);
	pins_add(&pins, "b.test", &one, 10, 0);
	pins_add(&pins, "a.test", &other, 100, 0);
	CHECK_STR(pins_next_name(&pins, &one, 50, &at), "a.test");
	CHECK_STR(pins_next_name(&pins, &one, 50, &at), NULL);
	at = 0;
	CHECK_MEM(pins_next_addr(&pins, "a.test", 50, &at), &one, sizeof(one));
	CHECK_MEM(pins_next_addr(&pins, "a.test", 50, &at), &other, sizeof(other));
	CHECK(pins_next_addr(&pins, "a.test", 50, &at) == NULL);
	pins_done(&pins);
}

TEST(the_soonest_to_end_goes_first)
{
	struct pins pins = {0};
	for (unsigned i = 0; i < PINS_MOST + 10; i++) {
		struct addr addr =
			addr_from_v4((const uint8_t[]){93, 184, (uint8_t)(i >> 8), (uint8_t)i});
		pins_add(&pins, "a.test", &addr, 1000 + i, 0);
	}
	struct addr first = parse("93.184.0.0"), last = parse("93.184.16.9");
	CHECK_INT(pins.count, PINS_MOST);
	CHECK(!pins_has(&pins, "a.test", &first, 0));
	CHECK(pins_has(&pins, "a.test", &last, 0));
	pins_done(&pins);
}
