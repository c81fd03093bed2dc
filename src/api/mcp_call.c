/*
 * A tool call is a request to the route behind the tool, made here in the name of the caller
 * (http/virtual.h). What it answers becomes the tool's result. While it works, whoever gave a
 * progress token hears the events of the task it is about, and every now and then that it goes on.
 */
#include <stdio.h>

#include <sodium.h>

#include "api/call.h"
#include "api/holds.h"
#include "api/hub.h"
#include "api/mcp.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/base64.h"
#include "http/request.h"
#include "http/virtual.h"
#include "mcp/era.h"
#include "mcp/rpc.h"
#include "mcp/session.h"
#include "mcp/tools.h"
#include "model/config.h"

enum {
	ANSWER_MAX = 160 * 1024,
	/* Of one that is read here: a new task repeats what the request said of it. */
	MADE_MAX = LIMIT_JSON_BODY_BYTES + ANSWER_MAX,
	MESSAGE_MAX = 480 * 1024, /* what a stream sends in one piece */
	BEAT_MS = 10 * 1000,
	PROGRESS_MOST = 500,
	PAIRS = 24,
};

/* One request to be made; names and values are owned. */
struct ask {
	char *path;
	struct virtual_pair query[PAIRS];
	size_t query_count;
	json_t *body;
	uint8_t *bytes; /* in place of the body */
	size_t len;
};

/* A call that waits for a person: what is asked once it is allowed. */
struct held {
	struct hold *hold; /* NULL: none */
	struct request *from;
	const char *method;
	struct ask ask;
	unsigned wait_s;
};

struct exchange {
	struct api *api;
	struct caller *caller;
	unsigned flags; /* of the tool */
	struct held held;
	bool is_modern;
	json_t *id;
	json_t *token; /* of progress; NULL: nobody wants to hear */
	unsigned wait_s;
	struct stream *stream;
	struct request *asked; /* under way */
	struct hub_follower follower;
	unsigned progress;
	struct loop_timer beat;
	char *shown; /* what an answer that is no JSON is called */
};

static void ask_done(struct ask *ask)
{
	mem_freep(&ask->path);
	for (size_t i = 0; i < ask->query_count; i++) {
		free((void *)(uintptr_t)ask->query[i].name);
		free((void *)(uintptr_t)ask->query[i].value);
	}
	json_decref(ask->body);
	mem_freep(&ask->bytes);
}

/* --- telling --- */

static void put(struct exchange *exchange, json_t *message)
{
	char *text = json_dumps(message, JSON_COMPACT | JSON_REAL_PRECISION(12));

	must(text);
	json_decref(message);
	(void)stream_put(exchange->stream, text); /* nobody could read that much */
}

static json_t *text_content(const char *text, size_t len)
{
	return json_pack("{s:s, s:o}", "type", "text", "text", json_stringn(text, len));
}

static json_t *tool_result(const struct exchange *exchange, json_t *content, json_t *structured,
                           bool is_error)
{
	json_t *result = json_pack("{s:o, s:b}", "content", content, "isError", is_error);

	must(result);
	if (structured)
		json_object_set_new(result, "structuredContent", structured);
	if (exchange->is_modern)
		json_object_set_new(result, "resultType", json_string("complete"));
	return result;
}

static void end(struct exchange *exchange)
{
	struct stream *stream = exchange->stream;

	hub_unfollow(&exchange->follower);
	loop_timer_stop(&exchange->beat);
	request_unref(exchange->asked);
	caller_unref(exchange->caller);
	json_decref(exchange->id);
	json_decref(exchange->token);
	ask_done(&exchange->held.ask);
	request_unref(exchange->held.from);
	mem_freep(&exchange->shown);
	mem_freep(&exchange);
	stream_end(stream);
	stream_unref(stream);
}

static void end_with(struct exchange *exchange, json_t *result)
{
	put(exchange, rpc_result(exchange->id, result));
	end(exchange);
}

static void end_failed(struct exchange *exchange, const char *why)
{
	char shown[2 * sizeof(((struct err *)NULL)->msg)];
	json_t *content;

	/* It may quote an argument, cut inside a character. */
	if (!str_is_utf8(why, strlen(why))) {
		str_escape(shown, sizeof(shown), why, strlen(why));
		why = shown;
	}
	content = json_pack("[o]", text_content(why, strlen(why)));
	end_with(exchange, tool_result(exchange, content, NULL, true));
}

static void progress(struct exchange *exchange, const char *message)
{
	json_t *params;

	if (!exchange->token || exchange->progress >= PROGRESS_MOST)
		return;
	params = json_pack("{s:O, s:i, s:s}", "progressToken", exchange->token, "progress",
	                   ++exchange->progress, "message", message);
	put(exchange, rpc_notice("notifications/progress", params));
}

static void on_beat(struct loop_timer *timer, void *ctx)
{
	struct exchange *exchange = ctx;

	progress(exchange, "still at work");
	loop_timer_in(exchange->api->loop, timer, BEAT_MS, on_beat, exchange);
}

static bool on_event(uint64_t number, const char *kind, const char *json, void *ctx)
{
	json_t *event = json_loads(json, 0, NULL);
	const json_t *data = json_object_get(event, "data");
	const char *step = json_string_value(json_object_get(data, "step"));
	const char *status = json_string_value(json_object_get(data, "status"));
	auto_free char *text =
		step ? mem_printf("%s: %s %s", kind, step, status ? status : "") : mem_strdup(kind);

	progress(ctx, text);
	json_decref(event);
	return true;
}

static void on_news(struct hub_follower *follower, void *ctx)
{
	struct exchange *exchange = ctx;
	struct err err = {0};

	/* Progress is a courtesy: the result does not hang on it. */
	if (hub_take(follower, on_event, exchange, &err) < 0)
		hub_unfollow(follower);
}

static void follow(struct exchange *exchange, const char *task)
{
	if (!exchange->token || strlen(task) >= sizeof(exchange->follower.sandbox))
		return;
	hub_follow(exchange->api->hub, &exchange->follower, task, 0, on_news, exchange);
	hub_show(&exchange->follower, exchange->caller);
	on_news(&exchange->follower, exchange);
}

/* --- the answer --- */

/* The words of a problem document, for whoever reads only text. */
static json_t *problem_content(const json_t *problem, const struct virtual_answer *answer)
{
	const char *detail = json_string_value(json_object_get(problem, "detail"));

	return detail ? text_content(detail, strlen(detail))
	              : text_content(answer->bytes, answer->len);
}

static json_t *bytes_content(const struct exchange *exchange, const struct virtual_answer *answer)
{
	auto_free char *blob = mem_zalloc(BASE64_SIZE(answer->len));

	base64_encode(blob, answer->bytes, answer->len);
	return json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri",
	                 exchange->shown, "mimeType", "application/octet-stream", "blob", blob);
}

static json_t *content_of(const struct exchange *exchange, const struct virtual_answer *answer,
                          const json_t *document)
{
	json_t *content = json_array();
	bool is_text = str_is_utf8(answer->bytes, answer->len);

	if (answer->status >= 400)
		json_array_append_new(content, problem_content(document, answer));
	else if (answer->len == 0)
		json_array_append_new(content, text_content("done", 4));
	else if (is_text)
		json_array_append_new(content, text_content(answer->bytes, answer->len));
	else
		json_array_append_new(content, bytes_content(exchange, answer));
	if (answer->is_cut) {
		auto_free char *note =
			mem_printf("There is more: these are the first %zu bytes.", answer->len);

		json_array_append_new(content, text_content(note, strlen(note)));
	}
	return content;
}

/* Of a command: what it said, as text, and all of it besides. */
static void answer_command(struct exchange *exchange, json_t *document)
{
	const char *output = json_string_value(json_object_get(document, "output"));
	const char *errors = json_string_value(json_object_get(document, "errors"));
	bool ok = json_is_true(json_object_get(document, "ok"));
	json_t *content = json_array();

	if (output && (*output || !errors || !*errors))
		json_array_append_new(content, text_content(output, strlen(output)));
	if (errors && *errors)
		json_array_append_new(content, text_content(errors, strlen(errors)));
	end_with(exchange, tool_result(exchange, content, document, !ok));
}

static void answer_with(struct exchange *exchange, const struct virtual_answer *answer)
{
	json_t *document = strstr(answer->type, "json")
	                           ? json_loadb(answer->bytes, answer->len, 0, NULL)
	                           : NULL;
	json_t *content = content_of(exchange, answer, document);
	json_t *result;
	size_t size;

	if (!json_is_object(document)) {
		json_decref(document);
		document = NULL;
	}
	if (exchange->flags & TOOL_COMMAND && document && answer->status == 200) {
		json_decref(content);
		answer_command(exchange, document);
		return;
	}
	result = tool_result(exchange, content, document, answer->status >= 400);
	size = json_dumpb(result, NULL, 0, JSON_COMPACT);
	if (size <= MESSAGE_MAX) {
		end_with(exchange, result);
		return;
	}
	json_decref(result);
	end_failed(exchange, "the answer is too long for a tool; ask for a part of it, or use the "
	                     "REST API");
}

static void ask(struct exchange *exchange, struct request *from, const char *method,
                const struct ask *ask, unsigned wait_s);

/* The task that was made is waited for with a request of its own. False: the answer does not say
 * which it is. */
static bool wait_for_made(struct exchange *exchange, struct request *from,
                          const struct virtual_answer *answer)
{
	json_t *document = json_loadb(answer->bytes, answer->len, 0, NULL);
	const char *task =
		json_string_value(json_object_get(json_object_get(document, "task"), "id"));
	unsigned wait_s = exchange->wait_s;
	struct ask next = {0};

	exchange->wait_s = 0;
	if (task) {
		next.path = mem_printf("%s/tasks/%s", ROUTE_PREFIX, task);
		follow(exchange, task);
		ask(exchange, from, "GET", &next, wait_s);
		ask_done(&next);
	}
	json_decref(document);
	return task != NULL;
}

static void on_answer(const struct virtual_answer *answer, void *ctx)
{
	struct exchange *exchange = ctx;
	struct request *asked = take_ptr(exchange->asked);
	bool is_made = answer->status < 300 && exchange->wait_s > 0;

	if (answer->status == 0)
		end(exchange); /* cancelled, or the daemon ends: nobody waits for an answer */
	else if (!is_made || !wait_for_made(exchange, asked, answer))
		answer_with(exchange, answer);
	request_unref(asked);
}

/* --- the question --- */

static void add_header(struct virtual_pair *headers, size_t *count, const char *name,
                       const char *value)
{
	if (value)
		headers[(*count)++] = (struct virtual_pair){name, value};
}

static void ask(struct exchange *exchange, struct request *from, const char *method,
                const struct ask *ask, unsigned wait_s)
{
	auto_free char *text = ask->body ? json_dumps(ask->body, JSON_COMPACT) : NULL;
	struct virtual_pair headers[4];
	struct virtual_wish wish = {
		.method = method,
		.path = ask->path,
		.query = ask->query,
		.query_count = ask->query_count,
		.headers = headers,
		.body = text ? (const void *)text : ask->bytes,
		.body_len = text ? strlen(text) : ask->len,
		.answer_max = exchange->wait_s > 0 ? MADE_MAX : ANSWER_MAX,
	};
	char prefer[24];

	(void)snprintf(prefer, sizeof(prefer), "wait=%u", wait_s);
	/* Who asks. Nothing else of theirs is meant for this request. */
	add_header(headers, &wish.header_count, "Host", request_header(from, "Host"));
	add_header(headers, &wish.header_count, "Authorization",
	           request_header(from, "Authorization"));
	add_header(headers, &wish.header_count, "Cloche-Team", request_header(from, "Cloche-Team"));
	add_header(headers, &wish.header_count, "Prefer",
	           wait_s > 0 || exchange->flags & TOOL_AWAITS ? prefer : NULL);
	exchange->asked = request_ref(
		virtual_ask(from, &wish, on_answer, exchange, api_on_request, exchange->api));
}

/* A value of the path or the query as text; NULL: it has none. The caller frees. */
static char *text_of(const json_t *value)
{
	if (json_is_string(value))
		return mem_strdup(json_string_value(value));
	if (json_is_integer(value))
		return mem_printf("%lld", (long long)json_integer_value(value));
	if (json_is_boolean(value))
		return mem_strdup(json_is_true(value) ? "true" : "false");
	return NULL;
}

/* The path with its {…} filled in from the arguments, which lose them. */
static int fill_path(const struct route *route, json_t *arguments, char **ret, struct err *err)
{
	auto_free char *path = mem_strdup(route_prefix(route));

	for (const char *at = route->path; *at;) {
		size_t len = strcspn(at, "{");
		auto_free char *name =
			at[len] ? mem_strndup(at + len + 1, strcspn(at + len + 1, "}")) : NULL;
		auto_free char *value = name ? text_of(json_object_get(arguments, name)) : NULL;
		char *longer;

		if (name && (!value || !*value || strchr(value, '/')))
			return err_set(err, ERR_INVALID, "'%s' must be an id or a name", name);
		longer = mem_printf("%s%.*s%s", path, (int)len, at, value ? value : "");
		mem_freep(&path);
		path = longer;
		if (name)
			json_object_del(arguments, name);
		at += name ? len + strlen(name) + 2 : len;
	}
	*ret = take_ptr(path);
	return 0;
}

/* What is left of the arguments of a route without a JSON body. Those it does not know are refused
 * there, with the nearest that it knows. */
static int fill_query(const json_t *arguments, struct ask *ask, struct err *err)
{
	const char *name;
	json_t *value;
	char shown[80];

	json_object_foreach ((json_t *)(uintptr_t)arguments, name, value) {
		char *text = text_of(value);

		if (!text || ask->query_count == PAIRS) {
			mem_freep(&text);
			str_escape(shown, sizeof(shown), name, strlen(name));
			return err_set(err, ERR_INVALID, "'%s' has a value it cannot have", shown);
		}
		ask->query[ask->query_count++] = (struct virtual_pair){mem_strdup(name), text};
	}
	return 0;
}

static int fill_bytes(json_t *arguments, struct ask *ask, struct err *err)
{
	const json_t *content = json_object_get(arguments, "content");
	const json_t *encoded = json_object_get(arguments, "contentBase64");
	const char *text = json_string_value(content ? content : encoded);
	size_t len = json_string_length(content ? content : encoded);

	if (!text || (content && encoded))
		return err_set(err, ERR_INVALID, "give 'content' or 'contentBase64'");
	ask->bytes = mem_zalloc(len + 1);
	ask->len = len;
	if (content)
		memcpy(ask->bytes, text, len);
	else if (sodium_base642bin(ask->bytes, len + 1, text, len, "\r\n", &ask->len, NULL,
	                           sodium_base64_VARIANT_ORIGINAL) < 0)
		return err_set(err, ERR_INVALID, "'contentBase64' is not base64");
	json_object_del(arguments, "content");
	json_object_del(arguments, "contentBase64");
	return 0;
}

static int take_wait(struct exchange *exchange, json_t *arguments, struct err *err)
{
	const json_t *wait = json_object_get(arguments, "waitSeconds");
	json_int_t most = TOOL_WAIT_MOST_S;

	if (!(exchange->flags & (TOOL_WAITS | TOOL_AWAITS)))
		return 0;
	if (wait && (!json_is_integer(wait) || json_integer_value(wait) < 0 ||
	             json_integer_value(wait) > most))
		return err_set(err, ERR_INVALID, "'waitSeconds' is a whole number up to %d",
		               TOOL_WAIT_MOST_S);
	exchange->wait_s = exchange->flags & TOOL_AWAITS ? TOOL_WAIT_MOST_S : 0;
	if (wait)
		exchange->wait_s = (unsigned)json_integer_value(wait);
	json_object_del(arguments, "waitSeconds");
	return 0;
}

static int make_ask(struct exchange *exchange, const struct route *route, json_t *arguments,
                    struct ask *ask, struct err *err)
{
	if (take_wait(exchange, arguments, err) < 0)
		return -1;
	if (exchange->flags & TOOL_AWAITS) {
		const char *task = json_string_value(json_object_get(arguments, "task"));
		const char *session = json_string_value(json_object_get(arguments, "session"));

		follow(exchange, task ? task : session ? session : "");
	}
	if (fill_path(route, arguments, &ask->path, err) < 0)
		return -1;
	exchange->shown = mem_printf("cloche://%s", ask->path);
	if (route->body == ROUTE_JSON) {
		ask->body = json_incref(arguments);
		return 0;
	}
	if (route->body == ROUTE_RAW && fill_bytes(arguments, ask, err) < 0)
		return -1;
	return fill_query(arguments, ask, err);
}

static void on_cancel(struct stream *stream, void *ctx)
{
	struct exchange *exchange = ctx;

	if (exchange->held.hold) {
		hold_drop(take_ptr(exchange->held.hold));
		end(exchange);
	} else if (exchange->asked) {
		virtual_abandon(exchange->asked);
	}
}

/* --- a person's word --- */

static void on_held(const struct err *err, void *ctx)
{
	struct exchange *exchange = ctx;
	struct held *held = &exchange->held;

	held->hold = NULL;
	if (err->code != ERR_OK)
		end_failed(exchange, err->msg);
	else if (request_is_gone(held->from))
		end_failed(exchange, "the connection broke while the call waited: call again");
	else
		ask(exchange, held->from, held->method, &held->ask, held->wait_s);
}

/* Takes the wish. */
static void hold_back(struct exchange *exchange, struct call *call, const struct hold_wish *wish,
                      struct ask *asked)
{
	struct err err = {0};

	exchange->held.from = request_ref(call->request);
	exchange->held.ask = *asked;
	*asked = (struct ask){0};
	exchange->held.hold = hold_new(call->api, call->caller, wish, on_held, exchange, &err);
	if (!exchange->held.hold)
		end_failed(exchange, err.msg);
	else
		progress(exchange, "waits for a person");
}

void mcp_call(struct call *call, const struct tool *tool, json_t *arguments, const struct rpc *rpc,
              const struct era *era, struct stream *stream)
{
	const struct route *route = mcp_route(tool);
	const json_t *meta = json_object_get(rpc->params, "_meta");
	json_t *token = json_object_get(meta, "progressToken");
	struct exchange *exchange = mem_new(struct exchange);
	struct hold_wish hold = {tool->name, json_object_get(rpc->params, "arguments"),
	                         call->api->config->mcp_ask_ms};
	struct ask wish = {0};
	struct err err = {0};
	unsigned now_s;

	exchange->api = call->api;
	exchange->caller = caller_ref(call->caller);
	exchange->flags = tool->flags;
	exchange->is_modern = era->is_modern;
	exchange->id = json_deep_copy(rpc->id);
	exchange->token =
		json_is_string(token) || json_is_integer(token) ? json_incref(token) : NULL;
	exchange->stream = stream_ref(stream);
	stream->on_cancel = on_cancel;
	stream->maker = exchange;
	if (exchange->token)
		loop_timer_in(call->api->loop, &exchange->beat, BEAT_MS, on_beat, exchange);
	if (make_ask(exchange, route, arguments, &wish, &err) < 0) {
		end_failed(exchange, err.msg);
	} else {
		/* One that waits for what is there waits with its own request. */
		now_s = tool->flags & TOOL_AWAITS ? exchange->wait_s : 0;
		if (tool->flags & TOOL_AWAITS)
			exchange->wait_s = 0;
		if (tool->flags & TOOL_WAITS)
			progress(exchange, "accepted");
		exchange->held.method = route_method_name(route->method);
		exchange->held.wait_s = now_s;
		if (tool->flags & TOOL_ASKS)
			hold_back(exchange, call, &hold, &wish);
		else
			ask(exchange, call->request, exchange->held.method, &wish, now_s);
	}
	ask_done(&wish);
	json_decref(arguments);
}
