#include "task/told.h"

#include "acp/client.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "task/collect.h"
#include "task/job.h"
#include "task/redact.h"

enum {
	TEXT_MOST = 8 * 1024,   /* of one text in an event */
	NAME_MOST = 128,        /* of the name of a member */
	EVENT_MOST = 64 * 1024, /* of the foreign values in one event */
	ITEMS_MOST = 64,        /* of a list or an object */
	DEPTH_MOST = 12,
	SAID_MOST = 16 * 1024 * 1024, /* held back between two looks: bounded by one message */
	ANSWER_MOST = 1024 * 1024,
	/* of one run: whoever talks more is in its output */
	EVENTS_MOST = 20 * 1000,
	BYTES_MOST = 32 * 1024 * 1024,
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
	const struct job *job = told->job;

	data = data ? data : json_object();
	json_object_set_new(data, "run", json_string(job->run->id.text));
	job_note(told->job, kind, data);
	told->count++;
	told->bytes += strlen(job->events[job->event_count - 1].data);
}

/* Asked before each event whose number is up to the agent. */
static bool is_too_much(struct told *told)
{
	if (told->count < EVENTS_MOST && told->bytes < BYTES_MOST)
		return false;
	told->left_out++;
	return true;
}

/* --- foreign values: bounded and redacted --- */

char *told_redacted(struct told *told, const char *text)
{
	return redact_text(told->redact, text);
}

static json_t *clean_text(struct told *told, const char *text, size_t len, size_t most)
{
	auto_free char *plain = mem_strndup(text, len);
	auto_free char *redacted = told_redacted(told, plain);
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

/* What it takes when it is written: of a list or an object, without what is in it. */
static void take_room(struct told *told, const json_t *value)
{
	bool is_leaf = !json_is_array(value) && !json_is_object(value);
	size_t size = is_leaf ? json_dumpb(value, NULL, 0, JSON_ENCODE_ANY) : 2;

	told->room -= MIN(told->room, size + 1);
}

static json_t *clean(struct told *told, const json_t *value, int depth);

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH_MOST bounds it */
static json_t *clean_list(struct told *told, const json_t *list, int depth)
{
	json_t *copy = json_array();

	for (size_t i = 0; i < MIN(json_array_size(list), (size_t)ITEMS_MOST) && told->room; i++)
		json_array_append_new(copy, clean(told, json_array_get(list, i), depth + 1));
	return copy;
}

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH_MOST bounds it */
static json_t *clean_object(struct told *told, const json_t *object, int depth)
{
	json_t *copy = json_object(), *name, *item;
	const char *key;

	json_object_foreach ((json_t *)object, key, item) {
		if (json_object_size(copy) == ITEMS_MOST || told->room == 0)
			break;
		name = clean_text(told, key, strlen(key), NAME_MOST);
		take_room(told, name);
		json_object_set_new(copy, json_string_value(name), clean(told, item, depth + 1));
		json_decref(name);
	}
	return copy;
}

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH_MOST bounds it */
static json_t *clean(struct told *told, const json_t *value, int depth)
{
	json_t *copy;

	if (json_is_string(value))
		copy = clean_text(told, json_string_value(value), json_string_length(value),
		                  MIN(told->room, (size_t)TEXT_MOST));
	else if (depth == DEPTH_MOST)
		copy = json_null();
	else if (!json_is_array(value) && !json_is_object(value))
		copy = json_deep_copy(value);
	else
		copy = NULL;
	take_room(told, copy ? copy : value);
	if (copy)
		return copy;
	return json_is_array(value) ? clean_list(told, value, depth)
	                            : clean_object(told, value, depth);
}

static json_t *clean_value(struct told *told, const json_t *value)
{
	told->room = EVENT_MOST;
	return clean(told, value, 0);
}

/* --- what is said in pieces --- */

struct piece {
	struct told *told;
	int which;
};

static int put_said(void *ctx, const void *bytes, size_t len)
{
	const struct piece *piece = ctx;

	/* An answer that is too long is cut: whoever wants to read it sees that. */
	if (piece->which == TOLD_MESSAGE)
		(void)!buf_put(&piece->told->answer, bytes, len);
	return buf_put(&piece->told->said[piece->which], bytes, len);
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
		if (!is_too_much(told))
			note(told, EVENT_AGENT_UPDATE,
			     json_pack("{s:{s:s, s:{s:s, s:s%}}}", "update", "sessionUpdate",
			               kinds[which], "content", "type", "text", "text", text, len));
		buf_consume(said, len);
	}
}

/* The message is whole: nothing of it is held back any longer. */
static void end_said(struct told *told)
{
	for (int i = 0; i < TOLD_COUNT; i++) {
		(void)!redact_end(told->redact, i, put_said, &(struct piece){told, i});
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
		                   json_string_length(text), put_said, &(struct piece){told, i});
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
	if (!is_too_much(told))
		note(told, EVENT_AGENT_UPDATE,
		     json_pack("{s:o}", "update", clean_value(told, update)));
}

void told_start(struct told *told, const char *session, const char *agent)
{
	buf_reset(&told->answer);
	note(told, EVENT_AGENT_TURN,
	     json_pack("{s:s, s:o, s:o}", "status", "started", "session",
	               clean_text(told, session, strlen(session), TEXT_MOST), "agent",
	               clean_text(told, agent, strlen(agent), TEXT_MOST)));
}

void told_permission(struct told *told, const json_t *params, bool is_allowed)
{
	const json_t *call = json_object_get(params, "toolCall");

	end_said(told);
	if (!is_too_much(told))
		note(told, EVENT_AGENT_PERMISSION,
		     json_pack("{s:o, s:s}", "toolCall",
		               call ? clean_value(told, call) : json_null(), "verdict",
		               is_allowed ? "allow" : "deny"));
}

void told_stop(struct told *told, const struct acp_stop *stop)
{
	json_t *data = json_pack("{s:s}", "status", "ended");

	end_said(told);
	if (stop->reason)
		json_object_set_new(data, "stopReason", json_string(stop->reason));
	else
		json_object_set_new(
			data, "error",
			clean_text(told, stop->err->msg, strlen(stop->err->msg), TEXT_MOST));
	if (told->left_out > 0)
		json_object_set_new(data, "eventsLeftOut",
		                    json_integer((json_int_t)told->left_out));
	note(told, EVENT_AGENT_TURN, data);
}
