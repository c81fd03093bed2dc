#include "hook/hooks.h"

#include <jansson.h>
#include <sodium.h>

#include "base/addr.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "hook/post.h"
#include "hook/sign.h"
#include "model/config.h"
#include "model/event.h"
#include "model/task.h"
#include "store/webhook.h"

/* The last event that was looked at. */
#define META "webhooks.seq"

enum {
	FLIGHT = 32,       /* attempts at one time */
	NOTE_EVERY = 500,  /* events without a delivery, until that is stored, too */
	KEEP_MS_DAYS = 31, /* of deliveries that are over */
	EXPIRE_MS = 6 * 3600 * 1000,
	CIDRS = 64,
};

struct flight {
	struct flight *next;
	struct hooks *hooks;
	struct delivery delivery;
	bool is_sent; /* and how it went is being stored */
};

struct hooks {
	struct hooks_config config;
	struct post *post;
	struct webhook_page all;
	struct flight *flights;
	size_t flight_count;
	uint64_t unnoted;
	struct loop_timer timer, expire;
	bool is_shut;
};

static void send_due(struct hooks *hooks);

/* --- events become deliveries --- */

static bool may_tell(const struct webhook *webhook, const struct event *event)
{
	/* What is no team's is the machine's own. */
	if (!event->team.text[0])
		return str_eq(webhook->owner.text, ACCESS_OPERATOR);
	return str_eq(webhook->team.text, event->team.text) &&
	       (event->visibility != VISIBILITY_PRIVATE ||
	        str_eq(webhook->owner.text, event->owner.text));
}

static char *payload_of(const struct event *event)
{
	json_t *data = event->data ? json_loads(event->data, 0, NULL) : NULL;
	json_t *payload = json_object();
	char time[32];
	char *text;

	if (!data)
		data = json_object();
	if (event->sandbox.text[0])
		json_object_set_new(data, task_is_id(event->sandbox.text) ? "task" : "sandbox",
		                    json_string(event->sandbox.text));
	json_object_set_new(data, "seq", json_integer((json_int_t)event->seq));
	io_format_time(time, sizeof(time), event->time_ms);
	json_object_set_new(payload, "type", json_string(event_name(event->kind)));
	json_object_set_new(payload, "timestamp", json_string(time));
	json_object_set_new(payload, "data", data);
	text = json_dumps(payload, JSON_COMPACT | JSON_REAL_PRECISION(12));
	json_decref(payload);
	must(text);
	return text;
}

static void on_noted(const struct store_result *result, void *ctx)
{
	struct hooks *hooks = ctx;

	if (hooks->is_shut)
		return;
	if (!result->ok)
		log_error("deliveries of webhooks are not stored; the next start makes them",
		          LOG_ERR(&result->err));
	else
		send_due(hooks);
}

static struct store_write *add_delivery(struct hooks *hooks, struct store_write *write,
                                        const struct webhook *webhook, const struct event *event)
{
	struct delivery delivery = {
		.id = id_new("msg"),
		.webhook = webhook->id,
		.event_seq = event->seq,
		.kind = mem_strdup(event_name(event->kind)),
		.subject = mem_strdup(event->sandbox.text),
		.payload = payload_of(event),
		.created_ms = io_real_ms(),
	};

	if (!write)
		write = store_write_new(hooks->config.store);
	delivery.next_ms = delivery.created_ms;
	store_add_delivery(write, &delivery);
	delivery_done(&delivery);
	return write;
}

void hooks_on_event(struct hooks *hooks, const struct event *event)
{
	struct store_write *write = NULL;
	char seq[24];

	if (hooks->is_shut || hooks->all.count == 0)
		return;
	for (size_t i = 0; i < hooks->all.count; i++) {
		const struct webhook *webhook = &hooks->all.items[i];

		if (event->seq > webhook->after_seq && may_tell(webhook, event) &&
		    webhook_wants(webhook, event_name(event->kind)))
			write = add_delivery(hooks, write, webhook, event);
	}
	if (!write && ++hooks->unnoted < NOTE_EVERY)
		return;
	hooks->unnoted = 0;
	if (!write)
		write = store_write_new(hooks->config.store);
	(void)snprintf(seq, sizeof(seq), "%llu", (unsigned long long)event->seq); /* fits */
	store_put_meta(write, META, seq);
	store_write_submit(write, on_noted, hooks);
}

/* --- attempts --- */

static bool is_flying(const struct hooks *hooks, const char *id)
{
	for (const struct flight *at = hooks->flights; at; at = at->next) {
		if (str_eq(at->delivery.id.text, id))
			return true;
	}
	return false;
}

static void flight_free(struct flight *flight)
{
	for (struct flight **at = &flight->hooks->flights; *at; at = &(*at)->next) {
		if (*at == flight) {
			*at = flight->next;
			break;
		}
	}
	flight->hooks->flight_count--;
	delivery_done(&flight->delivery);
	mem_freep(&flight);
}

static void on_attempt_stored(const struct store_result *result, void *ctx)
{
	struct flight *flight = ctx;
	struct hooks *hooks = flight->hooks;

	if (!result->ok && !hooks->is_shut)
		log_error("how a webhook answered is not stored; it is told again",
		          LOG_ERR(&result->err));
	flight_free(flight);
	if (!hooks->is_shut)
		send_due(hooks);
}

/* Some sooner, some later: those that failed together do not come back together. */
static uint64_t with_jitter(uint64_t ms)
{
	return ms - ms / 5 + randombytes_uniform((uint32_t)(ms / 5 * 2) + 1);
}

static void plan_next(struct hooks *hooks, struct delivery *delivery, uint64_t now)
{
	uint64_t pause =
		webhook_pause_ms(hooks->config.config->webhook_retry_ms, delivery->attempts);

	delivery->next_ms = now + with_jitter(pause);
	if (delivery->next_ms < delivery->created_ms + WEBHOOK_GIVE_UP_MS)
		return;
	delivery->state = DELIVERY_DEAD;
	delivery->ended_ms = now;
	log_warn("a webhook was not reached for a day; its delivery is given up",
	         LOG_STR("webhook", delivery->webhook.text),
	         LOG_STR("delivery", delivery->id.text));
}

static void on_sent(const struct post_result *result, void *ctx)
{
	struct flight *flight = ctx;
	struct hooks *hooks = flight->hooks;
	struct delivery *delivery = &flight->delivery;
	struct store_write *write;
	uint64_t now = io_real_ms();

	delivery->attempts++;
	delivery->last_status = result->status;
	mem_freep(&delivery->last_error);
	if (result->status / 100 == 2) {
		delivery->state = DELIVERY_DELIVERED;
		delivery->ended_ms = now;
	} else {
		delivery->last_error = result->status ? mem_printf("it answered %d", result->status)
		                                      : mem_strdup(result->text);
		plan_next(hooks, delivery, now);
	}
	flight->is_sent = true;
	write = store_write_new(hooks->config.store);
	store_put_delivery(write, delivery);
	store_write_submit(write, on_attempt_stored, flight);
}

static char *purpose_of(const char *webhook)
{
	return mem_printf("webhook %s", webhook);
}

/* One signature a secret: while one is being replaced, either may be known to the receiver. */
static int sign(struct hooks *hooks, const struct webhook *webhook, const struct delivery *delivery,
                uint64_t seconds, char **ret, struct err *err)
{
	const char *sealed[] = {webhook->sealed, webhook->before_until_ms > io_real_ms()
	                                                 ? webhook->sealed_before
	                                                 : NULL};
	auto_free char *purpose = purpose_of(webhook->id.text);
	auto_free char *all = mem_strdup("");

	for (size_t i = 0; i < ARRAY_LEN(sealed) && sealed[i]; i++) {
		auto_free char *one = NULL;
		char *secret = NULL, *more;

		if (hooks->config.open(purpose, sealed[i], &secret, hooks->config.ctx, err) < 0)
			return -1;
		one = sign_message(secret, delivery->id.text, seconds, delivery->payload);
		mem_wipe_free(secret, strlen(secret));
		if (!one)
			return err_set(err, ERR_IO, "the secret of webhook %s is damaged",
			               webhook->id.text);
		more = mem_printf("%s%s%s", all, *all ? " " : "", one);
		free(all);
		all = more;
	}
	*ret = take_ptr(all);
	return 0;
}

static int begin(struct hooks *hooks, struct flight *flight, struct err *err)
{
	const struct delivery *delivery = &flight->delivery;
	uint64_t seconds = io_real_ms() / 1000;
	auto_(webhook_done) struct webhook webhook = {0};
	auto_free char *signature = NULL;

	if (store_webhook_get(hooks->config.store, delivery->webhook.text, &webhook, err) < 0 ||
	    sign(hooks, &webhook, delivery, seconds, &signature, err) < 0)
		return -1;
	auto_free char *id = mem_printf("webhook-id: %s", delivery->id.text);
	auto_free char *time = mem_printf("webhook-timestamp: %llu", (unsigned long long)seconds);
	auto_free char *proof = mem_printf("webhook-signature: %s", signature);
	const char *const headers[] = {
		"content-type: application/json", "Expect:", id, time, proof, NULL};
	const struct post_request request = {webhook.url, headers, delivery->payload};

	post_send(hooks->post, &request, on_sent, flight);
	return 0;
}

/* Takes the content of the delivery. */
static void launch(struct hooks *hooks, struct delivery *delivery)
{
	struct flight *flight = mem_new(struct flight);
	struct err err = {0};

	flight->hooks = hooks;
	flight->delivery = *delivery;
	*delivery = (struct delivery){0};
	flight->next = hooks->flights;
	hooks->flights = flight;
	hooks->flight_count++;
	if (begin(hooks, flight, &err) < 0) {
		struct post_result failed = {0, err.msg};

		on_sent(&failed, flight);
	}
}

static void on_time(struct loop_timer *timer, void *ctx)
{
	send_due(ctx);
}

static void plan(struct hooks *hooks)
{
	uint64_t next = 0, now = io_real_ms();
	struct err err = {0};

	if (store_delivery_next(hooks->config.store, &next, &err) < 0 || next == 0)
		return;
	/* What is due and cannot go now waits for others to end; they come back here. */
	if (next <= now && hooks->flight_count > 0)
		return;
	loop_timer_in(hooks->config.loop, &hooks->timer,
	              next <= now ? 1000 : MIN(next - now, (uint64_t)3600 * 1000), on_time, hooks);
}

static void send_due(struct hooks *hooks)
{
	struct delivery_page page = {0};
	struct err err = {0};

	loop_timer_stop(&hooks->timer);
	if (hooks->flight_count < FLIGHT &&
	    store_delivery_due(hooks->config.store, io_real_ms(), 2 * FLIGHT, &page, &err) < 0) {
		log_error("deliveries of webhooks cannot be read", LOG_ERR(&err));
		loop_timer_in(hooks->config.loop, &hooks->timer, 5000, on_time, hooks);
		return;
	}
	for (size_t i = 0; i < page.count && hooks->flight_count < FLIGHT; i++) {
		if (!is_flying(hooks, page.items[i].id.text))
			launch(hooks, &page.items[i]);
	}
	delivery_page_done(&page);
	plan(hooks);
}

/* --- what is kept --- */

static void on_expire(struct loop_timer *timer, void *ctx)
{
	struct hooks *hooks = ctx;
	struct store_write *write = store_write_new(hooks->config.store);
	uint64_t keep_ms = (uint64_t)KEEP_MS_DAYS * 24 * 3600 * 1000;
	uint64_t now = io_real_ms();

	store_expire_deliveries(write, now > keep_ms ? now - keep_ms : 0);
	store_write_submit(write, NULL, NULL);
	loop_timer_in(hooks->config.loop, &hooks->expire, EXPIRE_MS, on_expire, hooks);
}

static int load(struct hooks *hooks, struct err *err)
{
	struct webhook_page page = {0};

	if (store_webhook_list(hooks->config.store, "", NULL, LIMIT_PAGE, &page, err) < 0)
		return -1;
	webhook_page_done(&hooks->all);
	hooks->all = page;
	return 0;
}

void hooks_reload(struct hooks *hooks)
{
	struct err err = {0};

	if (hooks->is_shut)
		return;
	if (load(hooks, &err) < 0)
		log_error("webhooks cannot be read", LOG_ERR(&err));
	send_due(hooks);
}

/* Events that were committed and not looked at. */
static int catch_up(struct hooks *hooks, struct err *err)
{
	auto_free char *text = NULL;
	struct event_filter filter = {.limit = LIMIT_PAGE};
	struct err none = {0};
	bool more = true;

	if (store_meta_get(hooks->config.store, META, &text, &none) == 0)
		(void)!str_to_u64(text, &filter.after);
	while (more) {
		struct event_page page = {0};

		if (store_event_list(hooks->config.store, &filter, &page, err) < 0)
			return -1;
		for (size_t i = 0; i < page.count; i++)
			hooks_on_event(hooks, &page.items[i]);
		more = page.more;
		if (page.count > 0)
			filter.after = page.items[page.count - 1].seq;
		event_page_done(&page);
	}
	return 0;
}

int hooks_start(struct hooks *hooks, struct err *err)
{
	if (load(hooks, err) < 0)
		return -1;
	if (hooks->all.count > 0 && catch_up(hooks, err) < 0)
		return -1;
	/* At once: a daemon that never runs for hours would keep them for ever. */
	loop_timer_in(hooks->config.loop, &hooks->expire, 0, on_expire, hooks);
	send_due(hooks);
	return 0;
}

int hooks_new(const struct hooks_config *config, struct hooks **ret, struct err *err)
{
	const struct strings *list = &config->config->webhook_cidrs;
	struct addr_cidr cidrs[CIDRS];
	struct hooks *hooks;
	size_t count = 0;

	for (size_t i = 0; i < list->count && count < CIDRS; i++)
		count += addr_parse_cidr(list->items[i], &cidrs[count]);
	hooks = mem_new(struct hooks);
	hooks->config = *config;
	if (post_new(config->loop, cidrs, count, &hooks->post, err) < 0) {
		mem_freep(&hooks);
		return -1;
	}
	*ret = hooks;
	return 0;
}

void hooks_shut(struct hooks *hooks)
{
	struct flight *next;

	hooks->is_shut = true;
	loop_timer_stop(&hooks->timer);
	loop_timer_stop(&hooks->expire);
	post_free(hooks->post);
	hooks->post = NULL;
	/* Those that are being stored are answered by the store. */
	for (struct flight *flight = hooks->flights; flight; flight = next) {
		next = flight->next;
		if (!flight->is_sent)
			flight_free(flight);
	}
}

void hooks_free(struct hooks *hooks)
{
	if (!hooks)
		return;
	post_free(hooks->post);
	while (hooks->flights)
		flight_free(hooks->flights);
	webhook_page_done(&hooks->all);
	mem_freep(&hooks);
}

/* --- for the API --- */

char *hooks_make_secret(struct hooks *hooks, const struct id *webhook, char **ret_sealed)
{
	auto_free char *purpose = purpose_of(webhook->text);
	char *secret = sign_make_secret();

	*ret_sealed = hooks->config.seal(purpose, secret, hooks->config.ctx);
	return secret;
}

void hooks_make_test(const struct webhook *webhook, struct delivery *ret)
{
	char time[32];

	/* Events are numbered from 1 on, upwards: this is none. */
	*ret = (struct delivery){.id = id_new("msg"),
	                         .webhook = webhook->id,
	                         .kind = mem_strdup("webhook.test"),
	                         .subject = mem_strdup(""),
	                         .created_ms = io_real_ms()};
	ret->event_seq = (uint64_t)INT64_MAX - ret->created_ms;
	ret->next_ms = ret->created_ms;
	io_format_time(time, sizeof(time), ret->created_ms);
	ret->payload = mem_printf("{\"type\":\"webhook.test\",\"timestamp\":\"%s\",\"data\":{"
	                          "\"webhook\":\"%s\"}}",
	                          time, webhook->id.text);
}
