#include "api/events.h"

#include <stdio.h>

#include "api/call.h"
#include "api/encode.h"
#include "api/hub.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/request.h"
#include "http/sse.h"
#include "store/store.h"

/* --- a page --- */

static int after_of(const struct call *call, const char *subject, uint64_t *ret, struct err *err)
{
	const char *cursor = call_query(call, "cursor", NULL);
	uint64_t last = call_query_u64(call, "last", 0), newest = 0;

	*ret = call_query_u64(call, "after", 0);
	if (subject && call_query(call, "last", NULL)) {
		if (store_event_last(call->api->store, subject, &newest, err) < 0)
			return -1;
		*ret = MAX(*ret, newest > last ? newest - last : 0);
	}
	if (cursor && str_to_u64(cursor, ret) < 0)
		return err_set(err, ERR_INVALID, "'cursor' is not one of ours");
	return 0;
}

static void answer_page(struct call *call, const char *sandbox)
{
	struct event_filter filter = {.viewer = call->caller,
	                              .sandbox = sandbox,
	                              .kind = sandbox ? call_query(call, "kind", NULL) : NULL,
	                              .limit = call_query_u64(call, "limit", 0)};
	struct event_page page = {0};
	char cursor[24] = "";
	struct err err = {0};
	json_t *items;

	if (filter.limit > LIMIT_PAGE)
		(void)err_set(&err, ERR_INVALID, "'limit' can be at most %d", LIMIT_PAGE);
	if (err.code != ERR_OK || after_of(call, sandbox, &filter.after, &err) < 0 ||
	    store_event_list(call->api->store, &filter, &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, encode_event(&page.items[i]));
	if (page.more) {
		const struct event *last = &page.items[page.count - 1];

		(void)snprintf(cursor, sizeof(cursor), "%llu",
		               (unsigned long long)(sandbox ? last->sandbox_seq : last->seq));
	}
	call_answer(call, 200, encode_page(items, cursor));
	event_page_done(&page);
}

/* --- a stream --- */

struct feed {
	struct sse *sse;
	struct hub_follower follower;
	char *kind; /* only these; NULL: all */
	bool ends;  /* with the run it is about */
	bool is_over;
};

static bool is_end(const char *kind)
{
	return str_eq(kind, "task.completed") || str_eq(kind, "task.failed") ||
	       str_eq(kind, "task.cancelled");
}

static bool send_one(uint64_t number, const char *kind, const char *json, void *ctx)
{
	struct feed *feed = ctx;
	char id[24];

	if (feed->kind && !str_eq(feed->kind, kind))
		return true;
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)number); /* 20 digits at most */
	if (feed->is_over || sse_send(feed->sse, id, kind, json) < 0)
		return false;
	feed->is_over = feed->ends && is_end(kind);
	return true;
}

static void pump(struct feed *feed)
{
	struct err err = {0};

	if (hub_take(&feed->follower, send_one, feed, &err) < 0) {
		log_error("an event stream ends", LOG_ERR(&err));
		feed->is_over = true;
	}
	if (feed->is_over)
		sse_finish(feed->sse);
}

static void on_news(struct hub_follower *follower, void *ctx)
{
	pump(ctx);
}

static void on_writable(struct sse *sse, void *ctx)
{
	pump(ctx);
}

static void on_end(struct sse *sse, bool gone, void *ctx)
{
	struct feed *feed = ctx;

	hub_unfollow(&feed->follower);
	mem_freep(&feed->kind);
	mem_freep(&feed);
}

/* Who remembers a number that we never gave knows another store (one was put back): waiting for
 * that number would be silence. */
static int send_gap(struct feed *feed, struct store *store, const char *subject, struct err *err)
{
	uint64_t after = feed->follower.after, newest = 0;
	auto_free char *text = NULL;
	char id[24], time[32];

	if (after == 0)
		return 0;
	if (store_event_last(store, subject, &newest, err) < 0)
		return -1;
	if (after <= newest)
		return 0;
	feed->follower.after = newest;
	io_format_time(time, sizeof(time), io_real_ms());
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)newest); /* 20 digits at most */
	text = mem_printf(
		"{\"kind\":\"gap\",\"time\":\"%s\",\"data\":{\"after\":%llu,\"newest\":%s}}", time,
		(unsigned long long)after, id);
	must(sse_send(feed->sse, id, "gap", text) == 0); /* it is the first */
	return 0;
}

/* first: what it begins with; NULL: nothing. */
static void answer_stream(struct call *call, const char *sandbox, const char *first)
{
	static const struct sse_ops ops = {on_writable, on_end};
	const char *last = request_header(call->request, "Last-Event-ID");
	struct err err = {0};
	struct feed *feed;
	uint64_t after;

	if (after_of(call, sandbox, &after, &err) < 0 || (last && str_to_u64(last, &after) < 0)) {
		if (err.code == ERR_OK)
			(void)err_set(&err, ERR_INVALID,
			              "Last-Event-ID is a number"); /* always -1 */
		call_fail(call, &err);
		return;
	}
	feed = mem_new(struct feed);
	if (sandbox && call_query(call, "kind", NULL))
		feed->kind = mem_strdup(call_query(call, "kind", NULL));
	hub_follow(call->api->hub, &feed->follower, sandbox, after, on_news, feed);
	hub_show(&feed->follower, call->caller);
	feed->sse = sse_open(call->request, &ops, feed);
	feed->ends = first != NULL;
	if (first)
		must(sse_send(feed->sse, NULL, NULL, first) == 0);
	if (send_gap(feed, call->api->store, sandbox, &err) < 0)
		log_error("whether an event stream has a gap is not known", LOG_ERR(&err));
	pump(feed);
	call_done(call);
}

void events_answer(struct call *call, const char *subject)
{
	if (sse_is_wanted(call->request))
		answer_stream(call, subject, NULL);
	else
		answer_page(call, subject);
}

void events_stream(struct call *call, const char *subject, const char *first)
{
	answer_stream(call, subject, first);
}

void handle_events(struct call *call)
{
	events_answer(call, NULL);
}

void handle_sandbox_events(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	/* Events outlive their sandbox: an id that is no row any more still has them. */
	const char *id = call->params[0];

	if (!id_is_valid(id, "sb")) {
		if (call_sandbox(call, &sandbox) < 0)
			return;
		id = sandbox->id.text;
	}
	events_answer(call, id);
}
