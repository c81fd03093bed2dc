#include "acp/message.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

static int refuse(struct acp_message *message, struct err *err, const char *why)
{
	acp_message_done(message);
	return err_set(err, ERR_PROTOCOL, "the agent sent a message that %s", why);
}

static bool is_id(const json_t *id)
{
	return json_is_integer(id) || json_is_string(id) || json_is_null(id);
}

/* By the members it has, as JSON-RPC tells them apart. */
static int sort_out(struct acp_message *message, struct err *err)
{
	const json_t *method = json_object_get(message->root, "method");

	message->id = json_object_get(message->root, "id");
	message->params = json_object_get(message->root, "params");
	message->result = json_object_get(message->root, "result");
	message->error = json_object_get(message->root, "error");
	if (message->id && !is_id(message->id))
		return refuse(message, err, "has no usable id");
	if (method && !json_is_string(method))
		return refuse(message, err, "has no usable method");
	if (message->params && !json_is_object(message->params))
		return refuse(message, err, "has no usable params");
	if (method) {
		message->method = json_string_value(method);
		message->kind = message->id ? ACP_REQUEST : ACP_NOTIFICATION;
		return 0;
	}
	if (json_is_null(message->error))
		message->error = NULL;
	if (!message->id || (!message->result && !message->error))
		return refuse(message, err, "is neither a question nor an answer");
	if (message->error && !json_is_object(message->error))
		return refuse(message, err, "has no usable error");
	message->kind = ACP_RESPONSE;
	return 0;
}

int acp_parse(const char *line, size_t len, struct acp_message *ret, struct err *err)
{
	json_error_t at;

	*ret = (struct acp_message){.root = json_loadb(line, len, JSON_ALLOW_NUL, &at)};
	if (!ret->root)
		return refuse(ret, err, "is not JSON");
	if (!json_is_object(ret->root))
		return refuse(ret, err, "is not an object");
	return sort_out(ret, err);
}

void acp_message_done(struct acp_message *message)
{
	json_decref(message->root);
	*message = (struct acp_message){0};
}

/* Takes the message. */
static char *line_of(json_t *message)
{
	char *text = json_dumps(message, JSON_COMPACT);
	char *line;

	must(text); /* what we put together can be written */
	line = mem_printf("%s\n", text);
	free(text);
	json_decref(message);
	return line;
}

static json_t *or_empty(json_t *object)
{
	return object ? object : json_object();
}

char *acp_request(uint64_t id, const char *method, json_t *params)
{
	return line_of(json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", (json_int_t)id,
	                         "method", method, "params", or_empty(params)));
}

char *acp_notification(const char *method, json_t *params)
{
	return line_of(json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params",
	                         or_empty(params)));
}

static json_t *copy_id(const json_t *id)
{
	return id ? json_deep_copy(id) : json_null();
}

char *acp_result(const json_t *id, json_t *result)
{
	return line_of(json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", copy_id(id), "result",
	                         or_empty(result)));
}

char *acp_error(const json_t *id, int code, const char *text)
{
	char shown[300];

	str_escape(shown, sizeof(shown), text, strlen(text));
	return line_of(json_pack("{s:s, s:o, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", copy_id(id),
	                         "error", "code", code, "message", shown));
}

const char *acp_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* --- lines --- */

void acp_lines_init(struct acp_lines *lines)
{
	*lines = (struct acp_lines){0};
	buf_init(&lines->rest, ACP_LINE_MOST);
}

void acp_lines_done(struct acp_lines *lines)
{
	buf_done(&lines->rest);
}

static void tell(const char *line, size_t len, acp_on_line on_line, void *ctx)
{
	while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
		len--;
	if (len > 0)
		on_line(line, len, ctx);
}

int acp_lines_feed(struct acp_lines *lines, uint64_t offset, const void *bytes, size_t len,
                   acp_on_line on_line, void *ctx)
{
	const char *at = bytes;

	while (len > 0) {
		const char *end = memchr(at, '\n', len);
		size_t take = end ? (size_t)(end - at) : len;

		if (buf_len(&lines->rest) == 0)
			lines->start = offset;
		if (!end || buf_len(&lines->rest) > 0) {
			if (buf_put(&lines->rest, at, take) < 0)
				return -EMSGSIZE;
		}
		if (!end)
			return 0;
		if (buf_len(&lines->rest) > 0) {
			/* on_line may look at where the next line begins: this one is done with. */
			size_t size = buf_len(&lines->rest);
			auto_free char *whole = buf_take_string(&lines->rest);

			lines->start = offset + take + 1;
			tell(whole, size, on_line, ctx);
		} else {
			lines->start = offset + take + 1;
			tell(at, take, on_line, ctx);
		}
		at += take + 1;
		len -= take + 1;
		offset += take + 1;
	}
	return 0;
}
