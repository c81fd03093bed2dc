#include "base/toml.h"

#include <math.h>

#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"

static struct toml *parse(const char *text)
{
	struct toml *root = NULL;
	struct err err = {0};
	if (toml_parse("t", text, strlen(text), &root, &err) < 0)
		test_fail(__FILE__, __LINE__, "refused: %s", err.msg);
	return root;
}

static void check_refused(const char *text, const char *message)
{
	struct toml *root = NULL;
	struct err err = {0};
	if (toml_parse("t", text, strlen(text), &root, &err) == 0)
		test_fail(__FILE__, __LINE__, "accepted: %s", text);
	CHECK_INT(err.code, ERR_CONFIG);
	CHECK_STR(err.msg, message);
	CHECK(root == NULL);
}

/* The value of the key v. */
static const struct toml *value_of(const struct toml *root)
{
	const struct toml *value = toml_get(root, "v");
	CHECK(value != NULL);
	return value;
}

static void check_string(const char *text, const char *wanted)
{
	auto_(toml_freep) struct toml *root = parse(text);
	CHECK_INT(value_of(root)->kind, TOML_STRING);
	CHECK_STR(value_of(root)->str, wanted);
	CHECK_INT(value_of(root)->str_len, strlen(wanted));
}

static void check_integer(const char *text, int64_t wanted)
{
	auto_(toml_freep) struct toml *root = parse(text);
	CHECK_INT(value_of(root)->kind, TOML_INT);
	CHECK_INT(value_of(root)->num, wanted);
}

static void check_float(const char *text, double wanted)
{
	auto_(toml_freep) struct toml *root = parse(text);
	CHECK_INT(value_of(root)->kind, TOML_FLOAT);
	CHECK(value_of(root)->real == wanted);
}

static void check_date(const char *date)
{
	auto_free char *text = mem_printf("v = %s # comment\n", date);
	auto_(toml_freep) struct toml *root = parse(text);
	CHECK_INT(value_of(root)->kind, TOML_DATETIME);
	CHECK_STR(value_of(root)->str, date);
}

TEST(an_ordinary_config)
{
	auto_(toml_freep) struct toml *root = parse("# top\n"
	                                            "[daemon]\n"
	                                            "user = \"cloche\"\r\n"
	                                            "\n"
	                                            "[sandboxes.default]\n"
	                                            "memory = '2G'\n"
	                                            "cpu = 2.5\n"
	                                            "pool = 3 # warm\n"
	                                            "degraded = false\n"
	                                            "env = { A = \"1\", B.C = \"2\" }\n"
	                                            "list = [ 1, 2, # two\n"
	                                            "  3, ]\n");
	const struct toml *profile = toml_get(toml_get(root, "sandboxes"), "default");
	CHECK_INT(profile->line, 5);
	CHECK_STR(toml_get(profile, "memory")->str, "2G");
	CHECK_INT(toml_get(profile, "pool")->num, 3);
	CHECK_INT(toml_get(profile, "pool")->line, 8);
	CHECK_INT(toml_get(profile, "degraded")->num, 0);
	CHECK_STR(toml_get(toml_get(toml_get(profile, "env"), "B"), "C")->str, "2");
	const struct toml *list = toml_get(profile, "list");
	CHECK_INT(list->kind, TOML_ARRAY);
	CHECK_INT(list->child->next->next->num, 3);
	CHECK_INT(list->child->next->next->line, 12);
	CHECK(list->child->next->next->next == NULL);
	CHECK(toml_get(root, "none") == NULL);
	CHECK(toml_get(list, "none") == NULL);
	CHECK_STR(toml_kind_name(TOML_INT), "an integer");
}

TEST(empty_texts)
{
	static const char *const texts[] = {"", "\n", "  # only a comment", "\xef\xbb\xbf\n\r\n"};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_(toml_freep) struct toml *root = parse(texts[i]);
		CHECK(root->child == NULL);
	}
}

TEST(strings)
{
	check_string("v = \"\"", "");
	check_string("v = \"a\\tb\\n\\\"\\\\ \\u00e4 \\U0001F514\"", "a\tb\n\"\\ ä 🔔");
	check_string("v = 'C:\\raw\\n'", "C:\\raw\\n");
	check_string("v = \"\"\"\nfirst\nsecond\"\"\"", "first\nsecond");
	check_string("v = \"\"\"a \\\n\n   b\"\"\"", "a b");
	check_string("v = \"\"\"a \\  \r\n\t b\"\"\"", "a b");
	check_string("v = \"\"\"\"quoted\"\"\"\"\"", "\"quoted\"\"");
	check_string("v = '''\nit's ''two'' \\'''", "it's ''two'' \\");
	check_string("v = \"\"\"a\"\"b\"\"\"", "a\"\"b");
}

TEST(a_nul_in_a_string_is_kept)
{
	auto_(toml_freep) struct toml *root = parse("v = \"a\\u0000b\"");
	CHECK_INT(value_of(root)->str_len, 3);
	CHECK_MEM(value_of(root)->str, "a\0b", 4);
}

TEST(bad_strings)
{
	check_refused("v = \"a", "t:1: string has no closing quote");
	check_refused("v = \"a\nb\"", "t:1: string has no closing quote");
	check_refused("v = 'a", "t:1: string has no closing quote");
	check_refused("\nv = \"\"\"a\n\n", "t:2: string has no closing quotes");
	check_refused("v = \"\\q\"", "t:1: unknown escape in a string");
	check_refused("v = \"\\u12\"", "t:1: a \\u escape needs 4 hex digits");
	check_refused("v = \"\\ud800\"", "t:1: escape is not a Unicode character");
	check_refused("v = \"\\U00110000\"", "t:1: escape is not a Unicode character");
	check_refused("v = \"a\x01\"", "t:1: control character in a string");
	check_refused("v = '''a\x7f'''", "t:1: control character in a string");
	check_refused("v = \"\"\"a\"\"\"\"\"\"", "t:1: too many quotes at the end of a string");
	check_refused("a = 1\nv = \"\xff\"", "t:2: not valid UTF-8");
	check_refused("# \x01", "t:1: control character in a comment");
}

TEST(integers)
{
	check_integer("v = 0", 0);
	check_integer("v = +99", 99);
	check_integer("v = -0", 0);
	check_integer("v = 1_000", 1000);
	check_integer("v = 0xdead_BEEF", 0xdeadbeef);
	check_integer("v = 0o755", 0755);
	check_integer("v = 0b1101", 13);
	check_integer("v = 9223372036854775807", INT64_MAX);
	check_integer("v = -9223372036854775808", INT64_MIN);
}

TEST(floats)
{
	check_float("v = 1.5", 1.5);
	check_float("v = -0.01", -0.01);
	check_float("v = 5e+22", 5e22);
	check_float("v = 6.626e-34", 6.626e-34);
	check_float("v = 1e1_0", 1e10);
	check_float("v = 0e0", 0);
	check_float("v = -inf", -INFINITY);
	auto_(toml_freep) struct toml *root = parse("v = nan");
	CHECK(isnan(value_of(root)->real));
}

TEST(bad_numbers)
{
	static const char *const bad[] = {
		"01",  "1__0", "_1", "1_",  "0x",   "0xg",   "+0x1",  "0b2", "1.",
		".5",  "1.e1", "1e", "1e+", "1._5", "1_.5",  "0_1",   "--1", "+-1",
		"inF", "True", "1a", "-",   "0o8",  "1e1.5", "hello", "2G",  "9223372036854775808",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *text = mem_printf("v = %s", bad[i]);
		auto_free char *message =
			mem_printf("t:1: '%s' is not a value (strings need quotes)", bad[i]);
		check_refused(text, message);
	}
	check_refused("v =", "t:1: a value is missing");
	check_refused("v = # x", "t:1: a value is missing");
}

TEST(dates)
{
	check_date("1979-05-27T07:32:00Z");
	check_date("1979-05-27 07:32:00.999999-07:00");
	check_date("1979-05-27t00:32:00z");
	check_date("1979-05-27T07:32:00");
	check_date("1979-05-27");
	check_date("07:32:00.5");
	check_date("2000-02-29");
}

TEST(bad_dates)
{
	static const char *const bad[] = {
		"1979-13-01",
		"1979-02-30",
		"1900-02-29",
		"1979-1-1",
		"24:00:00",
		"07:60:00",
		"07:32",
		"07:32:00.",
		"1979-05-27T",
		"1979-05-27T07:32:00+1",
		"1979-05-27T07:32:00Zx",
		"1979-05-27T07:32:00+24:00",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *text = mem_printf("v = %s", bad[i]);
		auto_free char *message =
			mem_printf("t:1: '%s' is not a value (strings need quotes)", bad[i]);
		check_refused(text, message);
	}
}

TEST(keys)
{
	auto_(toml_freep) struct toml *root =
		parse("bare-key_1 = 1\n\"quoted key\" = 2\n'' = 3\na . \"b.c\" . d = 4\n1.2 = 5\n");
	CHECK_INT(toml_get(root, "bare-key_1")->num, 1);
	CHECK_INT(toml_get(root, "quoted key")->num, 2);
	CHECK_INT(toml_get(root, "")->num, 3);
	CHECK_INT(toml_get(toml_get(toml_get(root, "a"), "b.c"), "d")->num, 4);
	CHECK_INT(toml_get(toml_get(root, "1"), "2")->num, 5);
}

TEST(bad_keys)
{
	check_refused("= 1", "t:1: a key is missing");
	check_refused("a. = 1", "t:1: a key is missing");
	check_refused(".a = 1", "t:1: a key is missing");
	check_refused("a b = 1", "t:1: expected '=' after a key");
	check_refused("\"\"\"a\"\"\" = 1", "t:1: a key cannot be a multi-line string");
	check_refused("\"a\\u0000\" = 1", "t:1: key with a NUL in it");
	check_refused("a = 1 b = 2", "t:1: unexpected text before the end of the line");
	check_refused("ä = 1", "t:1: a key is missing");
	check_refused("a = 1\r", "t:1: unexpected text before the end of the line");
}

TEST(nothing_is_defined_twice)
{
	check_refused("a = 1\n\na = 2", "t:3: 'a' is defined twice");
	check_refused("[a]\n[b]\n[a]", "t:3: 'a' is defined twice");
	check_refused("a = 1\n[a]", "t:2: 'a' is defined twice");
	check_refused("[a]\nb = 1\n[a.b]", "t:3: 'a.b' is defined twice");
	check_refused("[a]\nb = 1\n[a.b.c]",
	              "t:3: 'a.b' was defined before and cannot be added to");
	check_refused("a.b = 1\na.b.c = 2", "t:2: 'a.b' was defined before and cannot be added to");
	check_refused("[f]\na.c = 1\n[f.a]", "t:3: 'f.a' is defined twice");
	check_refused("[a.b]\n[a]\nb.c = 1", "t:3: 'b' was defined before and cannot be added to");
	check_refused("v = {a = 1, a = 2}", "t:1: 'a' is defined twice");
	check_refused("v = {a = 1}\n[v.b]", "t:2: 'v' was defined before and cannot be added to");
	check_refused("v = {a = 1}\nv.b = 2", "t:2: 'v' was defined before and cannot be added to");
	check_refused("v = []\n[[v]]", "t:2: 'v' is not a list of tables");
	check_refused("[[v]]\n[v]", "t:2: 'v' is defined twice");
	check_refused("[v]\n[[v]]", "t:2: 'v' is not a list of tables");
}

TEST(headers_may_come_in_any_order)
{
	auto_(toml_freep) struct toml *root = parse("[a.b.c]\nx = 1\n[a]\ny = 2\n[a.b]\nz = 3\n");
	const struct toml *a = toml_get(root, "a");
	CHECK_INT(a->line, 3);
	CHECK_INT(toml_get(a, "y")->num, 2);
	CHECK_INT(toml_get(toml_get(a, "b"), "z")->num, 3);
	CHECK_INT(toml_get(toml_get(toml_get(a, "b"), "c"), "x")->num, 1);
}

TEST(lists_of_tables)
{
	auto_(toml_freep) struct toml *root = parse(
		"[[v]]\nn = 1\n[v.sub]\nm = 1\n[[v]]\nn = 2\n[[v.list]]\n[[v.list]]\nk = 5\n");
	const struct toml *first = value_of(root)->child;
	CHECK_INT(toml_get(first, "n")->num, 1);
	CHECK_INT(toml_get(toml_get(first, "sub"), "m")->num, 1);
	CHECK_INT(toml_get(first->next, "n")->num, 2);
	CHECK_INT(toml_get(toml_get(first->next, "list")->child->next, "k")->num, 5);
	CHECK(first->next->next == NULL);
}

TEST(bad_structure)
{
	check_refused("[a", "t:1: expected ']' after a table's name");
	check_refused("[[a]", "t:1: expected ']]' after a table's name");
	check_refused("[]", "t:1: a key is missing");
	check_refused("[a] b = 1", "t:1: unexpected text before the end of the line");
	check_refused("v = [1 2]", "t:1: expected ',' or ']' in a list");
	check_refused("v = [1,\n\n", "t:3: a value is missing");
	check_refused("v = [,]", "t:1: a value is missing");
	check_refused("v = {a = 1,}", "t:1: a key is missing");
	check_refused("v = {a = 1\n}", "t:1: expected ',' or '}' in an inline table");
	check_refused("v = {a = 1 b = 2}", "t:1: expected ',' or '}' in an inline table");
}

TEST(depth_is_bounded)
{
	char text[400];
	memset(text, '[', sizeof(text));
	memcpy(text, "v = ", 4);
	text[sizeof(text) - 1] = '\0';
	check_refused(text, "t:1: nested deeper than 32 levels");
	for (size_t i = 0; i + 1 < sizeof(text); i += 2)
		memcpy(text + i, "a.", 2);
	text[sizeof(text) - 2] = '\0';
	check_refused(text, "t:1: key has more than 32 parts");
	auto_free char *deep =
		mem_strdup("v = {a={a={a={a={a={a={a={a={a={a={a={a={a={a={a={a={a={a="
	                   "{a={a={a={a={a={a={a={a={a={a={a={a={a={a={a={a=1");
	check_refused(deep, "t:1: nested deeper than 32 levels");
}

TEST(width_is_bounded)
{
	auto_free char *text = mem_zalloc(5000 * 16);
	size_t used = 0;
	for (int i = 0; i < 5000; i++)
		used += (size_t)snprintf(text + used, 16, "k%d = 1\n", i);
	check_refused(text, "t:4097: more than 4096 keys in one table");
}

TEST_WITHIN(every_cut_and_changed_byte_is_survived, 120)
{
	static const char text[] = "a.b = \"x\\u00e4\"\n[t.\"q\"]\nv = [1, {c = 0x1F}, '''z''']\n"
				   "d = 1979-05-27 07:32:00Z\n[[l]]\nf = 1.5e3\n";
	char copy[sizeof(text)];
	for (size_t i = 0; i < sizeof(text); i++) {
		struct toml *root = NULL;
		(void)!toml_parse("t", text, i, &root, NULL);
		toml_freep(&root);
		for (int byte = 0; byte < 256; byte += 1) {
			memcpy(copy, text, sizeof(text));
			copy[i] = (char)byte;
			(void)!toml_parse("t", copy, sizeof(copy) - 1, &root, NULL);
			toml_freep(&root);
		}
	}
}
