#include "api/call.h"

#include <sodium.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/request.h"
#include "store/store.h"

enum {
	KEY_MAX = 255,
	KEY_DAYS_MS = 24 * 3600 * 1000,
	HASH_BYTES = 16,
};

struct call *call_new(struct api *api, struct request *request, const struct route *route)
{
	struct call *call = mem_new(struct call);

	call->api = api;
	call->request = request_ref(request);
	call->route = route;
	return call;
}

static void unlink_keyed(struct call *call)
{
	for (struct call **at = &call->api->keyed; *at; at = &(*at)->next_keyed) {
		if (*at == call) {
			*at = call->next_keyed;
			return;
		}
	}
}

void call_done(struct call *call)
{
	unlink_keyed(call);
	for (size_t i = 0; i < ROUTE_PARAMS; i++)
		mem_freep(&call->params[i]);
	json_decref(call->body);
	caller_unref(call->caller);
	sandbox_free(call->sandbox);
	mem_freep(&call->key);
	mem_freep(&call->key_route);
	mem_freep(&call->key_hash);
	mem_freep(&call->text);
	request_unref(call->request);
	mem_freep(&call);
}

static void send(struct call *call)
{
	const char *type = call->status >= 400 ? "application/problem+json" : "application/json";
	const char *text = call->text ? call->text : "";

	request_answer(call->request, call->status, *text ? type : NULL, text, strlen(text));
	call_done(call);
}

static void on_key_stored(const struct store_result *result, void *ctx)
{
	if (!result->ok)
		log_error("an answer could not be kept under its key", LOG_ERR(&result->err));
	send(ctx);
}

/* A failure of ours is not kept: the client may try again with the same key. */
static void store_key(struct call *call)
{
	struct store_write *write = store_write_new(call->api->store);
	struct idempotency entry = {
		.key = call->key,
		.route = call->key_route,
		.body_hash = call->key_hash,
		.status = call->status,
		.response = call->text,
		.expires_ms = io_real_ms() + KEY_DAYS_MS,
	};

	if (call->status >= 500)
		store_delete_idempotency(write, call->key, call->key_route);
	else
		store_put_idempotency(write, &entry);
	store_expire_idempotency(write, io_real_ms());
	store_write_submit(write, on_key_stored, call);
}

static void finish(struct call *call, int status, char *text)
{
	call->status = status;
	call->text = text;
	if (call->key && !call->api->is_shut)
		store_key(call);
	else
		send(call);
}

void call_answer(struct call *call, int status, json_t *json)
{
	char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(12));

	must(text);
	json_decref(json);
	finish(call, status, text);
}

void call_answer_empty(struct call *call)
{
	finish(call, call->route->status, NULL);
}

static const char *title_of(int status)
{
	static const struct {
		int status;
		const char *title;
	} titles[] = {
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{409, "Conflict"},
		{410, "Gone"},
		{413, "Content Too Large"},
		{422, "Unprocessable Content"},
		{429, "Too Many Requests"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{507, "Insufficient Storage"},
	};

	for (size_t i = 0; i < ARRAY_LEN(titles); i++) {
		if (titles[i].status == status)
			return titles[i].title;
	}
	return "Error";
}

json_t *call_problem(const struct err *err)
{
	const char *name = err_name(err->code);
	int status = err_http(err->code);
	char shown[2 * sizeof(err->msg)];
	const char *detail = err->msg;
	json_t *problem;

	/* A message may quote bytes from outside. */
	if (!str_is_utf8(detail, strlen(detail))) {
		str_escape(shown, sizeof(shown), detail, strlen(detail));
		detail = shown;
	}
	problem =
		json_pack("{s:s+, s:s, s:i, s:s, s:s}", "type", "urn:cloche:error:", name, "title",
	                  title_of(status), "status", status, "detail", detail, "code", name);
	must(problem);
	return problem;
}

void call_fail(struct call *call, const struct err *err)
{
	json_t *problem = call_problem(err);
	char *text = json_dumps(problem, JSON_COMPACT);

	json_decref(problem);
	finish(call, err_http(err->code), text);
}

/* --- what handlers ask --- */

const char *call_query(const struct call *call, const char *name, const char *otherwise)
{
	const char *value = request_query(call->request, name);

	return value ? value : otherwise;
}

uint64_t call_query_u64(const struct call *call, const char *name, uint64_t otherwise)
{
	const char *value = request_query(call->request, name);
	uint64_t number;

	return value && str_to_u64(value, &number) == 0 ? number : otherwise;
}

bool call_query_bool(const struct call *call, const char *name)
{
	const char *value = request_query(call->request, name);

	return value && !str_eq(value, "0") && !str_eq(value, "false");
}

int call_sandbox(struct call *call, struct sandbox **ret)
{
	struct err err = {0};

	/* authz_enter found and checked it; for a route that outlives its sandbox it may be gone.
	 */
	*ret = take_ptr(call->sandbox);
	if (*ret)
		return 0;
	(void)err_set(&err, ERR_NOT_FOUND, "no sandbox '%s'", call->params[0]); /* always -1 */
	call_fail(call, &err);
	return -1;
}

int call_exec(struct call *call, struct sandbox **ret_sandbox, struct exec **ret_exec)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct err err = {0};

	if (call_sandbox(call, &sandbox) < 0)
		return -1;
	if (store_exec_get(call->api->store, call->params[1], &exec, &err) < 0 ||
	    !str_eq(exec->sandbox.text, sandbox->id.text)) {
		if (err.code == ERR_OK || err.code == ERR_NOT_FOUND)
			(void)err_set(&err, ERR_NOT_FOUND, "no exec '%s' in this sandbox",
			              call->params[1]); /* always -1 */
		call_fail(call, &err);
		return -1;
	}
	*ret_sandbox = take_ptr(sandbox);
	*ret_exec = take_ptr(exec);
	return 0;
}

/* --- idempotency --- */

struct keyed {
	struct call *call;
	route_handler proceed;
};

static void on_key_claimed(const struct store_result *result, void *ctx)
{
	auto_free struct keyed *keyed = ctx;
	struct call *call = keyed->call;
	struct err err = {0};

	if (!result->ok) {
		mem_freep(&call->key);
		call_fail(call, &result->err);
	} else if (call->route->body == ROUTE_RAW && request_is_gone(call->request)) {
		(void)err_set(&err, ERR_UNAVAILABLE, "the body never came"); /* always -1 */
		call_fail(call, &err);
	} else {
		keyed->proceed(call);
	}
}

static void refuse_key(struct call *call, const char *why)
{
	struct err err = {0};

	(void)err_set(&err, ERR_CONFLICT, "Idempotency-Key: %s", why); /* always -1 */
	mem_freep(&call->key);
	call_fail(call, &err);
}

/* The key is known: say again what was said, or why not. */
static void replay(struct call *call, struct idempotency *entry)
{
	if (!str_eq(entry->body_hash, call->key_hash)) {
		refuse_key(call, "this key was used with another request");
	} else if (entry->status == 0) {
		/* Not under way (that was checked before): the daemon died over it, and what
		 * became of it is in the lists. Doing it again could do it twice. */
		refuse_key(
			call,
			"the first request was cut off; look what it left, then use another key");
	} else {
		mem_freep(&call->key);
		request_add_header(call->request, "Idempotency-Replayed", "true");
		finish(call, entry->status, entry->response ? mem_strdup(entry->response) : NULL);
	}
	idempotency_free(entry);
}

static void claim_key(struct call *call, route_handler proceed)
{
	struct keyed *keyed = mem_new(struct keyed);
	struct store_write *write = store_write_new(call->api->store);
	struct idempotency entry = {
		.key = call->key,
		.route = call->key_route,
		.body_hash = call->key_hash,
		.expires_ms = io_real_ms() + KEY_DAYS_MS,
	};

	call->next_keyed = call->api->keyed;
	call->api->keyed = call;
	keyed->call = call;
	keyed->proceed = proceed;
	store_put_idempotency(write, &entry);
	store_write_submit(write, on_key_claimed, keyed);
}

static bool is_under_way(const struct call *call)
{
	for (const struct call *other = call->api->keyed; other; other = other->next_keyed) {
		if (str_eq(other->key, call->key) && str_eq(other->key_route, call->key_route))
			return true;
	}
	return false;
}

void call_with_key(struct call *call, const void *bytes, size_t len, route_handler proceed)
{
	const char *key = request_header(call->request, "Idempotency-Key");
	struct idempotency *entry = NULL;
	uint8_t hash[HASH_BYTES];
	char hex[2 * HASH_BYTES + 1];
	struct err err = {0};

	if (!key || !(call->route->flags & ROUTE_KEYED)) {
		proceed(call);
		return;
	}
	if (!*key || strlen(key) > KEY_MAX) {
		refuse_key(call, "1 to 255 characters are possible");
		return;
	}
	crypto_generichash(hash, sizeof(hash), bytes, len, NULL, 0);
	sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
	call->key = mem_strdup(key);
	/* Nobody is answered with what somebody else was. */
	call->key_route = mem_printf("%s %s %s %s", request_method(call->request),
	                             request_path(call->request), call->caller->principal.text,
	                             call->caller->team.text);
	call->key_hash = mem_strdup(hex);
	if (is_under_way(call)) {
		refuse_key(call, "the first request is still being worked on");
	} else if (store_idempotency_get(call->api->store, key, call->key_route, io_real_ms(),
	                                 &entry, &err) == 0) {
		replay(call, entry);
	} else if (err.code == ERR_NOT_FOUND) {
		claim_key(call, proceed);
	} else {
		mem_freep(&call->key);
		call_fail(call, &err);
	}
}
