#include <errno.h>

#include "harness/test.h"
#include "model/pattern.h"

static bool matches(const char *text, const char *subject)
{
	struct pattern *pattern = NULL;
	struct err err = {0};
	uint64_t steps = 1000000;
	bool is_match = false;

	if (pattern_compile(text, strlen(text), &pattern, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, err.msg);
	CHECK_INT(pattern_search(pattern, subject, strlen(subject), &steps, &is_match), 0);
	pattern_free(pattern);
	return is_match;
}

static void check_refused(const char *text, const char *why)
{
	struct pattern *pattern = NULL;
	struct err err = {0};

	CHECK_INT(pattern_compile(text, strlen(text), &pattern, &err), -1);
	CHECK_HAS(err.msg, why);
}

TEST(what_ecma_patterns_mean)
{
	static const struct {
		const char *pattern, *subject;
		bool is_match;
	} rows[] = {
		{"", "", true},
		{"b", "abc", true},
		{"^b", "abc", false},
		{"^a*$", "aaa", true},
		{"^a*$", "aab", false},
		{"^(ab|cd)+$", "abcdab", true},
		{"^(?:ab|cd)+?$", "abc", false},
		{"^a{2}$", "aa", true},
		{"^a{2}$", "aaa", false},
		{"^a{2,}$", "aaaa", true},
		{"^a{2,3}$", "aaaa", false},
		{"^a{0}$", "", true},
		{"^{a}$", "{a}", true},
		{"^[a-c]+$", "abcabc", true},
		{"^[^a-c]+$", "xyz", true},
		{"^[^a-c]+$", "xbz", false},
		{"^[-a]+$", "-a", true},
		{"^[a-]+$", "-a", true},
		{"[]", "a", false},
		{"^[^]$", "\n", true},
		{"^.$", "\n", false},
		{"^.$", "é", true},
		{"^.$", "\xf0\x9f\x90\xb2", true},
		{"^\\d+$", "0129", true},
		{"^\\d+$", "\xd9\xa1", false}, /* digits of ASCII only */
		{"^\\w+$", "a_Z9", true},
		{"^\\W$", "é", true},
		{"^\\s$", "\xc2\xa0", true},
		{"^[\\D]$", "a", true},
		{"^\\x41\\u0042\\u{43}$", "ABC", true},
		{"^\\ud83d\\udc32$", "\xf0\x9f\x90\xb2", true},
		{"^\\cA$", "\x01", true},
		{"^\\/\\-\\.$", "/-.", true},
		{"\\bfoo\\b", "a foo b", true},
		{"\\bfoo\\b", "afoo b", false},
		{"o\\B", "on", true},
		{"^abc$", "abc\n", false},
		{"^\\p{L}+$", "école", true},
		{"^\\p{Letter}cole$", "école", true},
		{"^\\p{Lu}", "école", false},
		{"^\\P{Lu}", "école", true},
		{"^\\p{gc=Nd}+$", "\xd9\xa1", true},
		{"^[\\p{Lu}\\d]+$", "É1", true},
		{"^(?=.*\\d)(?=.*[a-z]).{4,}$", "abc1", true},
		{"^(?=.*\\d)(?=.*[a-z]).{4,}$", "abcd", false},
		{"^(?!foo)", "foobar", false},
		{"^(?!foo)", "barfoo", true},
		{"(?<=a)b", "ab", true},
		{"(?<=a)b", "cb", false},
		{"(?<!a)b", "cb", true},
		{"(?<year>\\d{4})-", "2024-", true},
		{"(a*)*b", "aaaaaaaac", false},
		{"((a?)+|b*)*c", "aabbc", true},
		{"a||b", "", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (matches(rows[i].pattern, rows[i].subject) != rows[i].is_match)
			test_fail(__FILE__, __LINE__, "'%s' on '%s'", rows[i].pattern,
			          rows[i].subject);
	}
}

TEST(what_is_not_done_is_refused_by_name)
{
	check_refused("(a)\\1", "back references");
	check_refused("(?<n>a)\\k<n>", "references to groups");
	check_refused("\\p{Script=Greek}", "general category");
	check_refused("\\a", "unknown escape");
	check_refused("(", "without its )");
	check_refused("a)", "without its group");
	check_refused("[a", "without its ]");
	check_refused("*", "nothing to repeat");
	check_refused("a**", "nothing to repeat");
	check_refused("[b-a]", "ends before it begins");
	check_refused("a{3,2}", "below its least");
	check_refused("(?i)a", "ECMA-262 does not have");
	check_refused("\\", "backslash");
	check_refused("\\u12", "hexadecimal");
	check_refused("((((a{99}){99}){99}){99}", "without its )");
	check_refused("(((a{99}){99}){99}){99}", "too large");
	check_refused("a{99999999999}", "too many repetitions");
}

TEST(no_pattern_backtracks)
{
	static const char *const patterns[] = {
		"^(a+)+$", "^(a|aa)+$", "^(a|a?)+$", "(.*a){12}", "^(([a-z])+.)+[A-Z]([a-z])+$",
		"(x+x+)+y"};
	char text[2001];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 2] = '!';
	text[sizeof(text) - 1] = '\0';
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		(void)matches(patterns[i], text); /* within its million of steps */
	CHECK(matches("((){1000}){1000}", text));
}

TEST(work_has_an_end)
{
	struct pattern *pattern = NULL;
	struct err err = {0};
	char text[4096];
	uint64_t steps = 100000;
	bool is_match;

	memset(text, 'a', sizeof(text));
	CHECK_INT(pattern_compile("(?=(?=.*x).*x)", 14, &pattern, &err), 0);
	CHECK_INT(pattern_search(pattern, text, sizeof(text), &steps, &is_match), -E2BIG);
	CHECK_INT(steps, 0);
	pattern_free(pattern);
}
