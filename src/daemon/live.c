#include "daemon/live.h"

#include <signal.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "daemon/feed.h"
#include "daemon/notes.h"
#include "store/store.h"

enum {
	LIVE_MAGIC = 0x6c697665,
	START_MS = 60 * 1000,
	ACK_BYTES = 64 * 1024,    /* acks are sent in steps, not per record */
	UNCLAIMED_MS = 30 * 1000, /* output waits this long for a reader that was announced */
};

/* Left behind by file operations of a daemon that died (api/inside_run.c starts them so). */
#define INTERNAL_PROGRAM "/run/cloche/cloche"

struct live {
	uint32_t magic;
	struct live *next;
	struct member *member;
	struct exec *row;
	bool is_internal;
	bool is_recorded; /* its start is answered once it is stored */
	bool is_noted;    /* nobody waits for its rows (api/engine.h) */
	bool is_starting; /* the keeper has not answered yet */
	bool has_ended;   /* the row says how; being committed */
	bool has_stdin;
	bool is_held;   /* the keeper holds output back */
	uint64_t acked; /* told the keeper */
	struct feed feed;
	struct exec_watch *watches;
	struct loop_timer unclaimed;
	engine_on_exec on_exec;
	void *exec_ctx;
};

struct live *live_find(struct member *member, const char *exec)
{
	for (struct live *live = member->execs; live; live = live->next) {
		if (str_eq(live->row->id.text, exec))
			return live;
	}
	return NULL;
}

static struct live *live_new(struct member *member, struct exec *row)
{
	struct live *live = mem_new(struct live);

	live->magic = LIVE_MAGIC;
	live->member = member;
	live->row = row;
	feed_init(&live->feed, row->id.text);
	live->next = member->execs;
	member->execs = live;
	return live;
}

static void let_go(struct exec_watch *watch)
{
	watch->live = NULL;
	watch->ended = NULL;
}

static void live_free(struct live *live)
{
	for (struct live **at = &live->member->execs; *at; at = &(*at)->next) {
		if (*at == live) {
			*at = live->next;
			break;
		}
	}
	while (live->watches) {
		struct exec_watch *watch = live->watches;

		live->watches = watch->next;
		let_go(watch);
	}
	loop_timer_stop(&live->unclaimed);
	feed_done(&live->feed);
	exec_free(live->row);
	live->magic = 0;
	mem_freep(&live);
}

void live_free_all(struct member *member)
{
	while (member->execs)
		live_free(member->execs);
}

uint64_t live_written(const struct live *live)
{
	return live->row->output_bytes;
}

uint64_t live_fed(const struct live *live)
{
	return live->feed.sent;
}

size_t live_count(const struct member *member)
{
	size_t count = 0;

	for (const struct live *live = member->execs; live; live = live->next)
		count += !live->is_internal && !live->has_ended && !live->is_starting;
	return count;
}

/* --- messages about one exec --- */

static void notify(struct live *live, enum wire_type type, enum wire_field field, uint64_t value,
                   uint64_t offset)
{
	auto_wire_out struct wire_out out = {0};

	if (!live->member->peer)
		return;
	wire_begin(&out, type, 0);
	wire_put_str(&out, FIELD_EXEC, live->row->id.text);
	if (field)
		wire_put_u64(&out, field, value);
	if (type == WIRE_K_ATTACH)
		wire_put_u64(&out, FIELD_OFFSET, offset);
	peer_notify(live->member->peer, &out);
}

static void hold(struct live *live, bool held, uint64_t offset)
{
	if (live->is_held == held)
		return;
	live->is_held = held;
	live->acked = offset;
	notify(live, WIRE_K_ATTACH, FIELD_ATTACHED, held, offset);
}

static bool lowest_ack(const struct live *live, uint64_t *ret)
{
	bool found = false;

	for (const struct exec_watch *watch = live->watches; watch; watch = watch->next) {
		if (!watch->is_holder)
			continue;
		*ret = found ? MIN(*ret, watch->acked) : watch->acked;
		found = true;
	}
	return found;
}

static void update_hold(struct live *live)
{
	uint64_t lowest;

	if (!lowest_ack(live, &lowest)) {
		hold(live, false, 0);
	} else if (!live->is_held) {
		hold(live, true, lowest);
	} else if (lowest >= live->acked + ACK_BYTES) {
		live->acked = lowest;
		notify(live, WIRE_K_ACK, FIELD_OFFSET, lowest, 0);
	}
}

static void on_unclaimed(struct loop_timer *timer, void *ctx)
{
	update_hold(ctx);
}

/* --- watching --- */

static bool has_writer(const struct live *live)
{
	for (const struct exec_watch *watch = live->watches; watch; watch = watch->next) {
		if (watch->is_writer)
			return true;
	}
	return false;
}

static void add_watch(struct live *live, struct exec_watch *watch)
{
	watch->live = live;
	watch->written = live->row->output_bytes;
	watch->next = live->watches;
	live->watches = watch;
}

int live_watch(struct live *live, struct exec_watch *watch, struct err *err)
{
	must(!watch->live);
	if (watch->is_writer && has_writer(live))
		return err_set(err, ERR_CONFLICT,
		               "somebody else writes to this command; attach with readonly");
	add_watch(live, watch);
	if (watch->is_holder) {
		loop_timer_stop(&live->unclaimed);
		update_hold(live);
	}
	return 0;
}

void live_unwatch(struct exec_watch *watch)
{
	struct live *live = watch->live;

	if (!live)
		return;
	must(live->magic == LIVE_MAGIC);
	for (struct exec_watch **at = &live->watches; *at; at = &(*at)->next) {
		if (*at == watch) {
			*at = watch->next;
			break;
		}
	}
	let_go(watch);
	if (watch->is_holder && !live->has_ended)
		update_hold(live);
}

void live_ack(struct exec_watch *watch, uint64_t offset)
{
	struct live *live = watch->live;

	if (!live || offset <= watch->acked)
		return;
	watch->acked = offset;
	if (!live->has_ended && !live->is_starting)
		update_hold(live);
}

/* A watch may leave in its own callback, and no other may: so the next one stays valid. */
static void tell_output(struct live *live)
{
	struct exec_watch *next;

	for (struct exec_watch *watch = live->watches; watch; watch = next) {
		next = watch->next;
		watch->written = live->row->output_bytes;
		watch->ended = live->has_ended ? live->row : NULL;
		watch->ops->on_output(watch, watch->ctx);
	}
}

static void tell_room(struct live *live)
{
	struct exec_watch *next;

	for (struct exec_watch *watch = live->watches; watch; watch = next) {
		next = watch->next;
		if (watch->ops->on_room)
			watch->ops->on_room(watch, watch->ctx);
	}
}

static void tell_over(struct live *live, const struct exec *exec)
{
	while (live->watches) {
		struct exec_watch *watch = live->watches;

		live->watches = watch->next;
		let_go(watch);
		watch->ops->on_over(watch, exec, watch->ctx);
	}
}

void live_let_go(struct member *member)
{
	for (struct live *live = member->execs; live; live = live->next)
		tell_over(live, NULL);
}

/* --- input --- */

ssize_t live_input(struct exec_watch *watch, const void *bytes, size_t len, bool eof)
{
	struct live *live = watch->live;
	size_t take;

	if (!live || live->has_ended || !live->has_stdin)
		return -1;
	if (!watch->is_writer && has_writer(live))
		return -1;
	if (!live->member->peer)
		return 0; /* the keeper is back soon, or the end of it all is told */
	take = MIN(len, feed_room(&live->feed));
	if (take > 0)
		feed_send(&live->feed, live->member->peer, bytes, take);
	if (take == len && eof) {
		feed_end(&live->feed, live->member->peer);
		live->has_stdin = false;
	}
	return (ssize_t)take;
}

void live_abandon(struct live *live)
{
	if (!live->has_ended && !live->is_starting)
		notify(live, WIRE_K_KILL, 0, 0, 0);
}

/* --- start --- */

static void answer_start(struct live *live, const struct err *err)
{
	engine_on_exec on_exec = take_ptr(live->on_exec);

	if (on_exec)
		on_exec(err->code == ERR_OK ? live->row : NULL, err, live->exec_ctx);
}

static void on_start_stored(const struct store_result *result, void *ctx)
{
	static const struct err none = {0};
	struct live *live = ctx;
	struct member *member = live->member;

	if (!result->ok)
		live_abandon(live); /* what cannot be recorded does not run */
	answer_start(live, result->ok ? &none : &result->err);
	member_unref(member);
}

static struct store_write *new_write(const struct live *live, enum event_kind kind)
{
	struct store_write *write = store_write_new(live->member->fleet->store);
	struct event event;

	note_exec(&event, kind, live->row);
	store_put_exec(write, live->row);
	store_put_event(write, &event);
	event_done(&event);
	return write;
}

static void store_row(struct live *live, enum event_kind kind, store_on_done on_done)
{
	struct store_write *write = new_write(live, kind);

	if (live->member->row->spec.is_ephemeral && !live->is_recorded)
		fleet_submit_soon(live->member->fleet, write, on_done, live);
	else
		store_write_submit(write, on_done, live);
}

/* What is noted elsewhere is not ended because of this: its keeper is asked once more. */
static void on_noted_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	if (!result->ok) {
		log_error("what became of a command is not recorded; its keeper is asked again",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(&result->err));
		member->has_unknown_execs = true;
	}
	member_unref(member);
}

static void on_noted_end_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	fleet_note_end(member->fleet, result->ok);
	on_noted_stored(result, member);
}

/* It may be gone when that is stored. */
static void store_noted(struct live *live, enum event_kind kind)
{
	struct member *member = member_ref(live->member);

	fleet_submit_soon(member->fleet, new_write(live, kind),
	                  kind == EVENT_EXEC_EXITED ? on_noted_end_stored : on_noted_stored,
	                  member);
}

static void store_start(struct live *live)
{
	metrics_count(&live->member->fleet->metrics, METRICS_EXECS);
	if (live->is_noted) {
		store_noted(live, EVENT_EXEC_STARTED);
		return;
	}
	member_ref(live->member);
	store_row(live, EVENT_EXEC_STARTED, on_start_stored);
}

static void on_answer(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct live *live = ctx;
	struct member *member = live->member;

	live->is_starting = false;
	if (!msg) {
		engine_on_exec on_exec = take_ptr(live->on_exec);
		void *exec_ctx = live->exec_ctx;

		live_free(live);
		on_exec(NULL, err, exec_ctx);
	} else if (live->is_internal) {
		answer_start(live, err);
	} else {
		store_start(live);
		if (live->is_noted || (member->row->spec.is_ephemeral && !live->is_recorded))
			answer_start(live, err);
	}
	if (msg && wire_has(msg, FIELD_ENDED_MS))
		live_on_exit(member, msg);
	member_unref(member);
}

static void put_request(struct wire_out *out, const struct exec_start *start)
{
	const struct exec *exec = start->exec;

	wire_put_str(out, FIELD_EXEC, exec->id.text);
	for (size_t i = 0; i < exec->argv.count; i++)
		wire_put_str(out, FIELD_ARGV, exec->argv.items[i]);
	for (size_t i = 0; start->env && i < start->env->count; i++)
		wire_put_str(out, FIELD_ENV, start->env->items[i]);
	if (exec->cwd)
		wire_put_str(out, FIELD_CWD, exec->cwd);
	if (exec->user)
		wire_put_str(out, FIELD_USER, exec->user);
	wire_put_u64(out, FIELD_TTY, exec->tty);
	wire_put_u64(out, FIELD_ROWS, start->size.rows);
	wire_put_u64(out, FIELD_COLS, start->size.cols);
	wire_put_u64(out, FIELD_STDIN, start->has_stdin);
	wire_put_u64(out, FIELD_ATTACHED, start->is_attached);
	wire_put_u64(out, FIELD_TIMEOUT_MS, start->timeout_ms);
	wire_put_u64(out, FIELD_ONCE, 1); /* we know an answer that tells of the end, too */
	/* A transfer goes as fast as its reader: the limit is for what commands print. */
	if (start->is_internal)
		wire_put_u64(out, FIELD_OUTPUT_RATE, UINT64_MAX);
}

void live_start(struct member *member, const struct exec_start *start, engine_on_exec on_exec,
                void *ctx)
{
	struct live *live = live_new(member, exec_copy(start->exec));
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(member->peer, &out, WIRE_K_EXEC);

	calm_disturb(&member->fleet->calm);
	live->is_internal = start->is_internal;
	live->is_recorded = start->is_recorded;
	live->is_noted = start->is_noted;
	live->is_starting = true;
	live->is_held = start->is_attached;
	live->has_stdin = start->has_stdin || start->exec->tty;
	live->on_exec = on_exec;
	live->exec_ctx = ctx;
	live->row->started_ms = io_real_ms();
	if (start->watch)
		add_watch(live, start->watch);
	if (start->is_attached && !(start->watch && start->watch->is_holder))
		loop_timer_in(member->fleet->loop, &live->unclaimed, UNCLAIMED_MS, on_unclaimed,
		              live);
	put_request(&out, start);
	member_ref(member);
	peer_call(member->peer, number, &out, START_MS, on_answer, live);
}

/* --- end --- */

void live_release(struct member *member, const char *exec)
{
	auto_wire_out struct wire_out out = {0};

	if (!member->peer)
		return;
	wire_begin(&out, WIRE_K_FORGET, 0);
	wire_put_str(&out, FIELD_EXEC, exec);
	peer_notify(member->peer, &out);
}

/* Whoever watches may still have to read most of it. */
static void over(struct live *live)
{
	struct member *member = member_ref(live->member);
	bool has_reader = live->watches != NULL;

	tell_over(live, live->row);
	if (live->is_internal && !has_reader)
		live_release(member, live->row->id.text);
	live_free(live);
	member_unref(member);
}

static void on_end_stored(const struct store_result *result, void *ctx)
{
	struct live *live = ctx;

	fleet_note_end(live->member->fleet, result->ok);
	if (!result->ok) {
		log_error("the end of a command is not recorded; its keeper is asked again",
		          LOG_STR("exec", live->row->id.text), LOG_ERR(&result->err));
		live->member->has_unknown_execs = true;
	}
	over(live);
}

/* The row says how it ended. */
static void ended(struct live *live)
{
	struct member *member = member_ref(live->member);

	live->has_ended = true;
	loop_timer_stop(&live->unclaimed);
	tell_output(live);
	if (live->is_noted)
		store_noted(live, EVENT_EXEC_EXITED);
	if (live->is_internal || live->is_noted)
		over(live);
	else
		store_row(live, EVENT_EXEC_EXITED, on_end_stored);
	member_unref(member);
}

static void take_end(struct exec *row, const struct wire_msg *msg)
{
	row->ended_ms = wire_u64(msg, FIELD_ENDED_MS, io_real_ms());
	row->signal = (int)wire_u64(msg, FIELD_SIGNAL, 0);
	row->exit_code = (int)wire_u64(msg, FIELD_EXIT_CODE, 0);
	row->output_bytes = wire_u64(msg, FIELD_OFFSET, row->output_bytes);
	spec_set(&row->reason, wire_str(msg, FIELD_REASON, row->signal ? "signal" : "exited"));
}

void live_end_all(struct member *member, const char *reason)
{
	struct live *next;

	for (struct live *live = member->execs; live; live = next) {
		next = live->next;
		if (live->has_ended || live->is_starting)
			continue;
		live->row->ended_ms = member->ended_ms ? member->ended_ms : io_real_ms();
		live->row->signal = SIGKILL;
		spec_set(&live->row->reason, reason);
		ended(live);
	}
}

/* --- the keeper's words --- */

static struct live *named(struct member *member, const struct wire_msg *msg)
{
	return live_find(member, wire_str(msg, FIELD_EXEC, ""));
}

void live_on_output(struct member *member, const struct wire_msg *msg)
{
	struct live *live = named(member, msg);

	if (!live || live->has_ended)
		return;
	live->row->output_bytes = wire_u64(msg, FIELD_OFFSET, live->row->output_bytes);
	tell_output(live);
}

void live_on_room(struct member *member, const struct wire_msg *msg)
{
	struct live *live = named(member, msg);

	if (!live || live->has_ended)
		return;
	feed_drained(&live->feed, wire_u64(msg, FIELD_BYTES_COUNT, 0));
	tell_room(live);
}

void live_on_exit(struct member *member, const struct wire_msg *msg)
{
	struct live *live = named(member, msg);

	if (!live || live->has_ended || live->is_starting)
		return;
	take_end(live->row, msg);
	ended(live);
}

static bool is_internal(const struct wire_msg *msg)
{
	size_t at = 0;
	const char *program = wire_next_str(msg, FIELD_ARGV, &at);
	const char *verb = program ? wire_next_str(msg, FIELD_ARGV, &at) : NULL;

	return verb && str_eq(program, INTERNAL_PROGRAM) && str_eq(verb, "inside");
}

/* A row for an exec whose own was lost between its start and its commit. */
static struct exec *row_from(struct member *member, const struct wire_msg *msg)
{
	struct exec *row = exec_new(&member->row->id);
	const char *text;
	size_t at = 0;

	must(str_copy(row->id.text, sizeof(row->id.text), wire_str(msg, FIELD_EXEC, "")));
	while ((text = wire_next_str(msg, FIELD_ARGV, &at)))
		strings_add(&row->argv, text);
	row->tty = wire_u64(msg, FIELD_TTY, 0);
	row->background = true;
	row->started_ms = wire_u64(msg, FIELD_STARTED_MS, io_real_ms());
	return row;
}

/* An exec nobody in this daemon knows yet. */
static void adopt(struct member *member, const struct wire_msg *msg)
{
	struct exec *row = NULL;
	struct err err = {0};
	struct live *live;
	bool known = store_exec_get(member->fleet->store, wire_str(msg, FIELD_EXEC, ""), &row,
	                            &err) == 0;

	if (known && row->ended_ms) {
		exec_free(row);
		return;
	}
	live = live_new(member, known ? row : row_from(member, msg));
	live->is_internal = !known && is_internal(msg);
	live->has_stdin = true; /* the keeper refuses what it has no pipe for */
	live->is_held = wire_u64(msg, FIELD_ATTACHED, 0);
	feed_adopt(&live->feed, msg);
	live->row->output_bytes = wire_u64(msg, FIELD_OFFSET, 0);
	if (!known && !live->is_internal)
		store_start(live);
	if (live->is_held)
		loop_timer_in(member->fleet->loop, &live->unclaimed, UNCLAIMED_MS, on_unclaimed,
		              live);
	if (live->is_internal)
		live_abandon(live);
}

/* One of ours, over a new connection: input that was on its way is sent again, and output waits for
 * its readers again. */
static void resume(struct live *live, const struct wire_msg *msg)
{
	bool was_held = live->is_held;
	uint64_t lowest = live->acked;

	if (live->has_ended || live->is_starting || wire_has(msg, FIELD_ENDED_MS))
		return;
	feed_sync(&live->feed, live->member->peer, msg);
	live->is_held = wire_u64(msg, FIELD_ATTACHED, 0);
	if (lowest_ack(live, &lowest) || was_held)
		hold(live, true, lowest);
	tell_room(live);
}

void live_on_info(struct member *member, const struct wire_msg *msg)
{
	const char *id = wire_str(msg, FIELD_EXEC, "");

	if (!id_is_valid(id, "ex"))
		return;
	strings_add(&member->seen, id);
	if (live_find(member, id))
		resume(live_find(member, id), msg);
	else
		adopt(member, msg);
	if (wire_has(msg, FIELD_ENDED_MS))
		live_on_exit(member, msg);
	else
		live_on_output(member, msg);
}

static void end_as_lost(struct live *live)
{
	live->row->ended_ms = io_real_ms();
	live->row->signal = SIGKILL;
	spec_set(&live->row->reason, "lost");
	ended(live);
}

static void end_forgotten_rows(struct member *member)
{
	struct exec_filter filter = {
		.sandbox = member->row->id.text, .running_only = true, .limit = LIMIT_PAGE};
	struct exec_page page = {0};
	struct err err = {0};

	if (store_exec_list(member->fleet->store, &filter, &page, &err) < 0) {
		log_error("cannot compare the commands of a sandbox",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(&err));
		return;
	}
	for (size_t i = 0; i < page.count; i++) {
		if (!live_find(member, page.items[i]->id.text) &&
		    !strings_has(&member->seen, page.items[i]->id.text))
			end_as_lost(live_new(member, exec_copy(page.items[i])));
	}
	exec_page_done(&page);
}

void live_listed(struct member *member)
{
	struct live *next;

	for (struct live *live = member->execs; live; live = next) {
		next = live->next;
		if (!live->has_ended && !live->is_starting &&
		    !strings_has(&member->seen, live->row->id.text))
			end_as_lost(live);
	}
	end_forgotten_rows(member);
	strings_done(&member->seen);
}
