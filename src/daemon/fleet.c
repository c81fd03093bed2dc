#include "daemon/fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "daemon/approvals.h"
#include "daemon/leftover.h"
#include "daemon/lifecycle.h"
#include "daemon/live.h"
#include "daemon/network.h"
#include "daemon/notes.h"
#include "store/later.h"
#include "store/store.h"
#include "task/meter.h"
#include "wire/wire.h"

enum {
	EXECS_MS = 30 * 1000,
	METERS_MS = 3 * 1000,
	DEADLINE_MS = 10 * 1000,
	RETRY_MS = 1000,
	RETRY_MOST_MS = 60 * 1000,
	RETRY_DOUBLINGS = 6,
	EXIT_FILE_BYTES = 4096,
	SOON_MS = 40,
	WAITING_LEAST = 32 /* removals that may wait (calm.h) */
};

struct fleet *fleet_new(const struct fleet *parts)
{
	struct fleet *fleet = mem_new(struct fleet);

	*fleet = *parts;
	metrics_init(&fleet->metrics);
	calm_init(&fleet->calm, fleet->loop, WAITING_LEAST);
	fleet->approvals = approvals_new(fleet);
	return fleet;
}

struct member *fleet_find(struct fleet *fleet, const char *id)
{
	for (struct member *member = fleet->members; member; member = member->next) {
		if (str_eq(member->row->id.text, id))
			return member;
	}
	return NULL;
}

struct member *fleet_add(struct fleet *fleet, struct sandbox *row)
{
	struct member *member = mem_new(struct member);

	member->fleet = fleet;
	member->row = row;
	member->refs = 1;
	member->since_ms = io_boot_ms();
	member->next = fleet->members;
	if (member->next)
		member->next->prev = member;
	fleet->members = member;
	return member;
}

int fleet_get(struct fleet *fleet, const char *id, struct member **ret, struct err *err)
{
	struct member *member = fleet_find(fleet, id);
	struct sandbox *row = NULL;

	if (fleet->is_shut)
		return err_set(err, ERR_UNAVAILABLE, "the daemon is ending");
	if (member) {
		*ret = member_ref(member);
		return 0;
	}
	if (store_sandbox_get(fleet->store, id, &row, err) < 0)
		return -1;
	*ret = fleet_add(fleet, row);
	return 0;
}

struct member *member_ref(struct member *member)
{
	member->refs++;
	return member;
}

void member_set_state(struct member *member, enum sandbox_state state)
{
	if (member->row->state == state)
		return;
	member_leave_state(member);
	member->row->state = state;
	if (state == SANDBOX_RUNNING)
		meter_began(member->fleet->tasks, member->row);
}

void member_leave_state(struct member *member)
{
	uint64_t now = io_boot_ms();

	span_add(&member->fleet->metrics.states[member->row->state],
	         (now - member->since_ms) * 1000);
	member->since_ms = now;
	member->is_late = false;
}

static void on_hurry(struct loop_timer *timer, void *ctx)
{
	struct fleet *fleet = ctx;

	fleet->is_hurry_due = false;
	store_hurry(fleet->store);
}

void fleet_submit_soon(struct fleet *fleet, struct store_write *write, store_on_done on_done,
                       void *ctx)
{
	store_write_submit_later(write, on_done, ctx);
	if (fleet->is_shut)
		store_hurry(fleet->store);
	else if (!fleet->is_hurry_due)
		loop_timer_in(fleet->loop, &fleet->hurry, SOON_MS, on_hurry, fleet);
	fleet->is_hurry_due = !fleet->is_shut;
}

void fleet_note_end(struct fleet *fleet, bool is_stored)
{
	if (is_stored)
		fleet->has_stored_end = true;
	else
		fleet->has_refused_end = true;
}

uint64_t fleet_retry_ms(const struct fleet *fleet, unsigned attempts)
{
	uint64_t first = fleet->retry_ms ? fleet->retry_ms : (uint64_t)RETRY_MS;
	unsigned doublings = MIN(attempts, (unsigned)RETRY_DOUBLINGS);

	return MIN(first << doublings, (uint64_t)RETRY_MOST_MS);
}

static void member_free(struct member *member)
{
	struct err err = {0};

	(void)err_set(&err, ERR_UNAVAILABLE, "the daemon is ending"); /* always -1 */
	loop_timer_stop(&member->timer);
	member_disconnect(member);
	live_free_all(member);
	member_answer(&member->start_waiters, NULL, &err);
	member_answer(&member->stop_waiters, NULL, &err);
	member_answer(&member->remove_waiters, NULL, &err);
	if (member->prev)
		member->prev->next = member->next;
	else
		member->fleet->members = member->next;
	if (member->next)
		member->next->prev = member->prev;
	strings_done(&member->seen);
	mem_freep(&member->cut_why);
	sandbox_free(member->row);
	mem_freep(&member);
}

void member_unref(struct member *member)
{
	must(member->refs > 0);
	if (--member->refs == 0 && !sandbox_is_alive(member->row->state) && !member->peer &&
	    !member->execs)
		member_free(member);
}

void fleet_shut(struct fleet *fleet)
{
	calm_flush(&fleet->calm);
	fleet->is_shut = true;
	calm_done(&fleet->calm);
	loop_timer_stop(&fleet->hurry);
	store_hurry(fleet->store);
	for (struct member *member = fleet->members; member;) {
		struct member *next;

		member_ref(member);
		loop_timer_stop(&member->timer);
		member_disconnect(member);
		live_let_go(member);
		next = member->next;
		member_unref(member);
		member = next;
	}
}

void fleet_free(struct fleet *fleet)
{
	if (!fleet)
		return;
	leftover_free_all(fleet);
	approvals_free(fleet->approvals);
	while (fleet->members)
		member_free(fleet->members);
	mem_freep(&fleet);
}

static bool has_degraded(const struct strings *mechanisms)
{
	for (size_t i = 0; i < mechanisms->count; i++) {
		if (str_has_prefix(mechanisms->items[i], "degraded="))
			return true;
	}
	return false;
}

void member_set_mechanisms(struct member *member, const struct strings *mechanisms)
{
	strings_copy(&member->row->mechanisms, mechanisms);
	member->row->is_degraded = has_degraded(mechanisms);
}

/* --- waiters --- */

void member_wait(struct member_waiter **list, engine_on_sandbox on_sandbox, engine_on_done on_done,
                 void *ctx)
{
	struct member_waiter *waiter = mem_new(struct member_waiter);

	*waiter = (struct member_waiter){*list, on_sandbox, on_done, ctx};
	*list = waiter;
}

void member_answer(struct member_waiter **list, const struct sandbox *row, const struct err *err)
{
	struct member_waiter *at = take_ptr(*list);

	while (at) {
		struct member_waiter *waiter = at;

		at = waiter->next;
		if (waiter->on_sandbox)
			waiter->on_sandbox(row, err, waiter->ctx);
		else
			waiter->on_done(err, waiter->ctx);
		mem_freep(&waiter);
	}
}

/* --- the keeper's words --- */

/* A meter as the keeper sends it and as it writes it to its exit file. */
static const struct {
	enum wire_field field;
	const char *exit_name;
	const char *name;
} meter_names[] = {
	{FIELD_METER_CPU_US, "cpu_us", "cpu_us"},
	{FIELD_METER_MEMORY, "memory", "memory_bytes"},
	{FIELD_METER_MEMORY_PEAK, "memory_peak", "memory_peak_bytes"},
	{FIELD_METER_MEMORY_BYTE_S, "memory_byte_s", "memory_byte_seconds"},
	{FIELD_METER_PIDS, "pids", "pids"},
	{FIELD_METER_DISK, "disk", "disk_bytes"},
	{FIELD_METER_INODES, "inodes", "inodes"},
	{FIELD_METER_UPTIME_MS, "uptime_ms", "uptime_ms"},
	{FIELD_METER_OOM_KILLS, "oom_kills", "oom_kills"},
	{FIELD_METER_PIDS_DENIED, "pids_denied", "pids_denied"},
	{FIELD_METER_OUTPUT, "output", "output_bytes"},
	{FIELD_METER_NET_SENT, "net_sent", "net_sent_bytes"},
	{FIELD_METER_NET_RECEIVED, "net_received", "net_received_bytes"},
	{FIELD_METER_NET_CONNECTIONS, "net_connections", "net_connections"},
	{FIELD_METER_NET_DENIED, "net_denied", "net_denied"},
	{FIELD_METER_FILES_SAME, "files_same", "files_same"},
	{FIELD_METER_DISK_BYTE_S, "disk_byte_s", "disk_byte_seconds"},
	{FIELD_METER_FROZEN, "frozen", "frozen"},
};

static void take_meters(struct member *member, const struct wire_msg *msg)
{
	for (size_t i = 0; i < ARRAY_LEN(meter_names); i++) {
		if (wire_has(msg, meter_names[i].field))
			meters_set(&member->row->meters, meter_names[i].name,
			           wire_u64(msg, meter_names[i].field, 0));
	}
}

static void on_limit(struct member *member, const struct wire_msg *msg)
{
	struct event event;

	note_limit(&event, member->row, wire_str(msg, FIELD_REASON, "unknown"),
	           wire_str(msg, FIELD_DETAIL, ""));
	store_event_put(member->fleet->store, &event, NULL, NULL);
	event_done(&event);
}

static void on_gone(struct member *member, const struct wire_msg *msg)
{
	member->has_said_gone = true;
	member->ended_ms = wire_u64(msg, FIELD_ENDED_MS, io_real_ms());
	spec_set(&member->row->end_reason, wire_str(msg, FIELD_REASON, "stopped"));
	take_meters(member, msg);
}

/* Of a parked one nothing runs, so nobody can ask. */
static void on_guest(struct member *member, struct wire_msg *msg)
{
	struct fleet *fleet = member->fleet;

	if (msg->fd_count == 1 && fleet->on_guest && !member->shelf)
		fleet->on_guest(member->row, take_fd(&msg->fds[0]), fleet->guest_ctx);
}

static void on_message(struct wire_msg *msg, void *ctx)
{
	static const struct {
		enum wire_type type;
		void (*handle)(struct member *member, const struct wire_msg *msg);
	} table[] = {
		{WIRE_K_OUTPUT, live_on_output},
		{WIRE_K_EXIT, live_on_exit},
		{WIRE_K_STDIN_ROOM, live_on_room},
		{WIRE_K_EXEC_INFO, live_on_info},
		{WIRE_K_LIMIT, on_limit},
		{WIRE_K_GONE, on_gone},
		{WIRE_K_DECISION, network_on_decision},
		{WIRE_K_NET_HOST, network_on_host},
		{WIRE_K_ASK, approvals_on_ask},
	};

	if (msg->type == WIRE_K_GUEST)
		on_guest(ctx, msg);
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (table[i].type == msg->type)
			table[i].handle(ctx, msg);
	}
}

static void on_closed(void *ctx)
{
	struct member *member = ctx;

	member_disconnect(member);
	lifecycle_keeper_gone(member);
}

void member_disconnect(struct member *member)
{
	struct peer *peer = take_ptr(member->peer);

	peer_free(peer);
}

static void on_listed(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct member *member = ctx;
	void (*on_adopted)(struct member *, void *) = take_ptr(member->on_adopted);

	/* A failure follows the end of the connection, whose own path goes on, or is a keeper too
	 * slow to answer: then its execs are compared after the next reconnect. */
	if (msg)
		live_listed(member);
	else
		log_warn("a keeper does not say what it runs",
		         LOG_STR("sandbox", member->row->id.text), LOG_ERR(err));
	if (msg)
		network_confirm(member);
	if (on_adopted)
		on_adopted(member, member->adopt_ctx);
	member_unref(member);
}

int member_connect(struct member *member, struct err *err)
{
	struct peer_config config = {
		.role = "keeper", .on_message = on_message, .on_closed = on_closed, .ctx = member};
	auto_free char *name = mem_printf("%s.sock", member->row->id.text);
	int fd = wire_connect(member->fleet->run_fd, name);

	must(!member->peer);
	if (fd < 0)
		return err_sys(err, -fd, "connect to the keeper of %s", member->row->id.text);
	if (peer_new(member->fleet->loop, fd, &config, &member->peer, err) < 0)
		return -1;
	member->attempts = 0;
	member->has_said_gone = false;
	return 0;
}

bool member_list_execs(struct member *member)
{
	auto_wire_out struct wire_out out = {0};
	uint64_t number;

	if (!peer_is_open(member->peer))
		return false;
	member->has_unknown_execs = false;
	strings_done(&member->seen);
	number = peer_begin(member->peer, &out, WIRE_K_EXECS);
	peer_call(member->peer, number, &out, EXECS_MS, on_listed, member_ref(member));
	return true;
}

int member_adopt(struct member *member, void (*on_adopted)(struct member *member, void *ctx),
                 void *ctx, struct err *err)
{
	if (member_connect(member, err) < 0)
		return -1;
	member->on_adopted = on_adopted;
	member->adopt_ctx = ctx;
	if (!member_list_execs(member)) {
		member_disconnect(member);
		return err_set(err, ERR_UNAVAILABLE, "the keeper of %s went at once",
		               member->row->id.text);
	}
	return 0;
}

static void ignore_answer(struct wire_msg *msg, const struct err *err, void *ctx)
{
	if (!msg)
		log_warn("a keeper did not take its deadline; it is asked again after a reconnect",
		         LOG_ERR(err));
}

void member_send_deadline(struct member *member)
{
	auto_wire_out struct wire_out out = {0};
	uint64_t now = io_real_ms();
	uint64_t left = member->row->expires_ms > now ? member->row->expires_ms - now : 0;
	uint64_t number;

	if (!member->peer)
		return;
	number = peer_begin(member->peer, &out, WIRE_K_DEADLINE);
	wire_put_u64(&out, FIELD_DEADLINE_MS, member->row->expires_ms ? io_boot_ms() + left : 0);
	peer_call(member->peer, number, &out, DEADLINE_MS, ignore_answer, NULL);
}

struct metering {
	struct member *member;
	engine_on_done on_done;
	void *ctx;
};

static void on_meters(struct wire_msg *msg, const struct err *err, void *ctx)
{
	auto_free struct metering *metering = ctx;

	if (msg)
		take_meters(metering->member, msg);
	metering->on_done(err, metering->ctx);
	member_unref(metering->member);
}

void member_meter(struct member *member, engine_on_done on_done, void *ctx)
{
	auto_wire_out struct wire_out out = {0};
	struct metering *metering = mem_new(struct metering);
	uint64_t number = peer_begin(member->peer, &out, WIRE_K_METERS);

	*metering = (struct metering){member_ref(member), on_done, ctx};
	peer_call(member->peer, number, &out, METERS_MS, on_meters, metering);
}

/* --- the exit file --- */

static void take_exit_line(struct member *member, const char *name, const char *value)
{
	uint64_t number;

	if (str_eq(name, "reason")) {
		spec_set(&member->row->end_reason, value);
		return;
	}
	if (str_to_u64(value, &number) < 0)
		return;
	if (str_eq(name, "ended_ms")) {
		member->ended_ms = number;
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(meter_names); i++) {
		if (str_eq(meter_names[i].exit_name, name))
			name = meter_names[i].name;
	}
	meters_set(&member->row->meters, name, number);
}

bool member_read_exit(struct member *member)
{
	auto_free char *path = mem_printf("%s/out/exit", member->row->id.text);
	auto_free char *text = NULL;
	const char *ended;
	size_t len;
	char *at;

	if (io_read_file(member->fleet->sandboxes_fd, path, EXIT_FILE_BYTES, &text, &len) < 0)
		return false;
	/* The file of an earlier life says nothing about this one. */
	ended = strstr(text, "ended_ms=");
	if (!ended || strtoull(ended + strlen("ended_ms="), NULL, 10) < member->row->started_ms)
		return false;
	for (char *line = text; line && *line; line = at) {
		char *equals = strchr(line, '=');

		at = strchr(line, '\n');
		if (at)
			*at++ = '\0';
		if (equals) {
			*equals = '\0';
			take_exit_line(member, line, equals + 1);
		}
	}
	return true;
}
