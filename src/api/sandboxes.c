#include <string.h>

#include "api/authz.h"
#include "api/call.h"
#include "api/decode.h"
#include "api/encode.h"
#include "api/hub.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "model/entry.h"
#include "store/store.h"

enum { GRACE_MS = 5000, GRACE_MAX_MS = 3600 * 1000, WAIT_MAX_MS = 24 * 3600 * 1000 };

static void on_sandbox(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct call *call = ctx;

	if (sandbox)
		call_answer(call, call->route->status, encode_sandbox(sandbox));
	else
		call_fail(call, err);
}

static void on_done(const struct err *err, void *ctx)
{
	struct call *call = ctx;

	if (err->code == ERR_OK)
		call_answer_empty(call);
	else
		call_fail(call, err);
}

void handle_sandbox_create(struct call *call)
{
	struct engine *engine = call->api->engine;
	struct spec spec;
	struct err err = {0};

	if (authz_spec(call->api, call->caller, call->audit, call->body, &spec, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	engine->ops->create(engine, &spec, on_sandbox, call);
	spec_done(&spec);
}

/* --- list --- */

/* Calls `each` with every part of a comma-separated list. */
static int each_part(const char *list, int (*each)(const char *part, void *ctx, struct err *err),
                     void *ctx, struct err *err)
{
	while (*list) {
		size_t len = strcspn(list, ",");
		auto_free char *part = mem_strndup(list, len);

		if (each(part, ctx, err) < 0)
			return -1;
		list += len;
		list += *list == ',';
	}
	return 0;
}

static int add_state(const char *part, void *ctx, struct err *err)
{
	uint32_t *mask = ctx;
	enum sandbox_state state = sandbox_state_from(part);

	if (state == SANDBOX_NONE)
		return err_set(err, ERR_INVALID, "there is no state '%.40s'", part);
	*mask |= 1u << state;
	return 0;
}

static int add_label(const char *part, void *ctx, struct err *err)
{
	struct strings *labels = ctx;

	if (entry_check_label(part, err) < 0)
		return -1;
	strings_add(labels, part);
	return 0;
}

static int list(struct call *call, struct strings *labels, struct sandbox_page *page,
                struct err *err)
{
	struct sandbox_filter filter = {
		.viewer = call->caller,
		.name = call_query(call, "name", NULL),
		.image = call_query(call, "image", NULL),
		.cursor = call_query(call, "cursor", NULL),
		.limit = call_query_u64(call, "limit", 0),
	};

	if (filter.limit > LIMIT_PAGE)
		return err_set(err, ERR_INVALID, "'limit' can be at most %d", LIMIT_PAGE);
	if (each_part(call_query(call, "state", ""), add_state, &filter.states, err) < 0 ||
	    each_part(call_query(call, "label", ""), add_label, labels, err) < 0)
		return -1;
	filter.labels = labels->count > 0 ? labels : NULL;
	filter.hides_kept = labels->count == 0;
	return store_sandbox_list(call->api->store, &filter, page, err);
}

/* A page whose running sandboxes are asked for their meters, all at once. */
struct listing {
	struct call *call;
	struct sandbox_page page;
	size_t waiting; /* for keepers; one more while they are being asked */
};

struct listing_item {
	struct listing *listing;
	struct sandbox *row;
};

static void listing_step(struct listing *listing)
{
	json_t *items;

	if (--listing->waiting > 0)
		return;
	items = json_array();
	for (size_t i = 0; i < listing->page.count; i++)
		json_array_append_new(items, encode_sandbox(listing->page.items[i]));
	call_answer(listing->call, 200, encode_page(items, listing->page.next_cursor));
	sandbox_page_done(&listing->page);
	mem_freep(&listing);
}

/* One that went meanwhile is shown as it was when the list was made. */
static void on_item_meters(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	auto_free struct listing_item *item = ctx;

	if (sandbox)
		item->row->meters = sandbox->meters;
	listing_step(item->listing);
}

static void on_settled(const struct err *none, void *ctx)
{
	struct call *call = ctx;
	struct engine *engine = call->api->engine;
	struct listing *listing = mem_new(struct listing);
	struct strings labels = {0};
	struct err err = {0};
	int r = list(call, &labels, &listing->page, &err);

	strings_done(&labels);
	if (r < 0) {
		mem_freep(&listing);
		call_fail(call, &err);
		return;
	}
	listing->call = call;
	listing->waiting = 1;
	for (size_t i = 0; i < listing->page.count; i++) {
		struct sandbox *row = listing->page.items[i];
		struct listing_item *item;

		if (row->state != SANDBOX_RUNNING)
			continue;
		item = mem_new(struct listing_item);
		*item = (struct listing_item){listing, row};
		listing->waiting++;
		engine->ops->meters(engine, row->id.text, on_item_meters, item);
	}
	listing_step(listing);
}

/* Whoever was told of an end must not find the sandbox after it. */
void handle_sandbox_list(struct call *call)
{
	struct engine *engine = call->api->engine;

	engine->ops->settle(engine, on_settled, call);
}

/* --- one --- */

void handle_sandbox_info(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct engine *engine = call->api->engine;

	if (call_sandbox(call, &sandbox) == 0)
		engine->ops->meters(engine, sandbox->id.text, on_sandbox, call);
}

static int decode_change(const json_t *body, struct sandbox_change *change, struct strings *labels,
                         struct err *err)
{
	const json_t *name = json_object_get(body, "name");
	const json_t *map = json_object_get(body, "labels");
	const json_t *ttl = json_object_get(body, "ttl");
	const json_t *visibility = json_object_get(body, "visibility");

	if (name) {
		change->name = json_is_null(name) ? "" : json_string_value(name);
		if (*change->name && spec_check_name(change->name, err) < 0)
			return -1;
	}
	if (map) {
		if (decode_entries(map, labels, decode_check_label, err) < 0 ||
		    entry_check_label_list(labels, err) < 0)
			return -1;
		change->labels = labels;
	}
	if (visibility) {
		change->has_visibility = true;
		if (visibility_parse(json_string_value(visibility), &change->visibility, err) < 0)
			return -1;
	}
	if (!ttl)
		return 0;
	change->has_ttl = true;
	if (json_is_null(ttl))
		return 0;
	if (schema_ms(ttl, "ttl", &change->ttl_ms, err) < 0)
		return -1;
	return spec_check_ttl(change->ttl_ms, err);
}

/* Who works with a sandbox of the team does not decide who else sees it. */
static int check_shares(const struct call *call, const struct sandbox *sandbox, struct err *err)
{
	const struct caller *caller = call->caller;

	if (caller->is_operator || caller->role == ROLE_ADMIN ||
	    str_eq(authz_ownership(sandbox).owner, caller->principal.text))
		return 0;
	return err_set(err, ERR_FORBIDDEN,
	               "only its owner and the team's admins change who sees it");
}

void handle_sandbox_change(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct engine *engine = call->api->engine;
	struct sandbox_change change = {0};
	struct strings labels = {0};
	struct err err = {0};

	if (call_sandbox(call, &sandbox) < 0)
		return;
	if (decode_change(call->body, &change, &labels, &err) < 0 ||
	    (change.has_visibility && check_shares(call, sandbox, &err) < 0))
		call_fail(call, &err);
	else
		engine->ops->change(engine, sandbox->id.text, &change, on_sandbox, call);
	strings_done(&labels);
}

void handle_sandbox_remove(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct engine *engine = call->api->engine;

	if (call_sandbox(call, &sandbox) == 0)
		engine->ops->remove(
			engine, sandbox->id.text,
			(call_query_bool(call, "force") ? ENGINE_REMOVE_FORCE : 0) |
				(call_query_bool(call, "detach") ? ENGINE_REMOVE_DETACH : 0),
			on_done, call);
}

void handle_sandbox_stop(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct engine *engine = call->api->engine;
	const json_t *grace = json_object_get(call->body, "graceMs");
	uint64_t grace_ms = grace ? (uint64_t)json_integer_value(grace) : GRACE_MS;

	if (call_sandbox(call, &sandbox) == 0)
		engine->ops->stop(engine, sandbox->id.text, MIN(grace_ms, (uint64_t)GRACE_MAX_MS),
		                  on_sandbox, call);
}

void handle_sandbox_start(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct engine *engine = call->api->engine;

	if (call_sandbox(call, &sandbox) == 0)
		engine->ops->start(engine, sandbox->id.text, on_sandbox, call);
}

/* --- wait: follows its events, so that nobody has to poll --- */

struct wait {
	struct call *call;
	char *id;
	struct hub_follower follower;
	struct loop_timer timer;
};

static void wait_free(struct wait *wait)
{
	request_set_on_end(wait->call->request, NULL, NULL);
	hub_unfollow(&wait->follower);
	loop_timer_stop(&wait->timer);
	mem_freep(&wait->id);
	mem_freep(&wait);
}

static void wait_answer(struct wait *wait, const struct sandbox *sandbox, const struct err *err)
{
	struct call *call = wait->call;

	wait_free(wait);
	on_sandbox(sandbox, err, call);
}

static void on_wait_over(struct loop_timer *timer, void *ctx)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct wait *wait = ctx;
	struct err err = {0};

	if (store_sandbox_get(wait->call->api->store, wait->id, &sandbox, &err) < 0)
		wait_answer(wait, NULL, &err);
	else
		wait_answer(wait, sandbox, &err);
}

static void on_wait_news(struct hub_follower *follower, void *ctx)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct wait *wait = ctx;
	struct err err = {0};

	if (store_sandbox_get(wait->call->api->store, wait->id, &sandbox, &err) < 0) {
		if (err.code == ERR_NOT_FOUND)
			(void)err_set(&err, ERR_GONE, "the sandbox was removed"); /* always -1 */
		wait_answer(wait, NULL, &err);
	} else if (!sandbox_is_alive(sandbox->state)) {
		wait_answer(wait, sandbox, &err);
	}
}

static void on_wait_gone(struct request *request, bool gone, void *ctx)
{
	struct wait *wait = ctx;
	struct call *call = wait->call;

	wait_free(wait);
	call_done(call);
}

void handle_sandbox_wait(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	uint64_t timeout_ms = call_query_u64(call, "timeoutMs", WAIT_MAX_MS);
	struct wait *wait;

	if (call_sandbox(call, &sandbox) < 0)
		return;
	if (!sandbox_is_alive(sandbox->state)) {
		call_answer(call, 200, encode_sandbox(sandbox));
		return;
	}
	wait = mem_new(struct wait);
	wait->call = call;
	wait->id = mem_strdup(sandbox->id.text);
	hub_follow(call->api->hub, &wait->follower, wait->id, 0, on_wait_news, wait);
	loop_timer_in(call->api->loop, &wait->timer, MIN(timeout_ms, (uint64_t)WAIT_MAX_MS),
	              on_wait_over, wait);
	request_set_on_end(call->request, on_wait_gone, wait);
}
