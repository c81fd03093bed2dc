#include "acp/transcript.h"

#include "base/str.h"

void transcript_init(struct transcript *transcript)
{
	*transcript = (struct transcript){0};
	acp_lines_init(&transcript->lines);
	buf_init(&transcript->text, 2 * ACP_LINE_MOST);
}

void transcript_done(struct transcript *transcript)
{
	acp_lines_done(&transcript->lines);
	buf_done(&transcript->text);
}

/* The text is at most as long as the line that it came in, and taken after each feed. */
static void put(struct transcript *transcript, const char *text, size_t len)
{
	if (len == 0)
		return;
	(void)!buf_put(&transcript->text, text, len);
	transcript->is_open = text[len - 1] != '\n';
}

static void end_line(struct transcript *transcript)
{
	if (transcript->is_open)
		put(transcript, "\n", 1);
}

static void take_update(struct transcript *transcript, const json_t *update)
{
	const char *kind = acp_text(update, "sessionUpdate");
	const json_t *text = json_object_get(json_object_get(update, "content"), "text");

	if (str_eq(kind, "agent_message_chunk"))
		put(transcript, json_string_value(text), json_string_length(text));
	else if (str_eq(kind, "tool_call"))
		end_line(transcript);
}

static void on_line(const char *line, size_t len, void *ctx)
{
	struct transcript *transcript = ctx;
	struct acp_message message;
	struct err err = {0};

	if (acp_parse(line, len, &message, &err) < 0)
		return;
	if (message.kind == ACP_NOTIFICATION && str_eq(message.method, "session/update"))
		take_update(transcript, json_object_get(message.params, "update"));
	else if (message.kind == ACP_RESPONSE && json_object_get(message.result, "stopReason"))
		end_line(transcript);
	acp_message_done(&message);
}

void transcript_feed(struct transcript *transcript, const void *bytes, size_t len)
{
	if (acp_lines_feed(&transcript->lines, 0, bytes, len, on_line, transcript) < 0) {
		acp_lines_done(&transcript->lines); /* it broke the protocol; its run says so */
		acp_lines_init(&transcript->lines);
	}
}
