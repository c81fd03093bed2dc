/*
 * Of events only the data lines are looked at; an empty line ends an event. Lines end with LF, CR
 * or both (the HTML standard, 9.2.6).
 */
#include "gateway/llm_usage.h"

#include <string.h>

#include "base/str.h"

#define UNKNOWN UINT64_MAX

enum line_state { LINE_BEGIN, LINE_NAME, LINE_BLANK, LINE_DATA, LINE_OTHER };

static const char data_name[] = "data:";

enum { TOKENS_MOST_DIGITS = 15 };

static const struct {
	enum llm_api api;
	const char *path;
	size_t offset;
} counts[] = {
#define COUNT(api, path, field) {LLM_##api, path, offsetof(struct llm_usage, field)},
#define TEXT(api, path)
#include "gateway/llm_counts.def"
#undef COUNT
#undef TEXT
};

static const struct {
	enum llm_api api;
	const char *path;
} texts[] = {
#define COUNT(api, path, field)
#define TEXT(api, path) {LLM_##api, path},
#include "gateway/llm_counts.def"
#undef COUNT
#undef TEXT
};

static void take_number(struct llm_usage *usage, const struct json_scan_value *value)
{
	uint64_t number;

	/* A figure that cannot be is none. */
	if (strlen(value->text) > TOKENS_MOST_DIGITS || str_to_u64(value->text, &number) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		if (counts[i].api == usage->api && str_eq(counts[i].path, value->path))
			*(uint64_t *)(void *)((char *)usage + counts[i].offset) = number;
	}
}

static void on_value(const struct json_scan_value *value, void *ctx)
{
	struct llm_usage *usage = ctx;

	if (value->kind == JSON_SCAN_NUMBER) {
		take_number(usage, value);
		return;
	}
	if (value->kind != JSON_SCAN_STRING)
		return;
	if (usage->api == LLM_GEMINI && str_eq(value->path, "candidates.finishReason"))
		usage->is_finished = true;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (texts[i].api == usage->api && str_eq(texts[i].path, value->path))
			usage->text_bytes += value->length;
	}
}

void llm_usage_init(struct llm_usage *usage, enum llm_api api, bool is_events, uint64_t body_bytes)
{
	*usage = (struct llm_usage){.api = api,
	                            .is_events = is_events,
	                            .input = UNKNOWN,
	                            .output = UNKNOWN,
	                            .begun = UNKNOWN,
	                            .cached = UNKNOWN,
	                            .stored = UNKNOWN,
	                            .tools = UNKNOWN,
	                            .thoughts = UNKNOWN,
	                            .body_bytes = body_bytes};
	json_scan_init(&usage->scan, on_value, usage);
}

/* --- events --- */

static void line_over(struct llm_usage *usage)
{
	if (usage->line_state == LINE_BEGIN) {
		(void)json_scan_end(&usage->scan); /* what it was is of no interest */
		json_scan_reset(&usage->scan);
	} else if (usage->line_state == LINE_DATA) {
		(void)json_scan_feed(&usage->scan, "\n", 1); /* the same */
	}
	usage->line_state = LINE_BEGIN;
}

/* The bytes of a line up to its end, or all there are. */
static void take_line(struct llm_usage *usage, const uint8_t *bytes, size_t len)
{
	for (; len > 0 && usage->line_state != LINE_DATA; bytes++, len--) {
		if (usage->line_state == LINE_OTHER)
			return;
		if (usage->line_state == LINE_BEGIN) {
			usage->line_state = LINE_NAME;
			usage->matched = 0;
		}
		if (usage->line_state == LINE_BLANK) {
			usage->line_state = LINE_DATA;
			if (*bytes != ' ')
				break;
		} else if (*bytes != (uint8_t)data_name[usage->matched]) {
			usage->line_state = LINE_OTHER;
		} else if (data_name[++usage->matched] == '\0') {
			usage->line_state = LINE_BLANK;
		}
	}
	if (len > 0)
		(void)json_scan_feed(&usage->scan, bytes, len); /* the same */
}

static void take_events(struct llm_usage *usage, const uint8_t *bytes, size_t len)
{
	while (len > 0) {
		size_t n = 0;

		if (usage->had_return && *bytes == '\n') {
			usage->had_return = false;
			bytes++;
			len--;
			continue;
		}
		usage->had_return = false;
		while (n < len && bytes[n] != '\n' && bytes[n] != '\r')
			n++;
		take_line(usage, bytes, n);
		if (n == len)
			return;
		line_over(usage);
		usage->had_return = bytes[n] == '\r';
		bytes += n + 1;
		len -= n + 1;
	}
}

void llm_usage_feed(struct llm_usage *usage, const void *bytes, size_t len)
{
	if (usage->is_events)
		take_events(usage, bytes, len);
	else
		(void)json_scan_feed(&usage->scan, bytes, len); /* what is no JSON has no figures */
}

/* --- the sum --- */

bool llm_usage_is_final(const struct llm_usage *usage)
{
	return usage->input != UNKNOWN && usage->output != UNKNOWN &&
	       (usage->api != LLM_GEMINI || usage->is_finished);
}

static uint64_t known(uint64_t number)
{
	return number == UNKNOWN ? 0 : number;
}

void llm_usage_read(struct llm_usage *usage, bool is_over, struct llm_tokens *ret)
{
	uint64_t guess = (usage->text_bytes + LLM_BYTES_PER_TOKEN - 1) / LLM_BYTES_PER_TOKEN;
	uint64_t output;

	if (is_over)
		(void)json_scan_end(&usage->scan); /* a last number may still be open */
	*ret = (struct llm_tokens){.cached = known(usage->cached)};
	if (usage->input == UNKNOWN) {
		ret->input = (usage->body_bytes + LLM_BYTES_PER_TOKEN - 1) / LLM_BYTES_PER_TOKEN;
		ret->cached = 0;
		ret->is_estimate = true;
	} else {
		ret->input = usage->input + known(usage->tools);
	}
	/* This API alone counts what is cached beside the rest. */
	if (usage->api == LLM_MESSAGES && usage->input != UNKNOWN)
		ret->input += ret->cached + known(usage->stored);
	ret->cached = MIN(ret->cached, ret->input);
	output = usage->output == UNKNOWN ? usage->begun : usage->output;
	ret->output = known(output) + known(usage->thoughts);
	if ((usage->output != UNKNOWN && is_over) || llm_usage_is_final(usage))
		return;
	ret->is_estimate = true;
	ret->output = MAX(ret->output, guess);
}
