/* The Agent Client Protocol: whatever an agent says leads to a turn, an end with a reason, or
 * nothing at all. */
#include "harness/test.h"

#include <errno.h>
#include <stdio.h>

#include "acp/client.h"
#include "acp/transcript.h"
#include "base/mem.h"
#include "base/str.h"

struct seen {
	char sent[8192];
	char told[8192]; /* one word an event */
	struct acp_client client;
};

static void add(char *to, size_t size, const char *text)
{
	size_t used = strlen(to);

	(void)snprintf(to + used, size - used, "%s", text);
}

static void on_send(struct acp_client *client, char *line, void *ctx)
{
	struct seen *seen = ctx;

	add(seen->sent, sizeof(seen->sent), line);
	free(line);
}

static void on_update(struct acp_client *client, const char *kind, const json_t *update,
                      bool is_replay, void *ctx)
{
	struct seen *seen = ctx;

	add(seen->told, sizeof(seen->told), is_replay ? "replay:" : "update:");
	add(seen->told, sizeof(seen->told), kind);
	add(seen->told, sizeof(seen->told), " ");
}

static void on_ask(struct acp_client *client, const struct acp_message *message, void *ctx)
{
	struct seen *seen = ctx;

	add(seen->told, sizeof(seen->told), "ask:");
	add(seen->told, sizeof(seen->told), message->method);
	add(seen->told, sizeof(seen->told), " ");
	acp_client_answer(client, message->id, acp_outcome(acp_choose(message->params, true)), 0,
	                  NULL);
}

static void on_ready(struct acp_client *client, void *ctx)
{
	struct seen *seen = ctx;

	add(seen->told, sizeof(seen->told), "ready ");
}

static void on_stopped(struct acp_client *client, const struct acp_stop *stop, void *ctx)
{
	struct seen *seen = ctx;

	add(seen->told, sizeof(seen->told), "stop:");
	add(seen->told, sizeof(seen->told), stop->reason ? stop->reason : stop->err->msg);
	add(seen->told, sizeof(seen->told), " ");
}

static void on_broken(struct acp_client *client, const struct err *why, void *ctx)
{
	struct seen *seen = ctx;

	add(seen->told, sizeof(seen->told), "broken:");
	add(seen->told, sizeof(seen->told), why->msg);
}

static void start(struct seen *seen)
{
	static const struct acp_client_ops ops = {on_send,  on_update,  on_ask,
	                                          on_ready, on_stopped, on_broken};

	seen->client.ops = &ops;
	seen->client.ctx = seen;
	seen->client.cwd = "/w";
	acp_client_start(&seen->client);
}

static void hear(struct seen *seen, const char *line)
{
	seen->sent[0] = '\0';
	acp_client_line(&seen->client, line, strlen(line));
}

#define INITIALIZED                                                                                \
	"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":1,\"agentInfo\":{\"name\":" \
	"\"x\",\"version\":\"1\"},\"agentCapabilities\":{\"loadSession\":true}}}"
#define OPENED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"sessionId\":\"s-1\"}}"

TEST(a_turn_from_its_beginning_to_its_end)
{
	struct seen seen = {0};

	start(&seen);
	CHECK_HAS(seen.sent, "\"method\":\"initialize\"");
	CHECK_HAS(seen.sent, "\"protocolVersion\":1");
	CHECK_HAS(seen.sent, "\"readTextFile\":false");
	CHECK_HAS(seen.sent, "\"terminal\":false");
	hear(&seen, INITIALIZED);
	CHECK_HAS(seen.sent, "\"method\":\"session/new\"");
	CHECK_HAS(seen.sent, "\"cwd\":\"/w\"");
	CHECK_HAS(seen.sent, "\"mcpServers\":[]");
	hear(&seen, OPENED);
	CHECK_STR(seen.told, "ready ");
	acp_client_prompt(&seen.client, json_pack("[{s:s, s:s}]", "type", "text", "text", "go"));
	CHECK_HAS(seen.sent, "\"sessionId\":\"s-1\"");
	CHECK_HAS(seen.sent, "\"text\":\"go\"");
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":"
	            "\"s-1\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{"
	            "\"type\":\"text\",\"text\":\"hi\"}}}}");
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}");
	CHECK_STR(seen.told, "ready update:agent_message_chunk stop:end_turn ");
	/* the same answer again is nobody's */
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"refusal\"}}");
	CHECK_STR(seen.told, "ready update:agent_message_chunk stop:end_turn ");
}

TEST(what_it_calls_itself_stays_text_when_cut)
{
	static const char *const versions[] = {"1.2.3", "12345678901\u00e9", "1234567890\U0001f36d",
	                                       "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"};

	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct seen seen = {0};
		auto_free char *line = mem_printf(
			"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":1,"
			"\"agentInfo\":{\"name\":\"%s%s%s%s%s%s\",\"version\":\"%s\"}}}",
			versions[3], versions[3], versions[3], versions[3], versions[3],
			versions[3], versions[i]);

		start(&seen);
		hear(&seen, line);
		CHECK(str_is_utf8(seen.client.agent, strlen(seen.client.agent)));
		CHECK(i > 0 || str_has_suffix(seen.client.agent, " 1.2.3"));
	}
}

TEST(a_session_is_loaded_or_made_anew)
{
	struct seen seen = {0};

	(void)!str_copy(seen.client.session, sizeof(seen.client.session), "old");
	start(&seen);
	hear(&seen, INITIALIZED);
	CHECK_HAS(seen.sent, "\"method\":\"session/load\"");
	CHECK_HAS(seen.sent, "\"sessionId\":\"old\"");
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"update\":{"
	            "\"sessionUpdate\":\"user_message_chunk\"}}}");
	CHECK_STR(seen.told, "replay:user_message_chunk ");
	hear(&seen,
	     "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32002,\"message\":\"gone\"}}");
	CHECK_HAS(seen.sent, "\"method\":\"session/new\"");
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"sessionId\":\"new\"}}");
	CHECK_STR(seen.client.session, "new");
	CHECK_STR(seen.told, "replay:user_message_chunk ready ");
}

TEST(a_mode_is_set_where_it_is_offered)
{
	struct seen seen = {0};

	seen.client.mode = "full-access";
	start(&seen);
	hear(&seen, INITIALIZED);
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"sessionId\":\"s\",\"modes\":{"
	            "\"availableModes\":[{\"id\":\"read-only\"},{\"id\":\"full-access\"}]}}}");
	CHECK_HAS(seen.sent, "\"modeId\":\"full-access\"");
	CHECK_STR(seen.told, "");
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
	CHECK_STR(seen.told, "ready ");
}

TEST(permissions_are_chosen_by_their_kind)
{
	struct seen seen = {0};

	start(&seen);
	hear(&seen, INITIALIZED);
	hear(&seen, OPENED);
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"session/request_permission\","
	            "\"params\":{\"options\":[{\"optionId\":\"b\",\"kind\":\"allow_always\"},"
	            "{\"optionId\":\"a\",\"kind\":\"allow_once\"}]}}");
	CHECK_HAS(seen.sent, "\"id\":0");
	CHECK_HAS(seen.sent, "\"optionId\":\"a\"");
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"session/request_permission\","
	            "\"params\":{\"options\":[]}}");
	CHECK_HAS(seen.sent, "\"id\":\"x\"");
	CHECK_HAS(seen.sent, "\"outcome\":\"cancelled\"");
}

static void check_broken(const char *line, const char *why)
{
	struct seen seen = {0};

	start(&seen);
	hear(&seen, INITIALIZED);
	hear(&seen, OPENED);
	acp_client_prompt(&seen.client, json_array());
	hear(&seen, line);
	CHECK_HAS(seen.told, why);
}

TEST(what_is_no_message_ends_it_with_a_reason)
{
	check_broken("nonsense", "broken:the agent sent a message that is not JSON");
	check_broken("[]", "is not an object");
	check_broken("{}", "neither a question nor an answer");
	check_broken("{\"id\":{},\"method\":\"x\"}", "no usable id");
	check_broken("{\"id\":1,\"method\":7}", "no usable method");
	check_broken("{\"id\":1,\"method\":\"x\",\"params\":[1]}", "no usable params");
	check_broken("{\"id\":2,\"error\":7}", "no usable error");
	check_broken("{\"id\":2,\"result\":{}}", "stop:the agent ended the turn without a known");
	check_broken("{\"id\":2,\"error\":{\"message\":\"no \\u0007 model\"}}", "no \\x07 model");
}

TEST(a_greeting_before_the_first_message_is_forgiven)
{
	struct seen seen = {0};

	start(&seen);
	hear(&seen, "Welcome!");
	hear(&seen, INITIALIZED);
	hear(&seen, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	CHECK_HAS(seen.told, "broken:the agent named no usable session");
}

static void count_line(const char *line, size_t len, void *ctx)
{
	char *to = ctx;

	(void)snprintf(to + strlen(to), 256 - strlen(to), "%.*s|", (int)len, line);
}

TEST(lines_wherever_they_are_cut)
{
	static const char text[] = "one\n\ntwo\r\nthree\nrest";

	for (size_t at = 0; at <= strlen(text); at++) {
		struct acp_lines lines;
		char got[256] = "";

		acp_lines_init(&lines);
		CHECK_INT(acp_lines_feed(&lines, 100, text, at, count_line, got), 0);
		CHECK_INT(acp_lines_feed(&lines, 100 + at, text + at, strlen(text) - at, count_line,
		                         got),
		          0);
		CHECK_STR(got, "one|two|three|");
		CHECK_INT(lines.start, 116);
		acp_lines_done(&lines);
	}
}

TEST(a_line_has_an_end)
{
	struct acp_lines lines;
	auto_free char *bytes = mem_zalloc(1024 * 1024);
	char got[256] = "";
	int r = 0;

	memset(bytes, 'x', 1024 * 1024);
	acp_lines_init(&lines);
	for (int i = 0; i < 9 && r == 0; i++)
		r = acp_lines_feed(&lines, 0, bytes, 1024 * 1024, count_line, got);
	CHECK_INT(r, -EMSGSIZE);
	acp_lines_done(&lines);
}

TEST(a_transcript_is_what_it_says_to_people)
{
	static const char said[] =
		"hello\n"
		"{\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":"
		"\"agent_thought_chunk\",\"content\":{\"text\":\"hm\"}}}}\n"
		"{\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":"
		"\"agent_message_chunk\",\"content\":{\"text\":\"I lo\"}}}}\n"
		"{\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":"
		"\"agent_message_chunk\",\"content\":{\"text\":\"ok\"}}}}\n"
		"{\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":"
		"\"tool_call\",\"title\":\"ls\"}}}\n"
		"{\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":"
		"\"agent_message_chunk\",\"content\":{\"text\":\"Done\"}}}}\n"
		"{\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n";
	struct transcript transcript;
	auto_free char *text = NULL;

	transcript_init(&transcript);
	for (size_t i = 0; i < strlen(said); i++)
		transcript_feed(&transcript, said + i, 1);
	text = buf_take_string(&transcript.text);
	CHECK_STR(text, "I look\nDone\n");
	transcript_done(&transcript);
}
