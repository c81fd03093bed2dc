#include "base/opt.h"

#include <sys/mman.h>

#include "base/str.h"
#include "harness/test.h"

static struct values {
	bool verbose;
	const char *name;
	uint64_t count, memory, timeout;
	struct opt_list env;
} values;

static const struct opt opts[] = {
	{"verbose", 'v', OPT_FLAG, &values.verbose, NULL, "say more"},
	{"name", 'n', OPT_STR, &values.name, "NAME", "call it NAME"},
	{"count", 0, OPT_U64, &values.count, "N", "how many"},
	{"memory", 'm', OPT_BYTES, &values.memory, "SIZE", "at most SIZE"},
	{"timeout", 't', OPT_MS, &values.timeout, "TIME", "end after TIME"},
	{"env", 'e', OPT_LIST, &values.env, "K=V", "set a variable"},
	{0},
};

enum { WORDS_MAX = 16 };

/* Splits line at blanks into argv and parses; the rest is left in argv. */
static char words[256];
static char *argv[WORDS_MAX];
static int left;

static int parse(const char *line, bool stop, struct err *err)
{
	int argc = 0;
	CHECK(str_copy(words, sizeof(words), line));
	for (char *s = words; *s && argc < WORDS_MAX;) {
		argv[argc++] = s;
		s += strcspn(s, " ");
		if (*s)
			*s++ = '\0';
	}
	opt_list_done(&values.env);
	values = (struct values){0};
	return opt_parse(opts, argc, argv, stop, &left, err);
}

static void check_refused(const char *line, const char *message)
{
	struct err err = {0};
	if (parse(line, false, &err) >= 0)
		test_fail(__FILE__, __LINE__, "'%s' was accepted", line);
	CHECK_INT(err.code, ERR_INVALID);
	CHECK_STR(err.msg, message);
	opt_list_done(&values.env);
}

TEST(all_kinds)
{
	struct err err = {0};
	CHECK_INT(parse("-v --name=x --count 7 -m 64M --timeout=2m", false, &err), 0);
	CHECK(values.verbose);
	CHECK_STR(values.name, "x");
	CHECK_INT(values.count, 7);
	CHECK_INT(values.memory, 64 << 20);
	CHECK_INT(values.timeout, 120000);
	CHECK_INT(left, 0);
}

TEST(lists_repeat)
{
	struct err err = {0};
	CHECK_INT(parse("-e A=1 --env B=2 --env=C=3", false, &err), 0);
	CHECK_INT(values.env.count, 3);
	CHECK_STR(values.env.items[0], "A=1");
	CHECK_STR(values.env.items[2], "C=3");
	opt_list_done(&values.env);
	CHECK_INT(values.env.count, 0);
}

TEST(positionals_move_to_the_front)
{
	struct err err = {0};
	CHECK_INT(parse("one -v two - --name n -- --three -v", false, &err), 0);
	CHECK_INT(left, 5);
	CHECK_STR(argv[0], "one");
	CHECK_STR(argv[1], "two");
	CHECK_STR(argv[2], "-");
	CHECK_STR(argv[3], "--three");
	CHECK_STR(argv[4], "-v");
}

TEST(a_command_keeps_its_own_options)
{
	struct err err = {0};
	CHECK_INT(parse("-v ls -l --name x", true, &err), 0);
	CHECK(values.verbose);
	CHECK_INT(left, 4);
	CHECK_STR(argv[1], "-l");
	CHECK(values.name == NULL);
	CHECK_INT(parse("-- -v", true, &err), 0);
	CHECK_INT(left, 1);
	CHECK(!values.verbose);
}

TEST(flags_may_be_written_together)
{
	struct err err = {0};
	CHECK_INT(parse("-vv -n x", false, &err), 0);
	CHECK(values.verbose);
	CHECK_STR(values.name, "x");
}

TEST(values_may_look_like_options)
{
	struct err err = {0};
	CHECK_INT(parse("--name --verbose --name=", false, &err), 0);
	CHECK_STR(values.name, "");
	CHECK(!values.verbose);
}

TEST(mistakes_are_named)
{
	check_refused("--memroy 1", "unknown option '--memroy' (did you mean '--memory'?)");
	check_refused("--memor=1", "unknown option '--memor' (did you mean '--memory'?)");
	check_refused("--zzzzzzzz", "unknown option '--zzzzzzzz'");
	check_refused("-x", "unknown option '-x'");
	check_refused("-vm", "unknown option '-vm'");
	check_refused("-vx", "unknown option '-vx'");
	check_refused("--name", "option '--name' needs NAME");
	check_refused("--verbose=1", "option '--verbose' takes no value");
	check_refused("--count x", "option '--count': 'x' is not a whole number");
	check_refused("-m 1X", "option '--memory': '1X' is not a size like 64M or 1.5G");
	check_refused("-t soon", "option '--timeout': 'soon' is not a time like 500ms, 30s or 2h");
	check_refused("-t 5", "option '--timeout': '5' is not a time like 500ms, 30s or 2h");
	check_refused("--\x1b", "unknown option '--\\x1b'");
	check_refused("--=x", "unknown option '--'");
}

TEST(help_has_two_columns)
{
	char text[1024] = "";
	FILE *to = fmemopen(text, sizeof(text), "w");
	CHECK(to != NULL);
	opt_print(opts, to);
	CHECK_INT(fclose(to), 0);
	CHECK_HAS(text, "  -v, --verbose       say more\n");
	CHECK_HAS(text, "  -m, --memory SIZE   at most SIZE\n");
	CHECK_HAS(text, "      --count N       how many\n");
	CHECK_HAS(text, "  -t, --timeout TIME  end after TIME\n");
}

TEST(nearest_words)
{
	static const char *const nouns[] = {"sandbox", "image", "profile", "events", NULL};
	CHECK_STR(opt_nearest("sandbx", nouns), "sandbox");
	CHECK_STR(opt_nearest("imgae", nouns), "image");
	CHECK_STR(opt_nearest("event", nouns), "events");
	CHECK_STR(opt_nearest("xyz", nouns), NULL);
	CHECK_STR(opt_nearest("", nouns), NULL);
	char longest[200];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CHECK_STR(opt_nearest(longest, nouns), NULL);
}
