#include "base/str.h"

#include <errno.h>

#include "base/mem.h"
#include "harness/test.h"

#define CHECK_BYTES(text, wanted)                                                                  \
	do {                                                                                       \
		uint64_t value_ = 0;                                                               \
		CHECK_INT(str_to_bytes(text, &value_), 0);                                         \
		CHECK_INT(value_, wanted);                                                         \
	} while (0)

#define CHECK_MS(text, wanted)                                                                     \
	do {                                                                                       \
		uint64_t value_ = 0;                                                               \
		CHECK_INT(str_to_ms(text, &value_), 0);                                            \
		CHECK_INT(value_, wanted);                                                         \
	} while (0)

TEST(prefix_and_suffix)
{
	CHECK(str_has_prefix("abc", "ab"));
	CHECK(str_has_prefix("abc", ""));
	CHECK(!str_has_prefix("a", "ab"));
	CHECK(str_has_suffix("abc", "bc"));
	CHECK(str_has_suffix("abc", ""));
	CHECK(!str_has_suffix("c", "bc"));
}

TEST(copy_fits_or_leaves_nothing)
{
	char to[4] = "xyz";
	CHECK(str_copy(to, sizeof(to), "abc"));
	CHECK_STR(to, "abc");
	CHECK(!str_copy(to, sizeof(to), "abcd"));
	CHECK_STR(to, "");
	CHECK(!str_copy(to, 0, ""));
}

TEST(numbers)
{
	uint64_t value = 7;
	CHECK_INT(str_to_u64("0", &value), 0);
	CHECK_INT(value, 0);
	CHECK_INT(str_to_u64("18446744073709551615", &value), 0);
	CHECK_INT(value, UINT64_MAX);
	value = 7;
	CHECK_INT(str_to_u64("18446744073709551616", &value), -ERANGE);
	static const char *const bad[] = {"", " 1", "1 ", "-1", "+1", "0x1", "1.0", "a", "1a"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(str_to_u64(bad[i], &value), -EINVAL);
	CHECK_INT(value, 7);
}

TEST(sizes)
{
	CHECK_BYTES("0", 0);
	CHECK_BYTES("1024", 1024);
	CHECK_BYTES("12B", 12);
	CHECK_BYTES("64M", 64u << 20);
	CHECK_BYTES("64MB", 64u << 20);
	CHECK_BYTES("10KiB", 10240);
	CHECK_BYTES("10k", 10240);
	CHECK_BYTES("1.5G", UINT64_C(3) << 29);
	CHECK_BYTES("0.5K", 512);
	CHECK_BYTES("15E", UINT64_C(15) << 60);
	CHECK_BYTES("max", UINT64_MAX);
	uint64_t value = 7;
	CHECK_INT(str_to_bytes("16E", &value), -ERANGE);
	CHECK_INT(str_to_bytes("99999999999999999999", &value), -ERANGE);
	static const char *const bad[] = {
		"",    "M",    "-1", "1.M", ".5G",           "1.5", "1.5B", "1Mi", "1i",
		"1 M", "1MBB", "1m", "MAX", "1.0000000001G", "1Kx", "0x1",  "1BK"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(str_to_bytes(bad[i], &value), -EINVAL);
	CHECK_INT(value, 7);
}

TEST(durations)
{
	CHECK_MS("500ms", 500);
	CHECK_MS("30s", 30000);
	CHECK_MS("90", 90000);
	CHECK_MS("1.5", 1500);
	CHECK_MS("10m", 600000);
	CHECK_MS("2h", 7200000);
	CHECK_MS("0.5h", 1800000);
	CHECK_MS("7d", UINT64_C(604800000));
	uint64_t value = 7;
	CHECK_INT(str_to_ms("18446744073709551615s", &value), -ERANGE);
	static const char *const bad[] = {"",     "s",     "-1s", "1 s", "1S",
	                                  "1min", "1h30m", "max", "1.s"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(str_to_ms(bad[i], &value), -EINVAL);
	CHECK_INT(value, 7);
}

static const char *escaped(const char *s, size_t len)
{
	static char out[256];
	str_escape(out, sizeof(out), s, len);
	return out;
}

TEST(escape_leaves_text_alone)
{
	CHECK_STR(escaped("plain text: ä € 🔔", strlen("plain text: ä € 🔔")), "plain text: ä € 🔔");
	CHECK_STR(escaped("", 0), "");
}

TEST(disarm_leaves_quotes_alone)
{
	char out[64];

	str_disarm(out, sizeof(out), "no \"x\" in 'a\\b'\n\x1b", 17);
	CHECK_STR(out, "no \"x\" in 'a\\b'\\n\\x1b");
}

TEST(escape_disarms_terminals)
{
	CHECK_STR(escaped("a\x1b[31m", 6), "a\\x1b[31m");
	CHECK_STR(escaped("\n\t\r\"\\", 5), "\\n\\t\\r\\\"\\\\");
	CHECK_STR(escaped("\0\x7f", 2), "\\x00\\x7f");
	CHECK_STR(escaped("\xc2\x9b", 2), "\\xc2\\x9b");
	CHECK_STR(escaped("\xe2\x80\xae", 3), "\\xe2\\x80\\xae");
}

TEST(escape_shows_invalid_utf8)
{
	CHECK_STR(escaped("\xff", 1), "\\xff");
	CHECK_STR(escaped("\xc3", 1), "\\xc3");
	CHECK_STR(escaped("\xc0\x80", 2), "\\xc0\\x80");
	CHECK_STR(escaped("\xed\xa0\x80", 3), "\\xed\\xa0\\x80");
	CHECK_STR(escaped("\xf4\x90\x80\x80", 4), "\\xf4\\x90\\x80\\x80");
	CHECK_STR(escaped("\xe2\x82z", 3), "\\xe2\\x82z");
}

TEST(escape_cuts_whole_characters)
{
	char out[8];
	str_escape(out, sizeof(out), "abcdefg", 7);
	CHECK_STR(out, "abcdefg");
	str_escape(out, sizeof(out), "abcdefgh", 8);
	CHECK_STR(out, "abcd…");
	str_escape(out, sizeof(out), "abc\x01z", 5);
	CHECK_STR(out, "abc…");
	str_escape(out, 2, "abc", 3);
	CHECK_STR(out, "");
	str_escape(out, 1, "abc", 3);
	CHECK_STR(out, "");
	str_escape(out, 0, "abc", 3);
}

TEST(escape_never_overruns)
{
	uint8_t in[64];
	uint32_t seed = 1;
	for (int round = 0; round < 2000; round++) {
		for (size_t i = 0; i < sizeof(in); i++) {
			seed = seed * 1664525u + 1013904223u;
			in[i] = (uint8_t)(seed >> 24);
		}
		size_t size = 1 + (seed >> 8) % 80;
		char *out = malloc(size);
		str_escape(out, size, in, sizeof(in));
		CHECK(strlen(out) < size);
		CHECK(str_is_utf8(out, strlen(out)));
		free(out);
	}
}

TEST(utf8)
{
	CHECK(str_is_utf8("", 0));
	CHECK(str_is_plain("a \"\\ \xc3\xa9", 7));
	CHECK(!str_is_plain("\xc2\x9b", 2));
	CHECK(!str_is_plain("\xe2\x80\xae", 3));
	CHECK(!str_is_plain("\x80", 1));
	CHECK(str_is_utf8("a\0b", 3));
	CHECK(str_is_utf8("\xef\xbf\xbf\xf4\x8f\xbf\xbf", 7));
	CHECK(!str_is_utf8("\xf8\x88\x80\x80\x80", 5));
	CHECK(!str_is_utf8("\x80", 1));
	CHECK(!str_is_utf8("\xe0\x80\x80", 3));
	CHECK(!str_is_utf8("\xf0\x80\x80\x80", 4));
}

TEST(sizes_for_people)
{
	static const struct {
		uint64_t bytes;
		const char *wanted;
	} rows[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1 KiB"},
		{1536, "1.5 KiB"},
		{1024 * 1024 - 1, "1 MiB"},
		{UINT64_C(3) << 29, "1.5 GiB"},
		{UINT64_MAX - 1, "16 EiB"},
		{UINT64_MAX, "max"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char out[32];
		str_format_bytes(out, sizeof(out), rows[i].bytes);
		CHECK_STR(out, rows[i].wanted);
	}
}

TEST(durations_for_people)
{
	static const struct {
		uint64_t ms;
		const char *wanted;
	} rows[] = {
		{0, "0ms"},     {999, "999ms"},    {1000, "1s"},       {1550, "1.5s"},
		{59999, "59s"}, {123000, "2m 3s"}, {3600000, "1h 0m"}, {90061000, "1d 1h"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char out[32];
		str_format_ms(out, sizeof(out), rows[i].ms);
		CHECK_STR(out, rows[i].wanted);
	}
}

TEST(names)
{
	CHECK(str_is_name("a"));
	CHECK(str_is_name("debian-12.1_x"));
	CHECK(str_is_name("0"));
	static const char *const bad[] = {"", ".", "..", "-a", "_a", "A", "a/b", "a b", "ä", "a\n"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!str_is_name(bad[i]));
	char name[65];
	memset(name, 'a', 64);
	name[64] = '\0';
	CHECK(!str_is_name(name));
	name[63] = '\0';
	CHECK(str_is_name(name));
}

TEST(copies_end_where_the_text_does)
{
	static const char text[] = "abc";
	auto_free char *shorter = mem_strndup(text, 2);
	auto_free char *longer = mem_strndup(text, 512);
	CHECK_STR(shorter, "ab");
	CHECK_STR(longer, "abc");
}
