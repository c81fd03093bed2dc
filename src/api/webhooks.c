/* Webhooks: made (the secret is shown once), listed, tried out, rotated, and what they were told.
 */
#include "api/authz.h"
#include "api/call.h"
#include "api/decode.h"
#include "api/encode.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "hook/hooks.h"
#include "store/webhook.h"

enum { ABOUT_BYTES = 255 };

static json_t *strings_json(const struct strings *list)
{
	json_t *items = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(items, json_string(list->items[i]));
	return items;
}

static json_t *encode_webhook(const struct webhook *webhook)
{
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(webhook->id.text));
	json_object_set_new(object, "url", encode_text(webhook->url));
	json_object_set_new(object, "events", strings_json(&webhook->events));
	json_object_set_new(object, "about", encode_text(webhook->about));
	json_object_set_new(object, "createdAt", encode_time(webhook->created_ms));
	return object;
}

static json_t *encode_delivery(const struct delivery *delivery)
{
	bool is_pending = delivery->state == DELIVERY_PENDING;
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(delivery->id.text));
	json_object_set_new(object, "webhook", json_string(delivery->webhook.text));
	json_object_set_new(object, "kind", encode_text(delivery->kind));
	json_object_set_new(object, "subject", encode_text(delivery->subject));
	json_object_set_new(object, "state", json_string(delivery_state_name(delivery->state)));
	json_object_set_new(object, "attempts", json_integer((json_int_t)delivery->attempts));
	json_object_set_new(object, "lastStatus",
	                    delivery->last_status ? json_integer(delivery->last_status)
	                                          : json_null());
	json_object_set_new(object, "lastError", encode_text(delivery->last_error));
	json_object_set_new(object, "nextAt", encode_time(is_pending ? delivery->next_ms : 0));
	json_object_set_new(object, "createdAt", encode_time(delivery->created_ms));
	json_object_set_new(object, "endedAt", encode_time(delivery->ended_ms));
	json_object_set_new(object, "payload", json_loads(delivery->payload, 0, NULL));
	return object;
}

/* --- finding --- */

static bool is_admin(const struct caller *caller)
{
	return caller->is_operator || caller->role == ROLE_ADMIN;
}

/* Whoever is told of a team's events is the team's: all of it sees, owner and admins change. */
static int find(struct call *call, bool to_change, struct webhook *ret)
{
	struct ownership whose;
	struct err err = {0};
	int r = store_webhook_get(call->api->store, call->params[0], ret, &err);

	if (r == 0) {
		whose = (struct ownership){ret->owner.text, ret->team.text, VISIBILITY_TEAM};
		r = to_change ? authz_change(call, &whose, "webhook", call->params[0], &err)
		              : authz_look(call, &whose, "webhook", call->params[0], &err);
	}
	if (r == 0 && to_change && !is_admin(call->caller) &&
	    !str_eq(ret->owner.text, call->caller->principal.text))
		r = err_set(&err, ERR_FORBIDDEN, "only its owner and admins change this webhook");
	if (r == 0)
		return 0;
	webhook_done(ret);
	call_fail(call, &err);
	return -1;
}

/* --- making and changing --- */

struct change {
	struct call *call;
	json_t *answer; /* NULL: nothing to say */
};

static void on_stored(const struct store_result *result, void *ctx)
{
	auto_free struct change *change = ctx;
	struct call *call = change->call;

	if (result->ok)
		hooks_reload(call->api->hooks);
	if (!result->ok)
		call_fail(call, &result->err);
	else if (change->answer)
		call_answer(call, call->route->status, json_incref(change->answer));
	else
		call_answer_empty(call);
	json_decref(change->answer);
}

/* Takes the answer. */
static void submit(struct call *call, struct store_write *write, json_t *answer)
{
	struct change *change = mem_new(struct change);

	*change = (struct change){call, answer};
	store_write_submit(write, on_stored, change);
}

static int decode(struct call *call, struct webhook *ret, struct err *err)
{
	const char *url = json_string_value(json_object_get(call->body, "url"));
	const char *about = json_string_value(json_object_get(call->body, "about"));
	struct webhook_page page = {0};
	size_t count;

	if (webhook_check_url(url, err) < 0)
		return -1;
	if (about && strlen(about) > ABOUT_BYTES)
		return err_set(err, ERR_INVALID, "'about' has more than %d bytes", ABOUT_BYTES);
	decode_list(call->body, "events", &ret->events);
	if (webhook_check_events(&ret->events, err) < 0 ||
	    store_webhook_list(call->api->store, call->caller->team.text, NULL, LIMIT_PAGE, &page,
	                       err) < 0)
		return -1;
	count = page.count;
	webhook_page_done(&page);
	if (count >= WEBHOOKS_MOST)
		return err_set(err, ERR_CONFLICT, "a team has at most %d webhooks", WEBHOOKS_MOST);
	ret->url = mem_strdup(url);
	ret->about = about ? mem_strdup(about) : NULL;
	return store_event_last(call->api->store, NULL, &ret->after_seq, err);
}

void handle_webhook_create(struct call *call)
{
	auto_(webhook_done) struct webhook webhook = {.id = id_new("wh")};
	struct store_write *write;
	struct err err = {0};
	char *secret;
	json_t *answer;

	if (decode(call, &webhook, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	webhook.owner = call->caller->principal;
	webhook.team = call->caller->team;
	webhook.created_ms = io_real_ms();
	secret = hooks_make_secret(call->api->hooks, &webhook.id, &webhook.sealed);
	answer = encode_webhook(&webhook);
	json_object_set_new(answer, "secret", json_string(secret));
	mem_wipe_free(secret, strlen(secret));
	write = store_write_new(call->api->store);
	authz_made(call, webhook.id.text);
	store_put_webhook(write, &webhook);
	submit(call, write, answer);
}

void handle_webhook_rotate(struct call *call)
{
	auto_(webhook_done) struct webhook webhook = {0};
	struct store_write *write;
	char *secret;
	json_t *answer;

	if (find(call, true, &webhook) < 0)
		return;
	mem_freep(&webhook.sealed_before);
	webhook.sealed_before = take_ptr(webhook.sealed);
	webhook.before_until_ms = io_real_ms() + WEBHOOK_OVERLAP_MS;
	secret = hooks_make_secret(call->api->hooks, &webhook.id, &webhook.sealed);
	answer = encode_webhook(&webhook);
	json_object_set_new(answer, "secret", json_string(secret));
	mem_wipe_free(secret, strlen(secret));
	write = store_write_new(call->api->store);
	store_put_webhook(write, &webhook);
	submit(call, write, answer);
}

void handle_webhook_remove(struct call *call)
{
	auto_(webhook_done) struct webhook webhook = {0};
	struct store_write *write;

	if (find(call, true, &webhook) < 0)
		return;
	write = store_write_new(call->api->store);
	store_delete_webhook(write, webhook.id.text);
	submit(call, write, NULL);
}

void handle_webhook_test(struct call *call)
{
	auto_(webhook_done) struct webhook webhook = {0};
	auto_(delivery_done) struct delivery delivery = {0};
	struct store_write *write;

	if (find(call, true, &webhook) < 0)
		return;
	hooks_make_test(&webhook, &delivery);
	write = store_write_new(call->api->store);
	store_add_delivery(write, &delivery);
	submit(call, write, encode_delivery(&delivery));
}

/* --- looking --- */

void handle_webhook_list(struct call *call)
{
	const struct caller *caller = call->caller;
	struct webhook_page page = {0};
	struct err err = {0};
	json_t *items;

	if (store_webhook_list(call->api->store, caller->is_operator ? "" : caller->team.text,
	                       call_query(call, "cursor", NULL), call_query_u64(call, "limit", 0),
	                       &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, encode_webhook(&page.items[i]));
	call_answer(call, 200, encode_page(items, page.next_cursor));
	webhook_page_done(&page);
}

void handle_webhook_info(struct call *call)
{
	auto_(webhook_done) struct webhook webhook = {0};

	if (find(call, false, &webhook) == 0)
		call_answer(call, 200, encode_webhook(&webhook));
}

static int fill_filter(const struct call *call, const struct webhook *webhook,
                       struct delivery_filter *ret, struct err *err)
{
	*ret = (struct delivery_filter){
		.webhook = webhook->id.text,
		.state = call_query(call, "state", NULL),
		.since_ms = call_query_u64(call, "since", 0),
		.cursor = call_query(call, "cursor", NULL),
		.limit = call_query_u64(call, "limit", 0),
	};
	if (ret->state && delivery_state_from(ret->state) == DELIVERY_STATE_COUNT_)
		return err_set(err, ERR_INVALID, "'state' is pending, delivered or dead");
	return 0;
}

void handle_delivery_list(struct call *call)
{
	auto_(webhook_done) struct webhook webhook = {0};
	struct delivery_filter filter;
	struct delivery_page page = {0};
	struct err err = {0};
	json_t *items;

	if (find(call, false, &webhook) < 0)
		return;
	if (fill_filter(call, &webhook, &filter, &err) < 0 ||
	    store_delivery_list(call->api->store, &filter, &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, encode_delivery(&page.items[i]));
	call_answer(call, 200, encode_page(items, page.next_cursor));
	delivery_page_done(&page);
}

/* With the id it had: whoever has seen it can tell. */
void handle_delivery_again(struct call *call)
{
	auto_(webhook_done) struct webhook webhook = {0};
	auto_(delivery_done) struct delivery delivery = {0};
	struct store_write *write;
	struct err err = {0};

	if (find(call, true, &webhook) < 0)
		return;
	if (store_delivery_get(call->api->store, call->params[1], &delivery, &err) < 0 ||
	    !str_eq(delivery.webhook.text, webhook.id.text)) {
		if (err.code == ERR_OK)
			(void)err_set(&err, ERR_NOT_FOUND,
			              "no such delivery of this webhook"); /* always -1 */
		call_fail(call, &err);
		return;
	}
	delivery.state = DELIVERY_PENDING;
	delivery.next_ms = io_real_ms();
	delivery.ended_ms = 0;
	write = store_write_new(call->api->store);
	store_put_delivery(write, &delivery);
	submit(call, write, encode_delivery(&delivery));
}
