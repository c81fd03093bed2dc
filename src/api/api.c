#include "api/api.h"

#include "api/authz.h"
#include "api/call.h"
#include "api/holds.h"
#include "api/hub.h"
#include "api/identify.h"
#include "api/mcp.h"
#include "api/record.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "http/request.h"
#include "store/identity.h"

/* Whether any team has a floor: most machines have none, and then nobody need look. */
static bool has_floors(struct store *store)
{
	auto_free char *cursor = NULL;
	struct team_page page;
	bool found = false;

	do {
		page = (struct team_page){0};
		/* Who cannot look must assume it. */
		if (store_team_list(store, cursor, 0, &page, &(struct err){0}) < 0)
			return true;
		for (size_t i = 0; i < page.count; i++)
			found = found || page.items[i].trust_floor;
		mem_freep(&cursor);
		cursor = take_ptr(page.next_cursor);
		team_page_done(&page);
	} while (cursor && !found);
	return found;
}

struct api *api_new(const struct api_config *config)
{
	struct api *api = mem_new(struct api);

	/* Without memory jansson would call a body invalid, or leave a field out of an answer. Like
	 * the rest of the daemon it ends instead, and the broker starts it again. */
	json_set_alloc_funcs(mem_zalloc, free);
	api->loop = config->loop;
	api->store = config->store;
	api->config = config->config;
	api->engine = config->engine;
	api->tasks = config->tasks;
	api->hooks = config->hooks;
	api->sandboxes_fd = config->sandboxes_fd;
	api->spool_fd = config->spool_fd;
	api->state_path = mem_strdup(config->state_path);
	api->started_ms = io_real_ms();
	api->hub = hub_new(config->store);
	api->peers = config->peers;
	api->listen = config->listen ? mem_strdup(config->listen) : NULL;
	api->sign_public = config->sign_public;
	api->sign_secret = config->sign_secret;
	api->has_floors = has_floors(config->store);
	api->record = record_new(api);
	api->identify = identify_new(api);
	api->mcp = mcp_new();
	return api;
}

void api_shut(struct api *api)
{
	api->is_shut = true;
	identify_shut(api->identify);
	record_shut(api->record);
}

void api_free(struct api *api)
{
	if (!api)
		return;
	holds_free(api);
	mcp_free(api->mcp);
	hub_free(api->hub);
	identify_free(api->identify);
	record_free(api->record);
	mem_freep(&api->listen);
	mem_freep(&api->state_path);
	mem_freep(&api);
}

void api_on_event(const struct event *event, void *ctx)
{
	struct api *api = ctx;

	hub_publish(api->hub, event);
}

void api_on_refuse(struct request *request, enum err_code code, const char *detail, void *ctx)
{
	struct err err = {0};
	json_t *problem;
	auto_free char *text = NULL;

	(void)err_set(&err, code, "%s", detail); /* always -1 */
	problem = call_problem(&err);
	text = json_dumps(problem, JSON_COMPACT);
	json_decref(problem);
	request_answer(request, err_http(code), "application/problem+json", text, strlen(text));
}

/* --- from headers to the handler --- */

struct query_check {
	const struct route *route;
	struct err *err;
	int result;
};

static bool on_query(const char *name, const char *value, void *ctx)
{
	struct query_check *check = ctx;

	check->result = route_check_query(check->route, name, value, check->err);
	return check->result == 0;
}

static void on_body(struct request *request, const char *bytes, size_t len, void *ctx)
{
	struct call *call = ctx;
	struct err err = {0};

	if (schema_read(schema_find(call->route->request), bytes, len, &call->body, &err) < 0)
		call_fail(call, &err);
	else
		call_with_key(call, bytes, len, authz_enter);
}

/* The body never became complete: the client went, or the server refused its size. */
static void on_cut_off(struct request *request, bool gone, void *ctx)
{
	call_done(ctx);
}

static void on_whole_body(struct request *request, const char *bytes, size_t len, void *ctx)
{
	request_set_on_end(request, NULL, NULL);
	on_body(request, bytes, len, ctx);
}

static void proceed(struct call *call)
{
	auto_free char *seed = NULL;

	switch (call->route->body) {
	case ROUTE_JSON:
		request_set_on_end(call->request, on_cut_off, call);
		request_read_body(call->request, LIMIT_JSON_BODY_BYTES, on_whole_body, call);
		return;
	case ROUTE_RAW:
		/* The bytes are not here yet; name and length must do. */
		seed = mem_printf("%s %s %llu", call_query(call, "name", ""),
		                  call_query(call, "format", ""),
		                  (unsigned long long)request_body_length(call->request));
		call_with_key(call, seed, strlen(seed), authz_enter);
		return;
	case ROUTE_NONE:
		authz_enter(call);
		return;
	}
}

static void refuse(struct api *api, struct request *request, const struct err *err)
{
	api_on_refuse(request, err->code, err->msg, api);
}

/* Who asks is known and may use the route. Takes params and caller. */
static void enter(struct api *api, struct request *request, const struct route *route,
                  char *params[ROUTE_PARAMS], struct caller *caller)
{
	struct call *call = call_new(api, request, route);
	struct err err = {0};
	struct query_check check = {.route = route, .err = &err};

	memcpy(call->params, params, sizeof(call->params));
	call->caller = caller;
	request_each_query(request, on_query, &check);
	if (check.result < 0)
		call_fail(call, &err);
	else
		proceed(call);
}

void api_on_request(struct request *request, void *ctx)
{
	struct api *api = ctx;
	const struct route *route = NULL;
	char *params[ROUTE_PARAMS] = {0};
	struct caller *caller = NULL;
	struct err refusal = {0}, unknown = {0};
	char allow[64];
	int r = authz_gate(api, request, &refusal);

	if (r < 0)
		refuse(api, request, &refusal);
	if (r != 0)
		return;
	if (route_match(request_method(request), request_path(request), &route, params, allow,
	                &unknown) < 0)
		route = NULL;
	if (authz_admit(api, request, route, &caller, &refusal) < 0) {
		refuse(api, request, &refusal);
	} else if (route) {
		enter(api, request, route, params, caller);
		return;
	} else {
		if (unknown.code == ERR_METHOD)
			request_add_header(request, "Allow", allow);
		refuse(api, request, &unknown);
	}
	caller_unref(caller);
	for (size_t i = 0; i < ROUTE_PARAMS; i++)
		mem_freep(&params[i]);
}
