/* Answers and requests of models, as bytes of strangers: read whole and in two pieces they say the
 * same, and a request that is rewritten is one that can be read again. The first byte says which
 * API and form, the second where it is split. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "gateway/llm_body.h"
#include "gateway/llm_usage.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void try_answer(enum llm_api api, bool is_events, const uint8_t *bytes, size_t len,
                       size_t split)
{
	struct llm_usage whole, parts;
	struct llm_tokens a, b;

	llm_usage_init(&whole, api, is_events, len);
	llm_usage_feed(&whole, bytes, len);
	llm_usage_read(&whole, true, &a);
	llm_usage_init(&parts, api, is_events, len);
	llm_usage_feed(&parts, bytes, split);
	llm_usage_feed(&parts, bytes + split, len - split);
	llm_usage_read(&parts, true, &b);
	must(a.input == b.input && a.output == b.output && a.cached == b.cached);
	must(a.cached <= a.input);
}

static void try_request(enum llm_api api, const uint8_t *bytes, size_t len)
{
	struct llm_body body, again;
	struct err err = {0};
	struct buf buf;

	if (llm_body_read(&body, api, (const char *)bytes, len, &err) < 0) {
		must(err.code == ERR_INVALID && err.msg[0]);
		return;
	}
	buf_init(&buf, len + 1024);
	must(llm_body_write(&body, "other", &buf) == 0);
	must(llm_body_read(&again, api, (const char *)buf_head(&buf), buf_len(&buf), &err) == 0);
	must(str_eq(again.model, "other"));
	must(api != LLM_CHAT || !again.is_stream || again.has_usage);
	buf_done(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static const enum llm_api apis[] = {LLM_CHAT, LLM_RESPONSES, LLM_MESSAGES, LLM_GEMINI};
	enum llm_api api;

	if (len < 2)
		return 0;
	api = apis[bytes[0] % ARRAY_LEN(apis)];
	if (bytes[0] / ARRAY_LEN(apis) % 4 == 3)
		try_request(api, bytes + 2, len - 2);
	else
		try_answer(api, bytes[0] / ARRAY_LEN(apis) % 2 == 0, bytes + 2, len - 2,
		           bytes[1] % (len - 1));
	return 0;
}
