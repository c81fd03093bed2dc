/*
 * Changes of a sandbox that do not change its state, and looking at it.
 */
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/lifecycle.h"
#include "daemon/notes.h"
#include "runtime/peer.h"
#include "store/store.h"
#include "wire/wire.h"

enum { FREEZE_MS = 10 * 1000 };

struct change {
	struct member *member;
	struct sandbox *before; /* to go back to */
	bool has_ttl;
	engine_on_sandbox on_sandbox;
	void *ctx;
};

static void change_free(struct change *change)
{
	sandbox_free(change->before);
	member_unref(change->member);
	mem_freep(&change);
}

static void take_back(struct change *change)
{
	struct sandbox *row = change->member->row;

	spec_set(&row->spec.name, change->before->spec.name);
	strings_copy(&row->spec.labels, &change->before->spec.labels);
	row->spec.visibility = change->before->spec.visibility;
	spec_set(&row->spec.made_by, change->before->spec.made_by);
	row->spec.ttl_ms = change->before->spec.ttl_ms;
	row->expires_ms = change->before->expires_ms;
}

static void on_change_stored(const struct store_result *result, void *ctx)
{
	static const struct err none = {0};
	struct change *change = ctx;

	if (result->ok) {
		if (change->has_ttl)
			member_send_deadline(change->member);
		change->on_sandbox(change->member->row, &none, change->ctx);
	} else {
		take_back(change);
		change->on_sandbox(NULL, &result->err, change->ctx);
	}
	change_free(change);
}

static void add_event(struct store_write *write, enum event_kind kind, const struct sandbox *row)
{
	struct event event;

	note_sandbox(&event, kind, row);
	store_put_event(write, &event);
	event_done(&event);
}

static void submit(struct change *change, const struct sandbox_change *wanted)
{
	struct sandbox *row = change->member->row;
	struct store_write *write = store_write_new(change->member->fleet->store);

	if (wanted->name)
		spec_set(&row->spec.name, wanted->name);
	if (wanted->labels)
		strings_copy(&row->spec.labels, wanted->labels);
	if (wanted->made_by)
		spec_set(&row->spec.made_by, wanted->made_by);
	if (wanted->has_visibility)
		row->spec.visibility = wanted->visibility;
	if (wanted->has_ttl) {
		row->spec.ttl_ms = wanted->ttl_ms;
		row->expires_ms = wanted->ttl_ms ? io_real_ms() + wanted->ttl_ms : 0;
	}
	store_put_sandbox(write, row);
	if (wanted->name)
		add_event(write, EVENT_SANDBOX_RENAMED, row);
	if (wanted->labels)
		add_event(write, EVENT_SANDBOX_LABELED, row);
	if (wanted->has_ttl)
		add_event(write, EVENT_SANDBOX_EXTENDED, row);
	store_write_submit(write, on_change_stored, change);
}

static bool is_of_team(const struct sandbox *row, const char *team)
{
	const char *own = row->spec.team ? row->spec.team : ACCESS_TEAM;

	return str_eq(own, team ? team : ACCESS_TEAM);
}

/* The store refuses a name that is taken; a look before keeps the row free of one that is, so
 * that a change of state meanwhile is not refused with it. */
static int check_name(struct fleet *fleet, const struct member *member, const char *name,
                      struct err *err)
{
	auto_(sandbox_freep) struct sandbox *other = NULL;
	const char *team = member->row->spec.team;
	bool is_taken;

	if (!name || !*name)
		return 0;
	is_taken = store_sandbox_find(fleet->store, team, name, &other, &(struct err){0}) == 0 &&
	           !str_eq(other->id.text, member->row->id.text);
	for (const struct member *at = fleet->members; at && !is_taken; at = at->next)
		is_taken = at != member && at->row->spec.name && str_eq(at->row->spec.name, name) &&
		           is_of_team(at->row, team);
	return is_taken ? err_set(err, ERR_CONFLICT, "the name '%s' is taken", name) : 0;
}

void lifecycle_change(struct fleet *fleet, const char *id, const struct sandbox_change *wanted,
                      engine_on_sandbox on_sandbox, void *ctx)
{
	struct change *change;
	struct member *member;
	struct err err = {0};

	if (fleet_get(fleet, id, &member, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
		return;
	}
	if (member->row->state == SANDBOX_REMOVING)
		(void)err_set(&err, ERR_CONFLICT, "the sandbox is being removed"); /* always -1 */
	else if (wanted->has_ttl && !sandbox_is_alive(member->row->state))
		(void)err_set(&err, ERR_CONFLICT,
		              "the sandbox does not run: its time is over"); /* always -1 */
	if (err.code != ERR_OK || check_name(fleet, member, wanted->name, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
		member_unref(member);
		return;
	}
	change = mem_new(struct change);
	*change = (struct change){member, sandbox_copy(member->row), wanted->has_ttl, on_sandbox,
	                          ctx};
	submit(change, wanted);
}

/* --- looking --- */

struct look {
	struct member *member;
	engine_on_sandbox on_sandbox;
	void *ctx;
};

/* A keeper that does not answer in time costs freshness, not the answer. */
static void on_metered(const struct err *err, void *ctx)
{
	static const struct err none = {0};
	auto_free struct look *look = ctx;

	look->on_sandbox(look->member->row, &none, look->ctx);
	member_unref(look->member);
}

struct late_look {
	struct loop_timer timer;
	struct look *look;
};

static void on_look(struct loop_timer *timer, void *ctx)
{
	auto_free struct late_look *late = ctx;

	on_metered(NULL, late->look);
}

void lifecycle_meters(struct fleet *fleet, const char *id, engine_on_sandbox on_sandbox, void *ctx)
{
	struct late_look *late;
	struct member *member;
	struct look *look;
	struct err err = {0};

	if (fleet_get(fleet, id, &member, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
		return;
	}
	look = mem_new(struct look);
	*look = (struct look){member, on_sandbox, ctx};
	if (member->peer && member->row->state == SANDBOX_RUNNING) {
		member_meter(member, on_metered, look);
		return;
	}
	late = mem_new(struct late_look);
	late->look = look;
	loop_timer_in(fleet->loop, &late->timer, 0, on_look, late);
}

/* --- standing still --- */

struct freeze {
	struct member *member;
	bool on;
	char *why;
	engine_on_done on_done;
	void *ctx;
};

static void freeze_done(struct freeze *freeze, const struct err *err)
{
	freeze->on_done(err, freeze->ctx);
	member_unref(freeze->member);
	mem_freep(&freeze->why);
	mem_freep(&freeze);
}

static void on_freeze_stored(const struct store_result *result, void *ctx)
{
	static const struct err none = {0};

	freeze_done(ctx, result->ok ? &none : &result->err);
}

static void on_freeze_answer(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct freeze *freeze = ctx;
	struct fleet *fleet = freeze->member->fleet;
	struct sandbox *row = freeze->member->row;
	struct store_write *write;
	struct event event;

	if (!msg || fleet->is_shut || row->state != SANDBOX_RUNNING) {
		freeze_done(freeze, err);
		return;
	}
	row->meters.frozen = freeze->on;
	write = store_write_new(fleet->store);
	note_limit(&event, row, "budget", freeze->why);
	event.kind = freeze->on ? EVENT_SANDBOX_FROZEN : EVENT_SANDBOX_THAWED;
	store_put_sandbox(write, row);
	store_put_event(write, &event);
	event_done(&event);
	store_write_submit(write, on_freeze_stored, freeze);
}

void lifecycle_freeze(struct fleet *fleet, const char *id, bool on, const char *why,
                      engine_on_done on_done, void *ctx)
{
	auto_wire_out struct wire_out out = {0};
	struct member *member = fleet_find(fleet, id);
	struct err err = {0};
	struct freeze *freeze;
	uint64_t number;

	if (!member || member->row->state != SANDBOX_RUNNING || !peer_is_open(member->peer)) {
		(void)err_set(&err, ERR_CONFLICT, "the sandbox does not run"); /* always -1 */
		lifecycle_refuse(fleet, &err, NULL, on_done, ctx);
		return;
	}
	freeze = mem_new(struct freeze);
	*freeze = (struct freeze){member_ref(member), on, mem_strdup(why), on_done, ctx};
	number = peer_begin(member->peer, &out, WIRE_K_FREEZE);
	wire_put_u64(&out, FIELD_FROZEN, on);
	peer_call(member->peer, number, &out, FREEZE_MS, on_freeze_answer, freeze);
}
