#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "gateway/llm_api.h"
#include "gateway/llm_body.h"
#include "gateway/llm_rate.h"
#include "gateway/llm_usage.h"
#include "harness/test.h"
#include "model/config.h"
#include "model/provider.h"

/* --- what was used --- */

static const char chat_stream[] =
	"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assi"
	"stant\",\"content\":\"\"}}]}\n\n"
	": keep-alive\n\n"
	"data: {\"choices\":[{\"delta\":{\"content\":\"a \\\"usage"
	"\\\":{\\\"prompt_tokens\\\":9}\"}}],"
	"\"usage\":null}\r\n\r\n"
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":30,"
	"\"total_tokens\":1030,\"prompt_tokens_details\":{\"cached_tokens\":200}}}\n\n"
	"data: [DONE]\n\n";

static const char responses_stream[] =
	"event: response.created\ndata: {\"type\":\"response.created"
	"\",\"response\":{\"usage\":null}}\n\n"
	"event: response.output_text.delta\n"
	"data:{\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\n"
	"event: response.completed\ndata: {\"type\":\"response.compl"
	"eted\",\"response\":{\"output\":[{"
	"\"content\":[{\"text\":\"hello\"}]}],\"usage\":{\"input_tokens\":1000,"
	"\"input_tokens_details\":{\"cached_tokens\":200},\"output_tokens\":30,"
	"\"output_tokens_details\":{\"reasoning_tokens\":7}}}}\n\n";

static const char messages_stream[] =
	"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{"
	"\"input_tokens\":700,\"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":200,"
	"\"output_tokens\":1}}}\n\n"
	"event: ping\ndata: {\"type\":\"ping\"}\n\n"
	"event: content_block_delta\ndata: {\"delta\":{\"type\":\"te"
	"xt_delta\",\"text\":\"hi\"}}\n\n"
	"event: message_delta\ndata: {\"delta\":{},\"usage\":{\"output_tokens\":12}}\n\n"
	"event: message_delta\ndata: {\"delta\":{},\"usage\":{\"output_tokens\":30}}\n\n"
	"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

static const char gemini_stream[] =
	"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}],\"usageMetadata\":{"
	"\"promptTokenCount\":1000,\"candidatesTokenCount\":2}}\n\n"
	"data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{"
	"\"promptTokenCount\":1000,\"candidatesTokenCount\":25,\"thoughtsTokenCount\":5,"
	"\"cachedContentTokenCount\":200}}\n\n";

static const char chat_whole[] =
	"{\"choices\":[{\"message\":{\"content\":\"x\"}}],\"usage\":{\"prompt_tokens\":1000,"
	"\"completion_tokens\":30,\"prompt_tokens_details\":{\"cached_tokens\":200}}}";
static const char responses_whole[] = "{\"usage\":{\"input_tokens\":1000,\"output_tokens\":30,"
				      "\"input_tokens_details\":{\"cached_tokens\":200}}}";
static const char messages_whole[] =
	"{\"content\":[{\"text\":\"x\"}],\"usage\":{\"input_tokens\":800,"
	"\"cache_read_input_tokens\":200,\"output_tokens\":30}}";
static const char gemini_array[] =
	"[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]},\n{\"candidates\":[{"
	"\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":1000,"
	"\"candidatesTokenCount\":30,\"cachedContentTokenCount\":200}}]";

static const struct {
	enum llm_api api;
	bool is_events;
	const char *text;
} answers[] = {
	{LLM_CHAT, true, chat_stream},         {LLM_RESPONSES, true, responses_stream},
	{LLM_MESSAGES, true, messages_stream}, {LLM_GEMINI, true, gemini_stream},
	{LLM_CHAT, false, chat_whole},         {LLM_RESPONSES, false, responses_whole},
	{LLM_MESSAGES, false, messages_whole}, {LLM_GEMINI, false, gemini_array},
};

static void check_tokens(struct llm_usage *usage, bool is_over)
{
	struct llm_tokens tokens;

	llm_usage_read(usage, is_over, &tokens);
	CHECK_INT(tokens.input, 1000);
	CHECK_INT(tokens.cached, 200);
	CHECK_INT(tokens.output, 30);
	CHECK(!tokens.is_estimate);
}

TEST(figures_are_found_wherever_an_answer_is_split)
{
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		size_t len = strlen(answers[i].text);

		for (size_t at = 0; at <= len; at++) {
			struct llm_usage usage;

			llm_usage_init(&usage, answers[i].api, answers[i].is_events, 5);
			llm_usage_feed(&usage, answers[i].text, at);
			llm_usage_feed(&usage, answers[i].text + at, len - at);
			check_tokens(&usage, true);
		}
	}
}

TEST(figures_are_found_byte_by_byte)
{
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct llm_usage usage;

		llm_usage_init(&usage, answers[i].api, answers[i].is_events, 5);
		for (const char *at = answers[i].text; *at; at++)
			llm_usage_feed(&usage, at, 1);
		/* A client that has read the last event may leave before the end. */
		CHECK(llm_usage_is_final(&usage));
		check_tokens(&usage, false);
	}
}

TEST(what_is_cut_or_silent_is_estimated)
{
	static const char silent[] =
		"data: {\"choices\":[{\"delta\":{\"content\":\"123456789\"}}]}\n\n";
	static const char begun[] =
		"data: {\"message\":{\"usage\":{\"input_tokens\":50,\"output_tokens\":1}}}\n\n"
		"data: {\"delta\":{\"text\":\"123456789012\"}}\n\n";
	struct llm_usage usage;
	struct llm_tokens tokens;

	llm_usage_init(&usage, LLM_CHAT, true, 301);
	llm_usage_feed(&usage, silent, sizeof(silent) - 1);
	llm_usage_read(&usage, true, &tokens);
	CHECK_INT(tokens.input, 101);
	CHECK_INT(tokens.output, 3);
	CHECK(tokens.is_estimate);
	llm_usage_init(&usage, LLM_MESSAGES, true, 301);
	llm_usage_feed(&usage, begun, sizeof(begun) - 1);
	llm_usage_read(&usage, false, &tokens);
	CHECK_INT(tokens.input, 50);
	CHECK_INT(tokens.output, 4);
	CHECK(tokens.is_estimate);
}

TEST(figures_that_cannot_be_are_none)
{
	static const char *const texts[] = {
		"{\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1e99}}",
		"{\"usage\":{\"prompt_tokens\":99999999999999999999,\"completion_tokens\":0.5}}",
		"{\"usage.prompt_tokens\":7,\"usage.completion_tokens\":7}",
		"{\"x\":{\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":7}}}",
		"{\"usage\":{\"prompt_tokens\":\"7\",\"completion_tokens\":null}}",
		"no JSON at all",
		"",
		"{\"usage\":{\"prompt_tokens\"",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct llm_usage usage;
		struct llm_tokens tokens;

		llm_usage_init(&usage, LLM_CHAT, false, 30);
		llm_usage_feed(&usage, texts[i], strlen(texts[i]));
		llm_usage_read(&usage, true, &tokens);
		CHECK_INT(tokens.input, 10);
		CHECK_INT(tokens.output, 0);
		CHECK(tokens.is_estimate);
	}
}

/* --- requests --- */

static const char *rewritten(enum llm_api api, const char *text, const char *model)
{
	static char out[512];
	struct llm_body body;
	struct err err = {0};
	struct buf buf;
	auto_free char *taken = NULL;

	if (llm_body_read(&body, api, text, strlen(text), &err) < 0) {
		(void)snprintf(out, sizeof(out), "%s", err.msg);
		return out;
	}
	buf_init(&buf, 4096);
	CHECK_INT(llm_body_write(&body, model, &buf), 0);
	taken = buf_take_string(&buf);
	(void)snprintf(out, sizeof(out), "%s", taken);
	buf_done(&buf);
	return out;
}

TEST(a_body_is_changed_where_it_must_be_and_nowhere_else)
{
	CHECK_STR(rewritten(LLM_CHAT, "{ \"x\" : 1.50, \"model\":\"a\" }", "a"),
	          "{ \"x\" : 1.50, \"model\":\"a\" }");
	CHECK_STR(rewritten(LLM_CHAT, "{\"model\": \"a\",\"y\":[{\"model\":\"a\"}]}", "b/c"),
	          "{\"model\": \"b/c\",\"y\":[{\"model\":\"a\"}]}");
	CHECK_STR(rewritten(LLM_CHAT, "{\"mod\\u0065l\":\"a\"}", "b"), "{\"mod\\u0065l\":\"b\"}");
	CHECK_STR(rewritten(LLM_CHAT, "{}", "b"), "{\"model\":\"b\"}");
	CHECK_STR(rewritten(LLM_CHAT, " {\"x\":1}", "b"), " {\"model\":\"b\",\"x\":1}");
	CHECK_STR(rewritten(LLM_CHAT, "{\"model\":null}", "b"), "{\"model\":\"b\"}");
	CHECK_STR(rewritten(LLM_RESPONSES, "{\"model\":\"a\",\"stream\":true}", "a"),
	          "{\"model\":\"a\",\"stream\":true}");
}

TEST(a_stream_of_chat_is_asked_for_its_figures)
{
	CHECK_STR(rewritten(LLM_CHAT, "{\"model\":\"a\",\"stream\":true}", "b"),
	          "{\"stream_options\":{\"include_usage\":true},\"model\":\"b\",\"stream\":true}");
	CHECK_STR(rewritten(LLM_CHAT, "{\"stream\":true,\"stream_options\":{}}", NULL),
	          "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
	CHECK_STR(rewritten(LLM_CHAT, "{\"stream\":true,\"stream_options\":{\"a\":1}}", NULL),
	          "{\"stream\":true,\"stream_options\":{\"include_usage\":true,\"a\":1}}");
	CHECK_STR(rewritten(LLM_CHAT, "{\"stream\":true,\"stream_options\":null}", NULL),
	          "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
	CHECK_STR(rewritten(LLM_CHAT,
	                    "{\"stream\":true,\"stream_options\":{\"include_usage\":false}}", NULL),
	          "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
	CHECK_STR(rewritten(LLM_CHAT, "{\"stream\":false}", NULL), "{\"stream\":false}");
}

TEST(a_body_that_two_readers_read_in_two_ways_is_refused)
{
	CHECK_HAS(rewritten(LLM_CHAT, "{\"model\":\"a\",\"model\":\"b\"}", "a"),
	          "'model' is there twice");
	CHECK_HAS(rewritten(LLM_CHAT, "{\"model\":\"a\",\"\\u006dodel\":\"b\"}", "a"), "twice");
	CHECK_HAS(rewritten(LLM_CHAT, "{\"stream\":true,\"stream\":false}", "a"), "twice");
	CHECK_HAS(rewritten(LLM_CHAT, "{\"model\":\"a\",\"Model\":\"b\"}", "a"), "small letters");
	CHECK_HAS(rewritten(LLM_CHAT, "{\"STREAM\":true}", "a"), "'stream' is to be");
	CHECK_HAS(rewritten(LLM_CHAT, "{\"model\":7}", "a"), "not a name");
	CHECK_HAS(rewritten(LLM_CHAT, "[]", "a"), "not a JSON object");
	CHECK_HAS(rewritten(LLM_CHAT, "{\"model\":\"a\"", "a"), "not a JSON object");
	CHECK_HAS(rewritten(LLM_CHAT, "{\"model\":\"a\"} {}", "a"), "not a JSON object");
	CHECK_HAS(rewritten(LLM_RESPONSES, "{\"background\":true}", "a"), "background");
}

/* --- targets --- */

static const char *url_of(const char *target, enum provider_kind kind, const char *base)
{
	static char out[256];
	struct provider *provider = provider_new("p");
	struct llm_target read;

	provider->kind = kind;
	provider->base_url = mem_strdup(base);
	llm_target_read(target, &read);
	if (read.api == LLM_API_COUNT_) {
		(void)snprintf(out, sizeof(out), "none");
	} else {
		auto_free char *url = llm_target_url(&read, provider, "m");

		(void)snprintf(out, sizeof(out), "%s", url);
	}
	llm_target_done(&read);
	provider_free(provider);
	return out;
}

TEST(targets_lead_where_the_provider_has_them)
{
	CHECK_STR(url_of("/v1/chat/completions", PROVIDER_OPENAI, "https://a/v1"),
	          "https://a/v1/chat/completions");
	CHECK_STR(url_of("/v1/chat/completions", PROVIDER_OPENAI, "https://a"),
	          "https://a/v1/chat/completions");
	CHECK_STR(url_of("/v1/responses?key=secret&x=1", PROVIDER_OPENAI, "https://a/api/v4"),
	          "https://a/api/v4/responses?x=1");
	CHECK_STR(url_of("/v1/messages?beta=true&KEY=s", PROVIDER_ANTHROPIC, "https://a"),
	          "https://a/v1/messages?beta=true");
	CHECK_STR(url_of("/v1/messages/count_tokens", PROVIDER_ANTHROPIC, "https://a/x/v1"),
	          "https://a/x/v1/messages/count_tokens");
	CHECK_STR(url_of("/v1beta/models/g-1:streamGenerateContent?key=s&alt=sse", PROVIDER_GEMINI,
	                 "https://a"),
	          "https://a/v1beta/models/m:streamGenerateContent?alt=sse");
	CHECK_STR(url_of("/v1beta/models/a..b:generateContent", PROVIDER_GEMINI, "https://a"),
	          "none");
	CHECK_STR(url_of("/v1beta/models/a%2f:generateContent", PROVIDER_GEMINI, "https://a"),
	          "none");
	CHECK_STR(url_of("/v1beta/models/g:batch", PROVIDER_GEMINI, "https://a"), "none");
	CHECK_STR(url_of("/v1/chat/completionsx", PROVIDER_OPENAI, "https://a"), "none");
	CHECK_STR(url_of("/v1/files", PROVIDER_OPENAI, "https://a"), "none");
}

TEST(errors_have_the_shape_of_their_api)
{
	auto_free char *chat = llm_error(LLM_CHAT, 402, "m", true);
	auto_free char *messages = llm_error(LLM_MESSAGES, 429, "m", false);
	auto_free char *event = llm_error(LLM_MESSAGES, 402, "m", true);
	auto_free char *gemini = llm_error(LLM_GEMINI, 404, "m", false);

	CHECK_HAS(chat, "data: {\"error\":{\"message\":\"m\",\"type\":\"insufficient_quota\"");
	CHECK_STR(messages, "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\","
	                    "\"message\":\"m\"}}");
	CHECK_HAS(event, "event: error\ndata: {\"type\":\"error\"");
	CHECK_STR(gemini, "{\"error\":{\"code\":404,\"message\":\"m\",\"status\":\"NOT_FOUND\"}}");
}

TEST(what_bounds_an_answer_is_read)
{
	static const struct {
		const char *text;
		uint64_t tokens, answers;
	} bodies[] = {
		{"{\"model\":\"m\"}", 0, 0},
		{"{\"max_tokens\":100,\"n\":3}", 100, 3},
		{"{\"max_tokens\":1,\"max_completion_tokens\":5e2}", 500, 0},
		{"{\"generationConfig\":{\"maxOutputTokens\":7,\"candidateCount\":2}}", 7, 2},
		{"{\"max_tokens\":-5,\"n\":1e300}", 0, 1000},
		{"{\"messages\":[{\"max_tokens\":9}]}", 0, 0},
	};
	struct llm_body body;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		CHECK_INT(llm_body_read(&body, LLM_CHAT, bodies[i].text, strlen(bodies[i].text),
		                        &err),
		          0);
		CHECK_INT(body.max_tokens, bodies[i].tokens);
		CHECK_INT(body.answers, bodies[i].answers);
	}
}

/* --- providers --- */

TEST(a_provider_fits_by_name_alias_pattern_or_perhaps)
{
	static const char text[] =
		"[llm.providers.main]\nkind = \"openai\"\nbase_url = "
		"\"http://127.0.0.1:1/v1/\"\ndefault_model = \"big-1\"\n"
		"models = [\"big-*\", \"small\"]\naliases = { fast = \"small\" }\n"
		"prices = { small = { input = 1.5, output = 2 }, "
		"\"*\" = { input = 3, output = 4, cached = 0.25 } }\n";
	struct provider_price price;
	struct config config;
	struct err err = {0};
	const char *model = NULL;

	config_init(&config);
	CHECK_INT(config_parse(&config, "c", text, sizeof(text) - 1, &err), 0);
	const struct provider *main = config_provider(&config, "main");

	CHECK(main && str_eq(main->base_url, "http://127.0.0.1:1/v1"));
	CHECK_INT(provider_fits(main, "fast", &model), PROVIDER_EXACT);
	CHECK_STR(model, "small");
	CHECK_INT(provider_fits(main, "big-2", &model), PROVIDER_PATTERN);
	CHECK_INT(provider_fits(main, "other", &model), PROVIDER_NOT);
	CHECK_INT(provider_fits(main, "main/other", &model), PROVIDER_NOT);
	CHECK_INT(provider_fits(main, "main/big 2", &model), PROVIDER_NOT);
	CHECK_INT(provider_fits(main, "main/big-2", &model), PROVIDER_NAMED);
	CHECK_STR(model, "big-2");
	CHECK_INT(provider_fits(main, "main/fast", &model), PROVIDER_NAMED);
	CHECK_STR(model, "small");
	CHECK_INT(provider_fits(main, "main/default", &model), PROVIDER_NAMED);
	CHECK_INT(provider_fits(main, "", &model), PROVIDER_PATTERN);
	CHECK_STR(model, "big-1");
	CHECK(provider_price(main, "small", &price));
	CHECK_INT(price.cached, 1500000);
	CHECK_INT(provider_cost(&price, 1000, 0, 0), 1500);
	CHECK_INT(provider_cost(&price, 1, 0, 0), 2);
	CHECK(provider_price(main, "big-2", &price));
	CHECK_INT(provider_cost(&price, 1000, 200, 30), 2400 + 50 + 120);
	config_done(&config);
}

TEST(a_provider_that_cannot_be_is_refused_with_its_line)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{"[llm.providers.a]\nbase_url = \"http://a\"\n", "kind is needed"},
		{"[llm.providers.a]\nkind = \"x\"\n", "none of openai"},
		{"[llm.providers.a]\nkind = \"openai\"\nbase_url = \"ftp://a\"\n", "base_url: "},
		{"[llm.providers.a]\nkind = \"openai\"\nbase_url = \"http://a\"\n"
	         "secret = \"sk-1\"\n",
	         "a reference is"},
		{"[llm.providers.a]\nkind = \"openai\"\nbase_url = \"http://a\"\n"
	         "secret = \"sealed\"\n",
	         "no sealed values"},
		{"[llm.providers.a]\nkind = \"openai\"\nbase_url = \"http://a\"\n"
	         "models = [\"a b\"]\n",
	         "entry 1"},
		{"[llm]\ntimeoutt = 1\n", "did you mean 'timeout'"},
		{"[llm.providers.a]\nprices = { m = { inputs = 1 } }\n", "none of input"},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct config config;
		struct err err = {0};

		config_init(&config);
		CHECK(config_parse(&config, "c", bad[i].text, strlen(bad[i].text), &err) < 0);
		CHECK_HAS(err.msg, bad[i].why);
		CHECK_HAS(err.msg, "c:");
		config_done(&config);
	}
}

TEST(rates_are_kept_by_account_and_tokens_leave_a_debt)
{
	struct llm_rate *rate = llm_rate_new(2, 100);
	const char *what = "";

	CHECK_INT(llm_rate_take(rate, "a", 0, &what), 0);
	CHECK_INT(llm_rate_take(rate, "a", 0, &what), 0);
	CHECK(llm_rate_take(rate, "a", 0, &what) > 0);
	CHECK_STR(what, "requests");
	CHECK_INT(llm_rate_take(rate, "b", 0, &what), 0);
	llm_rate_used(rate, "b", 300, 0);
	CHECK(llm_rate_take(rate, "b", 60000, &what) > 30000);
	CHECK_STR(what, "tokens");
	CHECK_INT(llm_rate_take(rate, "b", 180000, &what), 0);
	llm_rate_free(rate);
}
