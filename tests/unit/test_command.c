#include "model/command.h"

#include <stdio.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"
#include "model/jsonschema.h"

#define HEAD                                                                                       \
	"noun = \"contacts\"\nverb = \"list\"\ndescription = \"d\"\nscope = \"contacts:read\"\n"
#define QUERY "[arguments.properties.query]\ntype = \"string\"\n"

static struct command *parse(const char *text, struct err *err)
{
	struct command *command = NULL;
	*err = (struct err){0};
	if (command_parse("x.toml", text, strlen(text), &command, err) < 0)
		return NULL;
	CHECK_INT(command_compile(command, err), 0);
	return command;
}

static void check_refused(const char *text, const char *why)
{
	struct err err;
	auto_(command_unrefp) struct command *command = parse(text, &err);
	CHECK(!command);
	CHECK_INT(err.code, ERR_CONFIG);
	CHECK_HAS(err.msg, why);
	CHECK_HAS(err.msg, "x.toml:");
}

TEST(a_manifest_of_a_call)
{
	struct err err;
	auto_(command_unrefp) struct command *command = parse(
		HEAD
		"approval = \"ask\"\ntimeout = \"5s\"\nconcurrency = 2\noutput = \"2K\"\n" QUERY
		"[http]\nurl = \"https://Example.org/v1/contacts\"\n"
		"query = [\"q={query}\"]\nheaders = [\"Authorization: Bearer {secret}\"]\n"
		"secret = \"env:CLOCHE_TOKEN\"\n",
		&err);
	CHECK(command);
	CHECK_STR(command->tool, "contacts_list");
	CHECK(command->asks);
	CHECK_INT(command->timeout_ms, 5000);
	CHECK_INT(command->at_once, 2);
	CHECK_INT(command->service->response_bytes, 2048);
	CHECK_STR(command->service->upstream, "https://example.org");
	CHECK_STR(command->target, "/v1/contacts");
	CHECK_STR(command->method, "GET");
	CHECK_STR(command->schema_text, "{\"type\":\"object\",\"additionalProperties\":false,"
	                                "\"properties\":{\"query\":{\"type\":\"string\"}}}");
}

TEST(what_is_wrong_has_a_line)
{
	check_refused("noun = 1\n", "x.toml:1:");
	check_refused("nuon = \"a\"\n", "did you mean 'noun'?");
	check_refused("noun = \"../a\"\n", "'noun' must be");
	check_refused("noun = \"a_b\"\n", "'noun' must be");
	check_refused("noun = \"contacts\"\n", "'verb' is missing");
	check_refused(HEAD, "either [http] or [exec]");
	check_refused(HEAD "[http]\n[exec]\nargv = [\"/bin/true\"]\n", "either [http] or [exec]");
	check_refused(HEAD "[http]\nmethod = \"TRACE\"\n", "x.toml:6:");
	check_refused(HEAD "[http]\nurl = \"ftp://example.org\"\n", "x.toml:5:");
	check_refused(HEAD "[http]\nurl = \"http://example.org/?x=1\"\n", "'query'");
	check_refused(HEAD QUERY "[http]\nurl = \"http://{query}/\"\n", "cannot be an argument");
	check_refused(HEAD "[http]\nurl = \"http://example.org/{x}\"\n", "{x} is no argument");
	check_refused(HEAD "[http]\nurl = \"http://example.org/\"\nsecret = \"sealed\"\n",
	              "secret");
	check_refused(HEAD
	              "[http]\nurl = \"http://example.org/\"\nmethod = \"GET\"\nbody = \"json\"\n",
	              "no body");
	check_refused(HEAD "[exec]\nargv = []\n", "absolute path");
	check_refused(HEAD "[exec]\nargv = [\"sh\"]\n", "absolute path");
	check_refused(HEAD QUERY "[exec]\nargv = [\"/bin/{query}\"]\n", "absolute path");
	check_refused(HEAD "[exec]\nargv = [\"/bin/echo\", \"{secret}\"]\n", "{secret}");
	check_refused(HEAD "[exec]\nargv = [\"/bin/true\"]\nuser = \"root\"\n", "cannot be root");
	check_refused(HEAD "output = \"1G\"\n[exec]\nargv = [\"/bin/true\"]\n", "at most 64K");
	check_refused(HEAD "timeout = \"1h\"\n[exec]\nargv = [\"/bin/true\"]\n", "at most 10m");
	check_refused(HEAD "approval = \"maybe\"\n", "'approval' can be \"ask\"");
	check_refused(HEAD "[arguments]\ntype = \"array\"\n[exec]\nargv = [\"/bin/true\"]\n",
	              "must be \"object\"");
	check_refused(HEAD
	              "[arguments.properties.a]\nconst = 2020-01-01\n[exec]\nargv = [\"/a\"]\n",
	              "a date is not JSON");
	check_refused("noun = \"sandbox\"\nverb = \"x\"\ndescription = \"d\"\nscope = \"a:read\"\n"
	              "[exec]\nargv = [\"/bin/true\"]\n",
	              "cloche's own");
	check_refused("noun = \"a\"\nverb = \"x\"\ndescription = \"d\"\nscope = \"a:all\"\n"
	              "[exec]\nargv = [\"/bin/true\"]\n",
	              "'scope' is");
}

TEST(every_first_word_of_the_command_line_is_taken)
{
	static const char *const words[] = {
#define COMMAND(words, function, passes_status, args, about, example) words,
#include "cli/commands.def"
#undef COMMAND
#define ALIAS(words, means) words,
#include "cli/commands.def"
#undef ALIAS
	};
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		auto_free char *first = mem_strndup(words[i], strcspn(words[i], " "));
		if (!command_is_taken(first))
			test_fail(__FILE__, __LINE__, "add NOUN(\"%s\") to command_nouns.def",
			          first);
	}
	CHECK(!command_is_taken("contacts"));
}

static char *words_of(const char *argv, const char *const *values, size_t count, struct err *err)
{
	auto_free char *text = mem_printf(
		HEAD "[arguments.properties]\na = {}\nb = {}\n[exec]\nargv = [\"/p\", %s]\n", argv);
	auto_(command_unrefp) struct command *command = parse(text, err);
	struct strings given = {0}, result = {0};
	char *joined = NULL;
	CHECK(command);
	for (size_t i = 0; i < count; i++)
		strings_add(&given, values[i]);
	if (command_argv(command, &given, &result, err) == 0)
		joined = strings_join(&result);
	strings_done(&given);
	strings_done(&result);
	return joined;
}

#define WORDS(argv, err, ...)                                                                      \
	words_of(argv, (const char *const[]){__VA_ARGS__},                                         \
	         sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), err)

TEST(words_of_a_program)
{
	struct err err;
	auto_free char *one = WORDS("\"{a}\", \"--b={b}\", \"x{a}y\"", &err, "a=1", "b=2");
	CHECK_STR(one, "/p 1 --b=2 x1y");
	auto_free char *absent = WORDS("\"{a}\", \"--b={b}\", \"z\"", &err, "c=1");
	CHECK_STR(absent, "/p z");
	auto_free char *several = WORDS("\"--\", \"{a}\"", &err, "a=-rf", "a=--x", "a=");
	CHECK_STR(several, "/p -- -rf --x ");
	/* A value brings no slots of its own. */
	auto_free char *nested = WORDS("\"{a}\", \"[{b}]\"", &err, "a={b}", "b={a}");
	CHECK_STR(nested, "/p {b} [{a}]");
	CHECK(!WORDS("\"{a}\"", &err, "a=-rf"));
	CHECK_INT(err.code, ERR_INVALID);
	CHECK(!WORDS("\"{a}b\"", &err, "a=--x"));
	CHECK(!WORDS("\"{a}\", \"--\"", &err, "a=-x"));
	CHECK(!WORDS("\"--b={b}\"", &err, "b=1", "b=2"));
	CHECK_HAS(err.msg, "one value");
}

static char *target_of(const char *value, struct err *err)
{
	auto_(command_unrefp) struct command *command = parse(
		HEAD "[arguments.properties]\na = {}\nb = {}\n[http]\n"
		     "url = \"http://example.org/v1/{a}/x\"\nquery = [\"fixed=1\", \"b={b}\"]\n",
		err);
	struct strings given = {0};
	char *target = NULL;
	CHECK(command);
	strings_take(&given, mem_printf("a=%s", value));
	if (str_eq(value, "both"))
		strings_add(&given, "b=& =?#/%");
	(void)!command_target(command, &given, &target, err);
	strings_done(&given);
	return target;
}

TEST(values_stay_one_segment)
{
	struct err err;
	auto_free char *plain = target_of("A-z_9.~", &err);
	CHECK_STR(plain, "/v1/A-z_9.~/x?fixed=1");
	auto_free char *both = target_of("both", &err);
	CHECK_STR(both, "/v1/both/x?fixed=1&b=%26%20%3D%3F%23%2F%25");
	auto_free char *slash = target_of("a/../b", &err);
	CHECK_STR(slash, "/v1/a%2F..%2Fb/x?fixed=1");
	auto_free char *line = target_of("a\r\nHost: x", &err);
	CHECK_STR(line, "/v1/a%0D%0AHost%3A%20x/x?fixed=1");
	CHECK(!target_of("..", &err));
	CHECK(!target_of(".", &err));
	CHECK(!target_of("", &err));
	CHECK_INT(err.code, ERR_INVALID);
}

TEST(names_of_manifests)
{
	CHECK(command_is_file("contacts-list.toml"));
	CHECK(!command_is_file("../x.toml"));
	CHECK(!command_is_file(".x.toml"));
	CHECK(!command_is_file("a/b.toml"));
	CHECK(!command_is_file("x.tom"));
	CHECK(!command_is_file(".toml"));
	CHECK(command_is_noun("a-b2"));
	CHECK(!command_is_noun("-a"));
	CHECK(!command_is_noun("a-"));
	CHECK(!command_is_noun("A"));
	CHECK(!command_is_noun(".."));
	CHECK(!command_is_noun(""));
	CHECK(!command_is_noun("a_b"));
	CHECK(command_is_verb("a_b"));
	CHECK(!command_is_verb("_a"));
}
