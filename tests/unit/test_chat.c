/* What cloche-agent makes of a model's answer, and how it makes room. */
#include "harness/test.h"

#include <stdlib.h>

#include "agent/chat.h"
#include "agent/tools.h"
#include "base/mem.h"

static int take(struct chat_answer *answer, const char *data, struct err *err)
{
	const char *text;
	size_t len;

	return chat_answer_take(answer, data, strlen(data), &text, &len, err);
}

TEST(an_answer_comes_in_pieces)
{
	struct chat_answer answer;
	struct err err = {0};
	json_t *message;
	auto_free char *text = NULL;

	chat_answer_init(&answer);
	CHECK_INT(take(&answer,
	               "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
	               &err),
	          0);
	CHECK_INT(take(&answer, "{\"choices\":[{\"delta\":{\"content\":\"Let \"}}]}", &err), 0);
	CHECK_INT(take(&answer, "{\"choices\":[{\"delta\":{\"content\":\"me\"}}]}", &err), 0);
	CHECK_INT(take(&answer,
	               "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\","
	               "\"function\":"
	               "{\"name\":\"run_shell\",\"arguments\":\"\"}}]}}]}",
	               &err),
	          0);
	CHECK_INT(take(&answer,
	               "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":"
	               "{\"arguments\":"
	               "\"{\\\"command\\\":\"}}]}}]}",
	               &err),
	          0);
	CHECK_INT(take(&answer,
	               "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":"
	               "{\"arguments\":"
	               "\"\\\"ls\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}",
	               &err),
	          0);
	CHECK_INT(take(&answer,
	               "{\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,"
	               "\"prompt_tokens_details\":{\"cached_tokens\":7}}}",
	               &err),
	          0);
	CHECK_INT(take(&answer, "[DONE]", &err), 0);
	CHECK(answer.is_done);
	CHECK_INT(answer.input, 100);
	CHECK_INT(answer.output, 20);
	CHECK_INT(answer.cached, 7);
	message = chat_answer_message(&answer);
	text = json_dumps(message, JSON_COMPACT);
	CHECK_STR(text,
	          "{\"role\":\"assistant\",\"content\":\"Let me\",\"tool_calls\":[{\"id\":\"c1\","
	          "\"type\":\"function\",\"function\":{\"name\":\"run_shell\",\"arguments\":"
	          "\"{\\\"command\\\":\\\"ls\\\"}\"}}]}");
	json_decref(message);
	chat_answer_done(&answer);
}

TEST(what_a_gateway_refuses_is_said)
{
	struct chat_answer answer;
	struct err err = {0};

	chat_answer_init(&answer);
	CHECK_INT(take(&answer, "{\"error\":{\"message\":\"the budget is spent\"}}", &err), -1);
	CHECK_HAS(err.msg, "the budget is spent");
	CHECK_INT(take(&answer, "nonsense", &err), -1);
	CHECK_INT(
		take(&answer, "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":9}]}}]}", &err),
		-1);
	chat_answer_done(&answer);
}

static void add(json_t *messages, const char *role, const char *text, size_t copies)
{
	auto_free char *content = mem_zalloc(strlen(text) * copies + 1);

	for (size_t i = 0; i < copies; i++)
		memcpy(content + i * strlen(text), text, strlen(text));
	json_array_append_new(messages, json_pack("{s:s, s:s}", "role", role, "content", content));
}

TEST(room_is_made_where_it_hurts_least)
{
	json_t *messages = json_array();

	add(messages, "system", "rules", 1);
	for (int i = 0; i < 10; i++) {
		add(messages, "user", "question", 1);
		add(messages, "tool", "output ", 1000);
		add(messages, "assistant", "answer", 1);
	}
	CHECK_INT(chat_compact(messages, 1000 * 1000), 0);
	CHECK(chat_compact(messages, 10000) > 0);
	CHECK(chat_estimate(messages) <= 10000);
	CHECK_INT(json_array_size(messages), 31); /* outputs went, nothing else */
	CHECK(chat_compact(messages, 2500) > 0);
	CHECK(chat_estimate(messages) <= 2600);
	CHECK_STR(json_string_value(json_object_get(json_array_get(messages, 0), "role")),
	          "system");
	CHECK_HAS(json_string_value(json_object_get(json_array_get(messages, 1), "content")),
	          "left out");
	CHECK_STR(json_string_value(json_object_get(
			  json_array_get(messages, json_array_size(messages) - 1), "content")),
	          "answer");
	json_decref(messages);
}

static bool never(void *ctx)
{
	return false;
}

static char *use(const char *dir, const char *tool, const char *arguments, int wanted)
{
	struct tools_call call = {.cwd = dir, .is_cancelled = never, .watch_fd = -1};
	json_t *object = json_loads(arguments, 0, NULL);
	struct buf answer;
	char *text;

	CHECK(object && tools_find(tool));
	buf_init(&answer, TOOLS_ANSWER_MOST);
	CHECK_INT(tools_find(tool)->run(&call, object, &answer), wanted);
	text = buf_take_string(&answer);
	buf_done(&answer);
	json_decref(object);
	return text;
}

#define CHECK_USE(dir, tool, arguments, wanted, part)                                              \
	do {                                                                                       \
		auto_free char *got_ = use(dir, tool, arguments, wanted);                          \
		CHECK_HAS(got_, part);                                                             \
	} while (0)

TEST(tools_do_what_they_say)
{
	char dir[] = "/tmp/cloche-tools-XXXXXX";
	auto_free char *clean = NULL;

	CHECK(mkdtemp(dir));
	CHECK_USE(dir, "write_file", "{\"path\":\"a/b.txt\",\"content\":\"one\\ntwo\\nthree\\n\"}",
	          0, "14 bytes");
	CHECK_USE(dir, "read_file", "{\"path\":\"a/b.txt\",\"offset\":2,\"limit\":1}", 0, "2  two");
	CHECK_USE(dir, "edit_file", "{\"path\":\"a/b.txt\",\"old\":\"two\",\"new\":\"2\"}", 0,
	          "replaced 1");
	CHECK_USE(dir, "edit_file", "{\"path\":\"a/b.txt\",\"old\":\"e\",\"new\":\"E\"}", -1,
	          "'old' is 3 times");
	CHECK_USE(dir, "edit_file",
	          "{\"path\":\"a/b.txt\",\"old\":\"e\",\"new\":\"E\",\"all\":true}", 0,
	          "replaced 3");
	CHECK_USE(dir, "search_files", "{\"text\":\"thr\",\"ignoreCase\":true}", 0,
	          "a/b.txt:3:thrEE");
	CHECK_USE(dir, "search_files", "{\"text\":\"nowhere\"}", 0, "no match");
	CHECK_USE(dir, "run_shell", "{\"command\":\"cat a/b.txt; echo err >&2\"}", 0,
	          "onE\n2\nthrEE\nerr");
	CHECK_USE(dir, "run_shell", "{\"command\":\"exit 3\"}", -1, "exit status 3");
	CHECK_USE(dir, "run_shell", "{\"command\":\"true\"}", 0, "(no output)");
	CHECK_USE(dir, "run_shell", "{\"command\":\"sleep 60\",\"timeoutSeconds\":1}", -1,
	          "took too long");
	CHECK_USE(dir, "run_shell", "{\"command\":\"seq 1 20000\"}", 0, "bytes left out");
	CHECK_USE(dir, "read_file", "{\"path\":\"nothing\"}", -1, "No such file");
	CHECK_USE(dir, "read_file", "{}", -1, "'path' is missing");
	CHECK_USE(dir, "read_file", "{\"path\":\".\"}", -1, "directory");
	clean = use(dir, "run_shell", "{\"command\":\"rm -r a\"}", 0);
	CHECK_USE("/", "run_shell", "{\"command\":\"rmdir /tmp/cloche-tools-*\"}", 0, "");
}
