#include "base/id.h"

#include "base/limits.h"
#include "base/str.h"
#include "harness/test.h"

TEST(new_ids_are_valid_and_different)
{
	struct id last = {0};
	for (int i = 0; i < 1000; i++) {
		struct id id = id_new("sb");
		CHECK_INT(strlen(id.text), 23);
		CHECK(id_is_valid(id.text, "sb"));
		CHECK(str_is_name(id.text));
		CHECK(strcmp(id.text, last.text) != 0);
		/* the time comes first: ids of different milliseconds sort by creation */
		CHECK(strncmp(id.text, last.text, 12) >= 0);
		last = id;
	}
	CHECK(strlen(id_new("abcd").text) <= LIMIT_ID_LEN);
}

TEST(foreign_text_is_refused)
{
	static const char *const bad[] = {
		"",
		"sb",
		"sb_",
		"sb_0123456789abcdefgh",    /* 18 characters */
		"sb_0123456789abcdefghj",   /* 19 */
		"sb_0123456789abcdefghjkm", /* 21 */
		"ex_0123456789abcdefghjk",  /* other prefix */
		"sb_0123456789abcdefghji",  /* i, l, o, u are not in the alphabet */
		"sb_0123456789ABCDEFGHJK",
		"sb_../../../../etc/passwd",
		"sb_0123456789abcdefg/jk",
		"sb-0123456789abcdefghjk",
		" sb_0123456789abcdefghjk",
		"sb_0123456789abcdefghjk\n",
	};
	CHECK(id_is_valid("sb_0123456789abcdefghjk", "sb"));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!id_is_valid(bad[i], "sb"));
}

TEST(odd_prefixes_abort)
{
	CHECK_DEATH((void)id_new("s"), "impossible");
	CHECK_DEATH((void)id_new("sandbox"), "impossible");
}
