#include "api/hub.h"

#include "api/encode.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/store.h"

/* A page is about what a client takes at once (http/sse.c). */
enum { RING = 1024, PAGE = 32 };

struct entry {
	uint64_t seq;
	uint64_t sandbox_seq;
	enum event_kind kind;
	struct id sandbox;
	struct id owner, team;
	enum visibility visibility;
	char *json;
};

struct hub {
	struct store *store;
	struct hub_follower *followers;
	struct hub_follower *next; /* of the walk in hub_publish; moved when its target leaves */
	size_t listeners;          /* of these, to all there is: the ring is for them */
	struct entry ring[RING];   /* seq modulo RING */
	uint64_t first;            /* oldest number in the ring; 0: it is empty */
	uint64_t last;
};

struct hub *hub_new(struct store *store)
{
	struct hub *hub = mem_new(struct hub);

	hub->store = store;
	return hub;
}

void hub_free(struct hub *hub)
{
	if (!hub)
		return;
	while (hub->followers)
		hub_unfollow(hub->followers);
	for (size_t i = 0; i < RING; i++)
		mem_freep(&hub->ring[i].json);
	mem_freep(&hub);
}

static char *encode(const struct event *event)
{
	json_t *json = encode_event(event);
	char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(12));

	json_decref(json);
	return text;
}

/* Nobody looks into the ring while there are no listeners: then it is empty, and what whoever comes
 * has missed is in the store. */
static void keep(struct hub *hub, const struct event *event)
{
	struct entry *entry = &hub->ring[event->seq % RING];

	if (hub->listeners == 0) {
		hub->first = 0;
		hub->last = event->seq;
		return;
	}
	mem_freep(&entry->json);
	*entry = (struct entry){event->seq,   event->sandbox_seq, event->kind,       event->sandbox,
	                        event->owner, event->team,        event->visibility, encode(event)};
	if (hub->first == 0 || event->seq != hub->last + 1)
		hub->first = event->seq;
	hub->last = event->seq;
	if (hub->last - hub->first >= RING)
		hub->first = hub->last - RING + 1;
}

void hub_publish(struct hub *hub, const struct event *event)
{
	keep(hub, event);
	for (struct hub_follower *at = hub->followers; at; at = hub->next) {
		hub->next = at->next;
		if (!at->sandbox[0] || str_eq(at->sandbox, event->sandbox.text))
			at->on_news(at, at->ctx);
	}
}

void hub_follow(struct hub *hub, struct hub_follower *follower, const char *sandbox, uint64_t after,
                hub_on_news on_news, void *ctx)
{
	*follower =
		(struct hub_follower){.hub = hub, .after = after, .on_news = on_news, .ctx = ctx};
	/* No id is that long: nothing is ever told about this one. */
	if (sandbox && !str_copy(follower->sandbox, sizeof(follower->sandbox), sandbox))
		(void)!str_copy(follower->sandbox, sizeof(follower->sandbox), "-");
	follower->next = hub->followers;
	if (follower->next)
		follower->next->prev = follower;
	hub->followers = follower;
	hub->listeners += !follower->sandbox[0];
}

void hub_show(struct hub_follower *follower, struct caller *viewer)
{
	follower->viewer = caller_ref(viewer);
}

void hub_unfollow(struct hub_follower *follower)
{
	struct hub *hub = follower->hub;

	if (!hub)
		return;
	if (hub->next == follower)
		hub->next = follower->next;
	if (follower->prev)
		follower->prev->next = follower->next;
	else
		hub->followers = follower->next;
	if (follower->next)
		follower->next->prev = follower->prev;
	hub->listeners -= !follower->sandbox[0];
	follower->hub = NULL;
	caller_unrefp(&follower->viewer);
}

/* 1: stopped by `each`; 0: go on with the ring. */
static int take_stored(struct hub_follower *follower, hub_each each, void *ctx, struct err *err)
{
	for (;;) {
		struct event_filter filter = {.viewer = follower->viewer,
		                              .sandbox = follower->sandbox[0] ? follower->sandbox
		                                                              : NULL,
		                              .after = follower->after,
		                              .limit = PAGE};
		struct event_page page = {0};
		bool stopped = false;
		bool more;

		if (store_event_list(follower->hub->store, &filter, &page, err) < 0)
			return -1;
		for (size_t i = 0; i < page.count && !stopped; i++) {
			const struct event *event = &page.items[i];
			uint64_t number = follower->sandbox[0] ? event->sandbox_seq : event->seq;
			auto_free char *json = encode(event);

			stopped = !each(number, event_name(event->kind), json, ctx);
			if (!stopped)
				follower->after = number;
		}
		more = page.more;
		event_page_done(&page);
		if (stopped || !more)
			return stopped;
	}
}

/* What follows is in the ring, for sure. A sandbox's own numbers are not contiguous there. */
static bool is_in_ring(const struct hub_follower *follower)
{
	const struct hub *hub = follower->hub;

	if (hub->first == 0 || follower->sandbox[0])
		return false;
	return follower->after + 1 >= hub->first;
}

/* What is about no sandbox is the machine's own. */
static bool is_seen(const struct hub_follower *follower, const struct entry *entry)
{
	struct ownership ownership = {entry->owner.text, entry->team.text, entry->visibility};

	if (!follower->viewer || follower->viewer->is_operator)
		return true;
	return entry->team.text[0] && access_to(follower->viewer, &ownership) != ACCESS_HIDDEN;
}

int hub_take(struct hub_follower *follower, hub_each each, void *ctx, struct err *err)
{
	struct hub *hub = follower->hub;

	if (!is_in_ring(follower)) {
		int r = take_stored(follower, each, ctx, err);

		if (r != 0)
			return r < 0 ? r : 0;
		/* All that was published is stored: what was not shown is not for this one, and is
		 * not looked for again. */
		if (follower->viewer && !follower->sandbox[0])
			follower->after = MAX(follower->after, hub->last);
		if (!is_in_ring(follower))
			return 0;
	}
	while (follower->after < hub->last) {
		const struct entry *entry = &hub->ring[(follower->after + 1) % RING];

		if (is_seen(follower, entry) &&
		    !each(entry->seq, event_name(entry->kind), entry->json, ctx))
			return 0;
		follower->after = entry->seq;
	}
	return 0;
}
