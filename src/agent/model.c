#include "agent/model.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "agent/reach.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "cli/http.h"
#include "cli/sse.h"

enum { TRIES = 4, PAUSE_MS = 500, PIECE = 16 * 1024, COMPLAINT = 8 * 1024 };

/* --- one attempt --- */

static char *body_of(const struct model *model, const json_t *messages, const json_t *tools)
{
	json_t *body = json_pack("{s:s, s:b, s:{s:b}, s:O}", "model", model->name, "stream", 1,
	                         "stream_options", "include_usage", 1, "messages", messages);
	char *text;

	if (tools)
		json_object_set(body, "tools", (json_t *)tools);
	if (model->effort && *model->effort)
		json_object_set_new(body, "reasoning_effort", json_string(model->effort));
	text = json_dumps(body, JSON_COMPACT);
	must(text);
	json_decref(body);
	return text;
}

/* What an answer that is no stream says about the failure. */
static int refused(struct http *http, struct err *err)
{
	int status = http->head.status;
	struct chat_answer ignored;
	char text[COMPLAINT];
	size_t len = 0;
	ssize_t got;
	struct err why = {0};
	const char *piece;
	size_t piece_len;

	while (len < sizeof(text) &&
	       (got = http_read(http, text + len, sizeof(text) - len, &why)) > 0)
		len += (size_t)got;
	why = (struct err){0};
	chat_answer_init(&ignored);
	(void)!chat_answer_take(&ignored, text, len, &piece, &piece_len, &why);
	chat_answer_done(&ignored);
	(void)err_set(err, ERR_UNAVAILABLE, "status %d%s%s", status,
	              why.code == ERR_UNAVAILABLE ? ": " : "",
	              why.code == ERR_UNAVAILABLE ? why.msg : "");
	/* Only what may be different a moment later is asked again. */
	err->sys = status == 429 || status >= 500 ? EAGAIN : EPERM;
	return -1;
}

static int take_events(const struct model *model, struct sse *sse, struct chat_answer *answer,
                       struct err *err)
{
	struct sse_event event;
	const char *text;
	size_t len;
	int r;

	while ((r = sse_next(sse, &event)) > 0) {
		if (chat_answer_take(answer, event.data, event.len, &text, &len, err) < 0)
			return -1;
		if (len > 0)
			model->on_text(text, len, model->ctx);
	}
	return r < 0 ? err_set(err, ERR_PROTOCOL, "the model's answer is malformed") : 0;
}

static int read_stream(const struct model *model, struct http *http, struct chat_answer *answer,
                       struct err *err)
{
	auto_(sse_done) struct sse sse;
	uint8_t bytes[PIECE];
	ssize_t got = 1;

	sse_init(&sse);
	while (!answer->is_done && (got = http_read(http, bytes, sizeof(bytes), err)) > 0) {
		if (sse_feed(&sse, bytes, (size_t)got) < 0)
			return err_set(err, ERR_PROTOCOL, "the model's answer is malformed");
		if (take_events(model, &sse, answer, err) < 0)
			return -1;
	}
	if (got < 0)
		return -1;
	if (!answer->is_done && !answer->finish[0]) {
		(void)err_set(err, ERR_UNAVAILABLE, "the model's answer broke off");
		err->sys = EAGAIN;
		return -1;
	}
	return 0;
}

static int attempt(const struct model *model, const char *body, struct chat_answer *answer,
                   struct err *err)
{
	auto_(http_close) struct http http;
	const struct http_request request = {.method = "POST",
	                                     .target = "/v1/chat/completions",
	                                     .accept = "text/event-stream",
	                                     .content_type = "application/json",
	                                     .body = body,
	                                     .body_len = strlen(body)};
	const char *ignored;
	int r;

	http_init(&http);
	http.key = model->key;
	if (reach_open(model->url, &http, &ignored, err) < 0)
		return err_wrap(err, "the model gateway");
	http.interrupt_fd = model->watch_fd;
	r = http_begin(&http, &request, err);
	if (r >= 0)
		r = http_finish(&http, err);
	if (r >= 0)
		r = http.head.status == 200 ? read_stream(model, &http, answer, err)
		                            : refused(&http, err);
	return r;
}

/* --- as often as it makes sense --- */

static bool may_retry(const struct err *err)
{
	return err->sys == EAGAIN || err->sys == ECANCELED || err->sys == ECONNREFUSED ||
	       (err->code == ERR_PROTOCOL && err->sys == 0) ||
	       (err->code == ERR_UNAVAILABLE && err->sys == 0);
}

int model_ask(const struct model *model, const json_t *messages, const json_t *tools,
              struct chat_answer *answer, struct err *err)
{
	auto_free char *body = body_of(model, messages, tools);
	int tries = 0, pause_ms = PAUSE_MS;

	for (;;) {
		*err = (struct err){0};
		chat_answer_done(answer);
		chat_answer_init(answer);
		if (attempt(model, body, answer, err) == 0)
			return 0;
		if (model->is_cancelled(model->ctx))
			return err_set(err, ERR_GONE, "the turn was cancelled");
		if (!may_retry(err) || (err->sys != ECANCELED && ++tries == TRIES))
			return -1;
		model->on_retry(err, model->ctx);
		if (err->sys == ECANCELED)
			continue;
		(void)poll(&(struct pollfd){.fd = model->watch_fd, .events = POLLIN}, 1, pause_ms);
		pause_ms *= 2;
	}
}
