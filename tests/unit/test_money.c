/* Money is whole millionths, read and written without rounding. */
#include "harness/test.h"

#include "model/money.h"

TEST(money_is_written_as_people_do)
{
	static const struct {
		uint64_t amount;
		const char *text;
	} rows[] = {{0, "0"},           {1, "0.000001"},        {151, "0.000151"},
	            {500000, "0.5"},    {12000000, "12"},       {12340000, "12.34"},
	            {100000000, "100"}, {MONEY_MOST, "1000000"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[MONEY_TEXT];
		uint64_t back = 1;

		CHECK_STR(money_format(text, rows[i].amount), rows[i].text);
		CHECK(money_parse(rows[i].text, &back));
		CHECK_INT(back, rows[i].amount);
		CHECK(money_from_dollars(money_to_dollars(rows[i].amount), &back));
		CHECK_INT(back, rows[i].amount);
	}
}

TEST(what_is_no_money_is_refused)
{
	static const char *const bad[] = {"",    "$",        ".5",         "1.",       "1.1234567",
	                                  "-1",  "1e3",      "1000000.01", "99999999", "1 ",
	                                  "0x1", "12345678", "nan",        "$$1",      "1,5"};
	uint64_t ret = 7;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!money_parse(bad[i], &ret));
	CHECK(!money_from_dollars(-0.1, &ret) && !money_from_dollars(1e7, &ret));
	CHECK_INT(ret, 7);
	CHECK(money_parse("$0.50", &ret));
	CHECK_INT(ret, 500000);
}

TEST(no_limit_stays_no_limit)
{
	CHECK_INT(money_sub(MONEY_UNLIMITED, 5), MONEY_UNLIMITED);
	CHECK_INT(money_add(MONEY_UNLIMITED, 5), MONEY_UNLIMITED);
	CHECK_INT(money_sub(3, 5), 0);
	CHECK_INT(money_add(3, 5), 8);
}
