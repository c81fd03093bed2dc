#include "agent/chat.h"

#include <errno.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

enum { BYTES_A_TOKEN = 3, RESULT_KEPT = 200 };

#define LEFT_OUT "[left out to make room: output of an earlier call]"
#define NOTE     "[Earlier turns were left out to make room. Look at the files for what was done.]"

void chat_answer_init(struct chat_answer *answer)
{
	*answer = (struct chat_answer){0};
	buf_init(&answer->text, CHAT_TEXT_MOST);
}

void chat_answer_done(struct chat_answer *answer)
{
	buf_done(&answer->text);
	for (size_t i = 0; i < answer->call_count; i++) {
		free(answer->calls[i].id);
		free(answer->calls[i].name);
		buf_done(&answer->calls[i].arguments);
	}
}

/* --- pieces --- */

static void copy_text(char **to, const json_t *text)
{
	if (!*to && json_string_length(text) > 0)
		*to = mem_strdup(json_string_value(text));
}

static int take_call(struct chat_answer *answer, const json_t *piece, struct err *err)
{
	json_int_t index = json_integer_value(json_object_get(piece, "index"));
	const json_t *function = json_object_get(piece, "function");
	const json_t *arguments = json_object_get(function, "arguments");
	struct chat_call *call;

	if (index < 0 || index >= CHAT_CALLS_MOST || (size_t)index > answer->call_count)
		return err_set(err, ERR_PROTOCOL, "the model calls too many tools at once");
	call = &answer->calls[index];
	if ((size_t)index == answer->call_count) {
		answer->call_count++;
		buf_init(&call->arguments, CHAT_ARGUMENTS_MOST);
	}
	copy_text(&call->id, json_object_get(piece, "id"));
	copy_text(&call->name, json_object_get(function, "name"));
	if (json_is_string(arguments) && buf_put(&call->arguments, json_string_value(arguments),
	                                         json_string_length(arguments)) < 0)
		return err_set(err, ERR_PROTOCOL, "the arguments of a tool call are too long");
	return 0;
}

static int take_delta(struct chat_answer *answer, const json_t *delta, const char **ret_text,
                      size_t *ret_len, struct err *err)
{
	const json_t *content = json_object_get(delta, "content");
	const json_t *calls = json_object_get(delta, "tool_calls");
	json_t *piece;
	size_t i;

	if (json_string_length(json_object_get(delta, "refusal")) > 0)
		answer->has_refusal = true;
	if (json_is_string(content)) {
		*ret_text = json_string_value(content);
		*ret_len = json_string_length(content);
		if (buf_put(&answer->text, *ret_text, *ret_len) < 0)
			return err_set(err, ERR_PROTOCOL, "the model's answer is too long");
	}
	json_array_foreach (calls, i, piece) {
		if (take_call(answer, piece, err) < 0)
			return -1;
	}
	return 0;
}

static uint64_t count_of(const json_t *object, const char *name)
{
	json_int_t count = json_integer_value(json_object_get(object, name));

	return count > 0 ? (uint64_t)count : 0;
}

static void take_usage(struct chat_answer *answer, const json_t *usage)
{
	if (!json_is_object(usage))
		return;
	answer->input = count_of(usage, "prompt_tokens");
	answer->output = count_of(usage, "completion_tokens");
	answer->cached = count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
}

static int take_failure(const json_t *error, struct err *err)
{
	const char *text = json_string_value(json_object_get(error, "message"));
	char shown[180];

	text = text ? text : json_is_string(error) ? json_string_value(error) : "no reason given";
	str_escape(shown, sizeof(shown), text, strlen(text));
	(void)err_set(err, ERR_UNAVAILABLE, "the model gateway says: %s", shown);
	err->sys = EPERM; /* it was begun and refused: asking again would be refused again */
	return -1;
}

/* NOLINTNEXTLINE(readability-function-size): two results of one event */
static int take_event(struct chat_answer *answer, const json_t *event, const char **ret_text,
                      size_t *ret_len, struct err *err)
{
	const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
	const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
	const json_t *error = json_object_get(event, "error");

	if (error && !json_is_null(error))
		return take_failure(error, err);
	if (!choice && json_is_string(json_object_get(event, "detail")))
		return take_failure(json_object_get(event, "detail"), err); /* RFC 9457 */
	take_usage(answer, json_object_get(event, "usage"));
	if (finish && !str_copy(answer->finish, sizeof(answer->finish), finish))
		return err_set(err, ERR_PROTOCOL, "the model's answer is malformed");
	return take_delta(answer, json_object_get(choice, "delta"), ret_text, ret_len, err);
}

int chat_answer_take(struct chat_answer *answer, const char *data, size_t len,
                     const char **ret_text, size_t *ret_len, struct err *err)
{
	static char kept[64 * 1024]; /* of the text: the event goes before it is read */
	json_t *event;
	int r;

	*ret_text = "";
	*ret_len = 0;
	if (len == strlen("[DONE]") && memcmp(data, "[DONE]", len) == 0) {
		answer->is_done = true;
		return 0;
	}
	event = json_loadb(data, len, JSON_ALLOW_NUL, NULL);
	if (!json_is_object(event)) {
		json_decref(event);
		return err_set(err, ERR_PROTOCOL, "the model's answer is not JSON");
	}
	r = take_event(answer, event, ret_text, ret_len, err);
	*ret_len = MIN(*ret_len, sizeof(kept) - 1);
	memcpy(kept, *ret_text, *ret_len);
	kept[*ret_len] = '\0';
	*ret_text = kept;
	json_decref(event);
	return r;
}

json_t *chat_answer_message(const struct chat_answer *answer)
{
	json_t *message = json_pack("{s:s}", "role", "assistant");
	json_t *calls;

	json_object_set_new(message, "content",
	                    buf_len(&answer->text) > 0
	                            ? json_stringn((const char *)buf_head(&answer->text),
	                                           buf_len(&answer->text))
	                            : json_null());
	if (answer->call_count == 0)
		return message;
	calls = json_array();
	for (size_t i = 0; i < answer->call_count; i++) {
		const struct chat_call *call = &answer->calls[i];
		size_t len = buf_len(&call->arguments);

		json_array_append_new(
			calls,
			json_pack("{s:s, s:s, s:{s:s, s:s%}}", "id", call->id ? call->id : "call",
		                  "type", "function", "function", "name",
		                  call->name ? call->name : "", "arguments",
		                  len ? (const char *)buf_head(&call->arguments) : "{}",
		                  len ? len : (size_t)2));
	}
	json_object_set_new(message, "tool_calls", calls);
	return message;
}

/* --- room --- */

static size_t size_of(const json_t *message)
{
	size_t bytes = 16 + json_string_length(json_object_get(message, "content"));
	const json_t *calls = json_object_get(message, "tool_calls");
	json_t *call;
	size_t i;

	json_array_foreach (calls, i, call)
		bytes += 32 + json_string_length(json_object_get(json_object_get(call, "function"),
		                                                 "arguments"));
	return bytes;
}

uint64_t chat_estimate(const json_t *messages)
{
	uint64_t bytes = 0;
	json_t *message;
	size_t i;

	json_array_foreach (messages, i, message)
		bytes += size_of(message);
	return bytes / BYTES_A_TOKEN;
}

static bool is_role(const json_t *message, const char *role)
{
	const char *text = json_string_value(json_object_get(message, "role"));

	return text && str_eq(text, role);
}

/* Where the last turn begins: its user message. */
static size_t last_turn(const json_t *messages)
{
	for (size_t i = json_array_size(messages); i-- > 0;) {
		if (is_role(json_array_get(messages, i), "user"))
			return i;
	}
	return 0;
}

static size_t shorten_results(json_t *messages, size_t until, uint64_t most)
{
	size_t changed = 0;

	for (size_t i = 0; i < until && chat_estimate(messages) > most; i++) {
		json_t *message = json_array_get(messages, i);

		if (!is_role(message, "tool") ||
		    json_string_length(json_object_get(message, "content")) <= RESULT_KEPT)
			continue;
		json_object_set_new(message, "content", json_string(LEFT_OUT));
		changed++;
	}
	return changed;
}

/* The first message of the list is the system's. */
static size_t drop_turns(json_t *messages, uint64_t most)
{
	size_t dropped = 0;

	while (last_turn(messages) > 1 && chat_estimate(messages) > most) {
		do {
			json_array_remove(messages, 1);
			dropped++;
		} while (last_turn(messages) > 1 && !is_role(json_array_get(messages, 1), "user"));
	}
	if (dropped > 0)
		json_array_insert_new(messages, 1,
		                      json_pack("{s:s, s:s}", "role", "user", "content", NOTE));
	return dropped;
}

size_t chat_compact(json_t *messages, uint64_t most)
{
	size_t changed = shorten_results(messages, last_turn(messages), most);

	changed += drop_turns(messages, most);
	/* A long turn: all results of it but the newest few can go, too. */
	if (chat_estimate(messages) > most && json_array_size(messages) > 6)
		changed += shorten_results(messages, json_array_size(messages) - 4, most);
	return changed;
}
