/* A question to a forge's API: JSON there and back, bounded, on the way as long as it takes. */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "gateway/forge_impl.h"

enum { ANSWER_MOST = 1024 * 1024, CALL_MS = 60 * 1000 };

struct forge_call {
	struct forge_call *next, **link;
	struct upstream *upstream;
	char *sent;
	size_t sent_len, sent_at;
	struct buf answer;
	int status;
	forge_on_answer on_answer;
	void *ctx;
};

static void call_free(struct forge_call *call)
{
	*call->link = call->next;
	if (call->next)
		call->next->link = call->link;
	buf_done(&call->answer);
	mem_freep(&call->sent);
	mem_freep(&call);
}

static void on_header(const char *name, const char *value, void *ctx)
{
}

static void on_head(int status, uint64_t length, void *ctx)
{
	struct forge_call *call = ctx;

	call->status = status;
}

static int on_bytes(const void *bytes, size_t len, void *ctx)
{
	struct forge_call *call = ctx;

	return buf_put(&call->answer, bytes, len) < 0 ? -1 : 1;
}

static ssize_t on_body(void *to, size_t max, void *ctx)
{
	struct forge_call *call = ctx;
	size_t len = MIN(max, call->sent_len - call->sent_at);

	if (len == 0)
		return -1;
	memcpy(to, call->sent + call->sent_at, len);
	call->sent_at += len;
	return (ssize_t)len;
}

static void on_end(const struct err *err, void *ctx)
{
	struct forge_call *call = ctx;
	forge_on_answer on_answer = call->on_answer;
	void *their_ctx = call->ctx;
	bool is_good = err->code == ERR_OK && call->status > 0;
	json_t *body = is_good && buf_len(&call->answer) > 0
	                       ? json_loadb((const char *)buf_head(&call->answer),
	                                    buf_len(&call->answer), JSON_DECODE_ANY, NULL)
	                       : NULL;
	int status = is_good ? call->status : 0;
	struct err failed = *err;

	if (!is_good && err->code == ERR_OK)
		(void)err_set(&failed, ERR_PROTOCOL, "the forge gave no answer"); /* always -1 */
	call_free(call);
	on_answer(status, body, &failed, their_ctx);
	json_decref(body);
}

void forge_call_fill(const struct forge *forge, struct upstream_call *call)
{
	call->fd = -1;
	call->is_anywhere = true; /* config.toml names it */
}

static void put_headers(const struct forge_ask *ask, struct strings *headers)
{
	strings_take(headers, mem_printf("Authorization: %s", ask->auth));
	strings_add(headers, ask->forge->kind == FORGE_GITHUB
	                             ? "Accept: application/vnd.github+json"
	                             : "Accept: application/json");
	strings_add(headers, "User-Agent: cloche"); /* GitHub answers nobody without one */
	if (ask->body)
		strings_add(headers, "Content-Type: application/json");
}

struct forge_call *forge_call_start(struct forgeway *forgeway, const struct forge_ask *ask,
                                    forge_on_answer on_answer, void *ctx)
{
	static const struct upstream_ops ops = {
		.on_header = on_header,
		.on_head = on_head,
		.on_bytes = on_bytes,
		.on_body = on_body,
		.on_end = on_end,
	};
	struct forge_call *call = mem_new(struct forge_call);
	auto_free char *url = mem_printf("%s%s", ask->forge->api_url, ask->path);
	struct strings headers = {0};
	struct upstream_call how = {
		.method = ask->method, .url = url, .headers = &headers, .timeout_ms = CALL_MS};

	*call = (struct forge_call){.next = forgeway->calls,
	                            .link = &forgeway->calls,
	                            .on_answer = on_answer,
	                            .ctx = ctx};
	if (call->next)
		call->next->link = &call->next;
	forgeway->calls = call;
	buf_init(&call->answer, ANSWER_MOST);
	put_headers(ask, &headers);
	if (ask->body) {
		call->sent = json_dumps(ask->body, JSON_COMPACT);
		call->sent_len = call->sent ? strlen(call->sent) : 0;
		how.has_body = true;
		how.body_length = call->sent_len;
	}
	forge_call_fill(ask->forge, &how);
	call->upstream = upstream_start(forgeway->config.upstreams, &how, &ops, call);
	explicit_bzero(headers.items[0], strlen(headers.items[0]));
	strings_done(&headers);
	return call;
}

void forge_call_drop(struct forge_call *call)
{
	if (!call)
		return;
	upstream_drop(call->upstream);
	call_free(call);
}

void forge_call_drop_all(struct forgeway *forgeway)
{
	while (forgeway->calls)
		forge_call_drop(forgeway->calls);
}

/* What a forge says is foreign text. */
static void take_message(const json_t *body, char *out, size_t size)
{
	const json_t *first = json_array_get(json_object_get(body, "errors"), 0);
	const char *message = json_string_value(json_object_get(body, "message"));
	const char *more = json_string_value(first);

	if (!more)
		more = json_string_value(json_object_get(first, "message"));
	str_escape(out, size, message ? message : "", message ? strlen(message) : 0);
	if (more && strlen(out) + 3 < size) {
		size_t used = strlen(out);

		(void)snprintf(out + used, size - used, ": ");
		used = strlen(out);
		str_escape(out + used, size - used, more, strlen(more));
	}
}

int forge_complain(const struct forge *forge, const char *what, int status, const json_t *body,
                   struct err *err)
{
	enum err_code code = status == 401 || status == 403   ? ERR_FORBIDDEN
	                     : status == 404                  ? ERR_NOT_FOUND
	                     : status >= 500 || status == 429 ? ERR_UNAVAILABLE
	                                                      : ERR_INVALID;
	char text[120];

	take_message(body, text, sizeof(text));
	return err_set(err, code, "%s: forge %.40s answers %d%s%s", what, forge->name, status,
	               text[0] ? ": " : "", text);
}
