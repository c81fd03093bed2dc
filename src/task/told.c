#include "task/told.h"

#include "acp/client.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "task/collect.h"
#include "task/job.h"
#include "task/redact.h"

enum {
	TEXT_MOST = 8 * 1024, /* of one text in an event */
	ITEMS_MOST = 64,      /* of a list or an object */
	DEPTH_MOST = 12,
	SAID_MOST = 16 * 1024 * 1024, /* held back between two looks: bounded by one message */
	ANSWER_MOST = 1024 * 1024,
	EVENTS_MOST = 20 * 1000, /* of one run: whoever talks more is in its output */
};

static const char *const kinds[] = {"agent_message_chunk", "agent_thought_chunk"};

void told_init(struct told *told, struct job *job)
{
	*told = (struct told){.job = job};
	told->redact = collect_redact(job->tasks, job->task);
	for (size_t i = 0; i < TOLD_COUNT; i++)
		buf_init(&told->said[i], SAID_MOST);
	buf_init(&told->answer, ANSWER_MOST);
}

void told_done(struct told *told)
{
	redact_free(told->redact);
	for (size_t i = 0; i < TOLD_COUNT; i++)
		buf_done(&told->said[i]);
	buf_done(&told->answer);
}

/* Takes the data. NULL is what could not be packed, because of a foreign text: the event has to do
 * without. */
static void note(struct told *told, enum event_kind kind, json_t *data)
{
	data = data ? data : json_object();
	json_object_set_new(data, "run", json_string(told->job->run->id.text));
	if (told->count++ < EVENTS_MOST || kind != EVENT_AGENT_UPDATE)
		job_note(told->job, kind, data);
	else
		json_decref(data);
}

/* --- foreign values: bounded and redacted --- */

static json_t *clean_text(struct told *told, const char *text, size_t len)
{
	auto_free char *plain = mem_strndup(text, len);
	auto_free char *redacted = redact_text(told->redact, plain);
	size_t most = MIN(strlen(redacted), (size_t)TEXT_MOST);
	json_t *cut;

	if (strlen(redacted) <= most) {
		cut = json_string(redacted);
	} else {
		while (most > 0 && !str_is_utf8(redacted, most))
			most--;
		cut = json_sprintf("%.*s…", (int)most, redacted);
	}
	return cut ? cut : json_string("");
}

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH_MOST bounds it */
static json_t *clean(struct told *told, const json_t *value, int depth)
{
	json_t *copy, *item;
	const char *name;
	size_t i;

	if (json_is_string(value))
		return clean_text(told, json_string_value(value), json_string_length(value));
	if (depth == DEPTH_MOST)
		return json_null();
	if (json_is_array(value)) {
		copy = json_array();
		json_array_foreach (value, i, item) {
			if (i < ITEMS_MOST)
				json_array_append_new(copy, clean(told, item, depth + 1));
		}
		return copy;
	}
	if (!json_is_object(value))
		return json_deep_copy(value);
	copy = json_object();
	json_object_foreach ((json_t *)value, name, item) {
		if (json_object_size(copy) < ITEMS_MOST)
			json_object_set_new(copy, name, clean(told, item, depth + 1));
	}
	return copy;
}

/* --- what is said in pieces --- */

static int put_said(void *ctx, const void *bytes, size_t len)
{
	return buf_put(ctx, bytes, len);
}

static void say(struct told *told, int which)
{
	struct buf *said = &told->said[which];

	while (buf_len(said) > 0) {
		const char *text = (const char *)buf_head(said);
		size_t len = MIN(buf_len(said), (size_t)TEXT_MOST);

		while (len > 0 && !str_is_utf8(text, len))
			len--;
		if (len == 0)
			break; /* half a character: the rest of it is to come */
		note(told, EVENT_AGENT_UPDATE,
		     json_pack("{s:{s:s, s:{s:s, s:s%}}}", "update", "sessionUpdate", kinds[which],
		               "content", "type", "text", "text", text, len));
		buf_consume(said, len);
	}
}

/* The message is whole: nothing of it is held back any longer. */
static void end_said(struct told *told)
{
	for (int i = 0; i < TOLD_COUNT; i++) {
		(void)!redact_end(told->redact, i, put_said, &told->said[i]);
		say(told, i);
		buf_reset(&told->said[i]);
	}
}

void told_flush(struct told *told)
{
	for (int i = 0; i < TOLD_COUNT; i++)
		say(told, i);
}

static bool take_piece(struct told *told, const char *kind, const json_t *update)
{
	const json_t *text = json_object_get(json_object_get(update, "content"), "text");

	for (int i = 0; i < TOLD_COUNT; i++) {
		if (!str_eq(kinds[i], kind) || !json_is_string(text))
			continue;
		(void)!redact_feed(told->redact, i, json_string_value(text),
		                   json_string_length(text), put_said, &told->said[i]);
		if (i == TOLD_MESSAGE)
			(void)!buf_put(&told->answer, json_string_value(text),
			               json_string_length(text));
		return true;
	}
	return false;
}

/* --- events --- */

void told_update(struct told *told, const char *kind, const json_t *update)
{
	if (take_piece(told, kind, update))
		return;
	end_said(told);
	if (str_eq(kind, "tool_call"))
		buf_reset(&told->answer);
	note(told, EVENT_AGENT_UPDATE, json_pack("{s:o}", "update", clean(told, update, 0)));
}

void told_start(struct told *told, const char *session, const char *agent)
{
	buf_reset(&told->answer);
	note(told, EVENT_AGENT_TURN,
	     json_pack("{s:s, s:s, s:s}", "status", "started", "session", session, "agent", agent));
}

void told_permission(struct told *told, const json_t *params, bool is_allowed)
{
	const json_t *call = json_object_get(params, "toolCall");

	end_said(told);
	note(told, EVENT_AGENT_PERMISSION,
	     json_pack("{s:o, s:s}", "toolCall", call ? clean(told, call, 0) : json_null(),
	               "verdict", is_allowed ? "allow" : "deny"));
}

void told_stop(struct told *told, const struct acp_stop *stop)
{
	json_t *data = json_pack("{s:s}", "status", "ended");

	end_said(told);
	if (stop->reason)
		json_object_set_new(data, "stopReason", json_string(stop->reason));
	else
		json_object_set_new(data, "error",
		                    clean_text(told, stop->err->msg, strlen(stop->err->msg)));
	note(told, EVENT_AGENT_TURN, data);
}
