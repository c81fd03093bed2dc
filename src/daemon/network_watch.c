/*
 * What keepers say about the network: decisions become events, hosts are added up. A keeper counts
 * what repeats and holds back floods; this is the second wall, for one that does not.
 */
#include <jansson.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/network.h"
#include "daemon/notes.h"
#include "store/store.h"

enum { WINDOW_MS = 10 * 1000, WINDOW_MOST = 500, HOSTS_MS = 5 * 1000, HOSTS_MOST = 4096 };

static void put_text(json_t *data, const struct wire_msg *msg, enum wire_field field,
                     const char *name)
{
	const char *text = wire_str(msg, field, NULL);
	json_t *value;
	char shown[512];

	if (!text || !*text)
		return;
	/* Names and programs are the sandbox's own words. */
	str_escape(shown, sizeof(shown), text, strlen(text));
	value = json_string(shown);
	if (value)
		json_object_set_new(data, name, value);
}

static void put_number(json_t *data, const struct wire_msg *msg, enum wire_field field,
                       const char *name)
{
	if (wire_has(msg, field))
		json_object_set_new(data, name,
		                    json_integer((json_int_t)MIN(wire_u64(msg, field, 0),
		                                                 (uint64_t)INT64_MAX)));
}

/* Its own time: a keeper may have kept it for a daemon that was away. */
static void put_time(json_t *data, const struct wire_msg *msg)
{
	char text[32];

	if (!wire_has(msg, FIELD_STARTED_MS))
		return;
	io_format_time(text, sizeof(text), wire_u64(msg, FIELD_STARTED_MS, 0));
	json_object_set_new(data, "decidedAt", json_string(text));
}

static json_t *decision_data(const struct wire_msg *msg)
{
	json_t *data = json_object();

	put_text(data, msg, FIELD_VERDICT, "verdict");
	put_text(data, msg, FIELD_PROTO, "proto");
	put_text(data, msg, FIELD_HOST, "host");
	put_text(data, msg, FIELD_ADDRESS, "address");
	put_number(data, msg, FIELD_PORT, "port");
	put_text(data, msg, FIELD_PROGRAM, "program");
	put_number(data, msg, FIELD_PID, "pid");
	put_text(data, msg, FIELD_RULE, "rule");
	put_text(data, msg, FIELD_REMEDY, "remedy");
	put_number(data, msg, FIELD_GENERATION, "generation");
	put_number(data, msg, FIELD_COUNT, "count");
	put_number(data, msg, FIELD_SENT, "sent");
	put_number(data, msg, FIELD_RECEIVED, "received");
	put_time(data, msg);
	return data;
}

static void store(struct member *member, json_t *data)
{
	struct event event;

	note_network(&event, member->row, data);
	store_event_put(member->fleet->store, &event, NULL, NULL);
	event_done(&event);
}

/* A new window begins with how much the one before left out. */
static bool is_too_much(struct member *member)
{
	uint64_t now = io_boot_ms();

	if (now - member->decisions_ms >= WINDOW_MS) {
		unsigned unstored = member->unstored;

		member->decisions_ms = now;
		member->decisions = member->unstored = 0;
		if (unstored > 0)
			store(member, json_pack("{s:s, s:i}", "verdict", "suppressed", "count",
			                        (int)unstored));
	}
	if (++member->decisions <= WINDOW_MOST)
		return false;
	member->unstored++;
	return true;
}

void network_on_decision(struct member *member, const struct wire_msg *msg)
{
	/* One that is parked is nobody's and has no events. */
	if (!member->shelf && !is_too_much(member))
		store(member, decision_data(msg));
}

static void on_call(struct member *member, enum event_kind kind, json_t *data)
{
	struct event event;

	if (member->shelf || is_too_much(member)) {
		json_decref(data);
		return;
	}
	note_call(&event, kind, member->row, data);
	store_event_put(member->fleet->store, &event, NULL, NULL);
	event_done(&event);
}

void network_on_service(struct member *member, json_t *data)
{
	on_call(member, EVENT_SANDBOX_SERVICE, data);
}

void network_on_model(struct member *member, json_t *data)
{
	on_call(member, EVENT_SANDBOX_MODEL, data);
}

/* --- hosts --- */

void network_on_host(struct member *member, const struct wire_msg *msg)
{
	struct host_use *use;
	char host[512];
	const char *text = wire_str(msg, FIELD_HOST, "");

	if (!member->hosts || member->hosts->count >= HOSTS_MOST)
		return;
	str_escape(host, sizeof(host), text, strlen(text));
	use = host_uses_enter(member->hosts, host, (uint16_t)wire_u64(msg, FIELD_PORT, 0),
	                      wire_str(msg, FIELD_PROTO, "tcp"));
	use->connections += wire_u64(msg, FIELD_COUNT, 0);
	use->denied += wire_u64(msg, FIELD_DENIED, 0);
	use->sent += wire_u64(msg, FIELD_SENT, 0);
	use->received += wire_u64(msg, FIELD_RECEIVED, 0);
}

struct asking {
	struct member *member;
	struct host_uses uses;
	engine_on_hosts on_hosts;
	void *ctx;
	struct loop_timer timer;
	struct err err;
};

static uint64_t number_of(const json_t *data, const char *name, uint64_t otherwise)
{
	const json_t *value = json_object_get(data, name);

	return json_is_integer(value) ? (uint64_t)json_integer_value(value) : otherwise;
}

static void add_event(struct host_uses *uses, const struct event *event)
{
	json_t *data = event->data ? json_loads(event->data, 0, NULL) : NULL;
	const char *host = json_string_value(json_object_get(data, "host"));
	const char *verdict = json_string_value(json_object_get(data, "verdict"));
	const char *proto = json_string_value(json_object_get(data, "proto"));
	uint64_t count = number_of(data, "count", 1);
	struct host_use *use;

	if (!host)
		host = json_string_value(json_object_get(data, "address"));
	if (host && verdict && uses->count < HOSTS_MOST) {
		use = host_uses_enter(uses, host, (uint16_t)number_of(data, "port", 0),
		                      proto ? proto : "tcp");
		use->connections += str_eq(verdict, "allow") ? count : 0;
		use->denied += str_eq(verdict, "deny") ? count : 0;
		use->sent += number_of(data, "sent", 0);
		use->received += number_of(data, "received", 0);
	}
	json_decref(data);
}

int network_read_hosts(struct store *from, const char *id, struct host_uses *ret, struct err *err)
{
	struct event_filter filter = {
		.sandbox = id, .kind = event_name(EVENT_SANDBOX_NETWORK), .limit = LIMIT_PAGE};
	struct event_page page = {.more = true};

	while (page.more) {
		page = (struct event_page){0};
		if (store_event_list(from, &filter, &page, err) < 0)
			return -1;
		for (size_t i = 0; i < page.count; i++) {
			add_event(ret, &page.items[i]);
			filter.after = page.items[i].sandbox_seq;
		}
		bool more = page.more;

		event_page_done(&page);
		page.more = more;
	}
	host_uses_sort(ret);
	return 0;
}

static void tell(struct asking *asking, const struct err *err)
{
	asking->on_hosts(err->code == ERR_OK ? &asking->uses : NULL, err, asking->ctx);
	host_uses_done(&asking->uses);
	if (asking->member)
		member_unref(asking->member);
	mem_freep(&asking);
}

static void on_late(struct loop_timer *timer, void *ctx)
{
	struct asking *asking = ctx;
	struct err err = asking->err;

	tell(asking, &err);
}

static void on_listed(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct asking *asking = ctx;

	asking->member->hosts = NULL;
	host_uses_sort(&asking->uses);
	tell(asking, err);
}

static void ask_keeper(struct asking *asking)
{
	struct member *member = asking->member;
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(member->peer, &out, WIRE_K_NET);

	member->hosts = &asking->uses;
	peer_call(member->peer, number, &out, HOSTS_MS, on_listed, asking);
}

void network_hosts(struct fleet *fleet, const char *id, engine_on_hosts on_hosts, void *ctx)
{
	struct asking *asking = mem_new(struct asking);
	struct member *member = fleet_find(fleet, id);

	asking->on_hosts = on_hosts;
	asking->ctx = ctx;
	/* Two who ask at once: the second gets what the events say. */
	if (member && member->row->state == SANDBOX_RUNNING && peer_is_open(member->peer) &&
	    !member->hosts && member->row->network.policy) {
		asking->member = member_ref(member);
		ask_keeper(asking);
		return;
	}
	if (network_read_hosts(fleet->store, id, &asking->uses, &asking->err) < 0)
		host_uses_done(&asking->uses);
	loop_timer_in(fleet->loop, &asking->timer, 0, on_late, asking);
}
