/*
 * The fleet with a real store, and a broker and keepers that are played by this test on the same
 * loop: every message they get is recorded, every answer can be chosen.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/engine.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/engine.h"
#include "daemon/fleet.h"
#include "daemon/gallery.h"
#include "daemon/reconcile.h"
#include "harness/test.h"
#include "model/config.h"
#include "runtime/broker_call.h"
#include "runtime/runtime.h"
#include "store/store.h"
#include "wire/wire.h"

enum { KEEPERS = 4 };

/* --- the players --- */

struct keeper {
	char id[33];
	int listen_fd, fd;
	struct loop_source listening, source;
	bool is_mute;  /* never answers a stop */
};

static struct loop *loop;
static struct store *store;
static struct loop_source store_source, broker_source;
static int broker_fd, run_fd, sandboxes_fd;
static struct broker_call *broker;
static struct runtime *runtime;
static struct fleet *fleet;
static struct gallery *gallery;
static struct engine *engine;
static struct keeper keepers[KEEPERS];
static uint8_t bytes[LIMIT_WIRE_BYTES];
static char heard[4096]; /* what broker and keepers were asked, as words */
static struct err launch_err;
static bool hold_launch;
static uint64_t held_launch;
static struct strings alive; /* what the broker lists */
static const char *exec_infos[4]; /* ids a keeper claims to run */

static void hear(const char *word)
{
	size_t len = strlen(heard);

	(void)snprintf(heard + len, sizeof(heard) - len, "%s%s", len ? " " : "", word);
}

static void send_simple(int fd, enum wire_type type, uint64_t request, const struct err *err)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, type, request);
	if (err)
		wire_put_err(&out, err);
	if (type == WIRE_OK)
		wire_put_str(&out, FIELD_MECHANISM, "cgroup=v1");
	CHECK_INT(wire_send(fd, &out), 0);
}

static struct keeper *keeper_of(const char *id)
{
	for (size_t i = 0; i < KEEPERS; i++) {
		if (str_eq(keepers[i].id, id))
			return &keepers[i];
	}
	return NULL;
}

static void keeper_dies(struct keeper *keeper)
{
	loop_remove(&keeper->listening);
	loop_remove(&keeper->source);
	fd_closep(&keeper->listen_fd);
	fd_closep(&keeper->fd);
	if (keeper->id[0]) {
		auto_free char *name = mem_printf("%s.sock", keeper->id);

		(void)unlinkat(run_fd, name, 0);
	}
	keeper->id[0] = '\0';
}

static void keeper_says_gone(struct keeper *keeper, const char *reason)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, WIRE_K_GONE, 0);
	wire_put_str(&out, FIELD_REASON, reason);
	wire_put_u64(&out, FIELD_METER_CPU_US, 5000);
	CHECK_INT(wire_send(keeper->fd, &out), 0);
	keeper_dies(keeper);
}

static void keeper_tells(struct keeper *keeper, enum wire_type type, const char *exec)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, type, 0);
	wire_put_str(&out, FIELD_EXEC, exec);
	wire_put_u64(&out, FIELD_OFFSET, 200000);
	if (type == WIRE_K_EXIT) {
		wire_put_u64(&out, FIELD_EXIT_CODE, 3);
		wire_put_u64(&out, FIELD_ENDED_MS, io_real_ms());
		wire_put_str(&out, FIELD_REASON, "exited");
	}
	CHECK_INT(wire_send(keeper->fd, &out), 0);
}

static void list_execs(struct keeper *keeper, uint64_t request)
{
	for (size_t i = 0; i < ARRAY_LEN(exec_infos) && exec_infos[i]; i++) {
		auto_wire_out struct wire_out out = {0};

		wire_begin(&out, WIRE_K_EXEC_INFO, request);
		wire_put_str(&out, FIELD_EXEC, exec_infos[i]);
		wire_put_str(&out, FIELD_ARGV, "sleep");
		wire_put_u64(&out, FIELD_STARTED_MS, io_real_ms());
		CHECK_INT(wire_send(keeper->fd, &out), 0);
	}
}

static void on_keeper_io(struct loop_source *source, uint32_t events, void *ctx)
{
	static const struct {
		enum wire_type type;
		const char *word;
	} words[] = {
		{WIRE_K_EXEC, "exec"},     {WIRE_K_EXECS, "execs"},       {WIRE_K_STOP, "stop"},
		{WIRE_K_STDIN, "stdin"},   {WIRE_K_DEADLINE, "deadline"}, {WIRE_K_METERS, "meters"},
		{WIRE_K_ATTACH, "attach"}, {WIRE_K_ACK, "ack"},           {WIRE_K_FORGET, "forget"},
		{WIRE_K_KILL, "kill"},     {WIRE_K_SIGNAL, "signal"},     {WIRE_K_RESIZE, "resize"},
	};
	struct keeper *keeper = ctx;
	struct wire_msg msg;

	if (wire_recv(keeper->fd, bytes, sizeof(bytes), &msg) != 1) {
		loop_remove(&keeper->source);
		fd_closep(&keeper->fd);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (words[i].type == msg.type)
			hear(words[i].word);
	}
	if (msg.type == WIRE_K_EXECS)
		list_execs(keeper, msg.request);
	if (msg.request)
		send_simple(keeper->fd, WIRE_OK, msg.request, NULL);
	if (msg.type == WIRE_K_STOP && !keeper->is_mute)
		keeper_says_gone(keeper, "stopped");
	wire_msg_done(&msg);
}

static void on_keeper_accept(struct loop_source *source, uint32_t events, void *ctx)
{
	struct keeper *keeper = ctx;

	loop_remove(&keeper->source);
	fd_closep(&keeper->fd);
	keeper->fd = accept4(keeper->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	CHECK(keeper->fd >= 0);
	CHECK_INT(loop_add(loop, &keeper->source, keeper->fd, EPOLLIN, on_keeper_io, keeper), 0);
}

static struct keeper *keeper_appears(const char *id)
{
	struct keeper *keeper = keeper_of("");
	auto_free char *name = mem_printf("%s.sock", id);
	auto_free char *dir = mem_printf("%s/out", id);

	CHECK(keeper);
	CHECK(str_copy(keeper->id, sizeof(keeper->id), id));
	(void)mkdirat(sandboxes_fd, id, 0700); /* may be there */
	(void)mkdirat(sandboxes_fd, dir, 0700);
	keeper->listen_fd = wire_listen(run_fd, name, 0600);
	CHECK(keeper->listen_fd >= 0);
	CHECK_INT(loop_add(loop, &keeper->listening, keeper->listen_fd, EPOLLIN, on_keeper_accept,
			   keeper), 0);
	return keeper;
}

static void answer_list(uint64_t request)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, WIRE_OK, request);
	for (size_t i = 0; i < alive.count; i++)
		wire_put_str(&out, FIELD_ENTRY, alive.items[i]);
	CHECK_INT(wire_send(broker_fd, &out), 0);
}

static void on_broker_io(struct loop_source *source, uint32_t events, void *ctx)
{
	struct wire_msg msg;
	const char *id;

	if (wire_recv(broker_fd, bytes, sizeof(bytes), &msg) != 1) {
		loop_remove(&broker_source);
		return;
	}
	id = wire_str(&msg, FIELD_SANDBOX, "");
	if (msg.type == WIRE_OP_LAUNCH) {
		hear("launch");
		CHECK_STR(wire_str(&msg, FIELD_LAYER, ""), "host");
		CHECK_INT(wire_u64(&msg, FIELD_MEMORY, 0), 2ULL << 30);
		if (hold_launch)
			held_launch = msg.request;
		else if (launch_err.code)
			send_simple(broker_fd, WIRE_ERROR, msg.request, &launch_err);
		else if (keeper_appears(id))
			send_simple(broker_fd, WIRE_OK, msg.request, NULL);
	} else if (msg.type == WIRE_OP_REAP) {
		hear(wire_u64(&msg, FIELD_KEEP_FILES, 0) ? "reap-keep" : "reap");
		if (keeper_of(id))
			keeper_dies(keeper_of(id));
		send_simple(broker_fd, WIRE_OK, msg.request, NULL);
	} else if (msg.type == WIRE_OP_LIST) {
		answer_list(msg.request);
	}
	wire_msg_done(&msg);
}

static void on_store_io(struct loop_source *source, uint32_t events, void *ctx)
{
	store_dispatch(store);
}

static void on_broker_gone(void *ctx)
{
}

/* --- the stage --- */

static int open_dir(const char *name)
{
	auto_close int dir = test_dir_fd();
	int fd;

	(void)mkdirat(dir, name, 0700); /* may be there: a second daemon on the same state */
	fd = openat(dir, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void start_daemon(void)
{
	auto_free char *path = mem_printf("%s/cloche.db", test_dir());
	struct store_options options = {.path = path};
	struct err err = {0};
	int pair[2];

	CHECK_INT(wire_pair(pair), 0);
	broker_fd = pair[1];
	CHECK_INT(loop_new(&loop), 0);
	CHECK_INT(loop_add(loop, &broker_source, broker_fd, EPOLLIN, on_broker_io, NULL), 0);
	CHECK_INT(store_open(&options, &store, &err), 0);
	CHECK_INT(loop_add(loop, &store_source, store_event_fd(store), EPOLLIN, on_store_io, NULL),
		  0);
	CHECK_INT(broker_call_new(loop, pair[0], on_broker_gone, NULL, &broker, &err), 0);
	runtime = runtime_native_new(broker);
	fleet = fleet_new(&(struct fleet){.loop = loop, .store = store, .runtime = runtime,
					  .run_fd = run_fd, .sandboxes_fd = sandboxes_fd});
	gallery = gallery_new(store, broker);
	engine = engine_new(fleet, gallery, broker);
}

static void set_up(void)
{
	for (size_t i = 0; i < KEEPERS; i++)
		keepers[i] = (struct keeper){.listen_fd = -1, .fd = -1};
	run_fd = open_dir("run");
	sandboxes_fd = open_dir("sandboxes");
	start_daemon();
}

static void end_daemon(void)
{
	fleet_shut(fleet);
	broker_call_free(broker);
	runtime_free(runtime);
	loop_remove(&store_source);
	store_close(store);
	fleet_free(fleet);
	engine_free(engine);
	gallery_free(gallery);
	for (size_t i = 0; i < KEEPERS; i++) {
		loop_remove(&keepers[i].listening);
		loop_remove(&keepers[i].source);
		fd_closep(&keepers[i].fd);
	}
	loop_remove(&broker_source);
	fd_closep(&broker_fd);
	loop_free(loop);
	heard[0] = '\0';
}

/* The same state, another daemon; keepers outlived the first. */
static void restart_daemon(void)
{
	end_daemon();
	start_daemon();
	for (size_t i = 0; i < KEEPERS; i++) {
		if (keepers[i].id[0])
			CHECK_INT(loop_add(loop, &keepers[i].listening, keepers[i].listen_fd,
					   EPOLLIN, on_keeper_accept, &keepers[i]), 0);
	}
}

static void tear_down(void)
{
	end_daemon();
	for (size_t i = 0; i < KEEPERS; i++)
		fd_closep(&keepers[i].listen_fd);
	fd_closep(&run_fd);
	fd_closep(&sandboxes_fd);
	strings_done(&alive);
}

#define UNTIL(cond)                                                                                \
	do {                                                                                       \
		uint64_t begin_ = io_boot_ms();                                                    \
		while (!(cond)) {                                                                  \
			CHECK(io_boot_ms() - begin_ < 10000);                                      \
			CHECK(loop_step(loop, 50) >= 0);                                           \
		}                                                                                  \
	} while (0)

/* --- what was answered --- */

static int answers;
static struct err answer_err;
static char answer_id[33];
static enum sandbox_state answer_state;

static void on_sandbox(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	answers++;
	answer_err = *err;
	if (sandbox) {
		CHECK(str_copy(answer_id, sizeof(answer_id), sandbox->id.text));
		answer_state = sandbox->state;
	}
}

static void on_done(const struct err *err, void *ctx)
{
	answers++;
	answer_err = *err;
}

static void on_exec(const struct exec *exec, const struct err *err, void *ctx)
{
	answers++;
	answer_err = *err;
}

static void create(const char *name)
{
	struct spec spec;
	int before = answers;

	spec_init(&spec);
	spec_set(&spec.name, name);
	engine->ops->create(engine, &spec, on_sandbox, NULL);
	spec_done(&spec);
	if (!hold_launch)
		UNTIL(answers > before);
}

static enum sandbox_state stored_state(const char *id)
{
	auto_(sandbox_freep) struct sandbox *row = NULL;

	return store_sandbox_get(store, id, &row, &(struct err){0}) == 0 ? row->state
									 : SANDBOX_NONE;
}

static char *stored_reason(const char *id)
{
	auto_(sandbox_freep) struct sandbox *row = NULL;

	CHECK_INT(store_sandbox_get(store, id, &row, &(struct err){0}), 0);
	return mem_strdup(row->end_reason ? row->end_reason : "");
}

static const char *event_words(void)
{
	static char words[1024];
	struct event_filter filter = {.limit = 100};
	struct event_page page = {0};
	size_t len = 0;

	CHECK_INT(store_event_list(store, &filter, &page, &(struct err){0}), 0);
	words[0] = '\0';
	for (size_t i = 0; i < page.count; i++)
		len += (size_t)snprintf(words + len, sizeof(words) - len, "%s%s", i ? " " : "",
					event_name(page.items[i].kind));
	event_page_done(&page);
	return words;
}

/* --- sandboxes --- */

TEST(a_sandbox_is_created_stopped_started_and_removed)
{
	set_up();
	create("one");
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);
	CHECK_STR(heard, "launch");

	engine->ops->stop(engine, answer_id, 100, on_sandbox, NULL);
	UNTIL(answers == 2);
	CHECK_INT(answer_state, SANDBOX_STOPPED);
	CHECK_INT(stored_state("one"), SANDBOX_STOPPED);
	CHECK_STR(heard, "launch stop reap-keep");
	CHECK(!fleet->members);

	engine->ops->start(engine, answer_id, on_sandbox, NULL);
	UNTIL(answers == 3);
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);

	engine->ops->remove(engine, answer_id, false, on_done, NULL);
	UNTIL(answers == 4);
	CHECK_INT(answer_err.code, ERR_CONFLICT);
	engine->ops->remove(engine, answer_id, true, on_done, NULL);
	UNTIL(answers == 5);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(stored_state("one"), SANDBOX_NONE);
	CHECK_STR(heard, "launch stop reap-keep launch reap");
	CHECK_STR(event_words(),
		  "sandbox.created sandbox.running sandbox.stopping sandbox.stopped "
		  "sandbox.created sandbox.running sandbox.removing sandbox.removed");
	CHECK(!fleet->members);
	tear_down();
}

TEST(a_refused_launch_is_undone_and_says_why)
{
	set_up();
	(void)err_set(&launch_err, ERR_MISSING, "no memory cgroup here");
	create("one");
	CHECK_INT(answer_err.code, ERR_MISSING);
	CHECK_STR(answer_err.msg, "no memory cgroup here");
	CHECK_STR(heard, "launch reap");
	CHECK_INT(stored_state("one"), SANDBOX_FAILED);
	auto_free char *reason = stored_reason("one");
	CHECK_STR(reason, "start_failed");
	create("one");
	CHECK_INT(answer_err.code, ERR_CONFLICT);
	tear_down();
}

TEST(removal_during_the_launch_waits_for_it)
{
	set_up();
	hold_launch = true;
	create("one");
	UNTIL(held_launch);
	auto_free char *id = mem_strdup(fleet->members->row->id.text);
	engine->ops->remove(engine, id, true, on_done, NULL);
	UNTIL(stored_state(id) == SANDBOX_REMOVING);
	CHECK_STR(heard, "launch");
	keeper_appears(id);
	send_simple(broker_fd, WIRE_OK, held_launch, NULL);
	UNTIL(answers == 2);
	CHECK_STR(heard, "launch reap");
	CHECK_INT(stored_state(id), SANDBOX_NONE);
	tear_down();
}

TEST(a_keeper_that_ends_by_its_deadline_stops_the_sandbox)
{
	set_up();
	create("one");
	keeper_says_gone(keeper_of(answer_id), "ttl");
	UNTIL(stored_state("one") == SANDBOX_STOPPED);
	auto_free char *reason = stored_reason("one");
	CHECK_STR(reason, "ttl");
	CHECK_STR(heard, "launch reap-keep");
	tear_down();
}

TEST(a_keeper_that_vanishes_is_lost)
{
	set_up();
	create("one");
	keeper_dies(keeper_of(answer_id));
	UNTIL(stored_state("one") == SANDBOX_FAILED);
	auto_free char *reason = stored_reason("one");
	CHECK_STR(reason, "lost");
	CHECK_STR(heard, "launch reap-keep");
	tear_down();
}

TEST(a_dropped_connection_is_made_again)
{
	set_up();
	create("one");
	struct keeper *keeper = keeper_of(answer_id);
	loop_remove(&keeper->source);
	fd_closep(&keeper->fd);
	UNTIL(strstr(heard, "execs"));
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);
	CHECK_STR(heard, "launch execs");
	tear_down();
}

TEST(changes_are_stored_and_a_taken_name_is_refused)
{
	struct strings labels = {0};
	struct sandbox_change change = {.name = "renamed", .labels = &labels, .has_ttl = true,
					.ttl_ms = 60000};

	set_up();
	create("one");
	create("two");
	strings_set(&labels, "a", "b");
	engine->ops->change(engine, answer_id, &change, on_sandbox, NULL);
	UNTIL(answers == 3);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(stored_state("renamed"), SANDBOX_RUNNING);
	UNTIL(strstr(heard, "deadline"));
	change.name = "one";
	engine->ops->change(engine, answer_id, &change, on_sandbox, NULL);
	UNTIL(answers == 4);
	CHECK_INT(answer_err.code, ERR_CONFLICT);
	CHECK_INT(stored_state("renamed"), SANDBOX_RUNNING);
	strings_done(&labels);
	tear_down();
}

/* --- execs --- */

static int outputs, overs, rooms;
static int over_code;

static void on_output(struct exec_watch *watch, void *ctx)
{
	outputs++;
}

static void on_room(struct exec_watch *watch, void *ctx)
{
	rooms++;
}

static void on_over(struct exec_watch *watch, const struct exec *exec, void *ctx)
{
	overs++;
	over_code = exec ? exec->exit_code : -1;
}

static const struct exec_watch_ops watch_ops = {on_output, on_room, on_over};

static struct exec *new_exec(void)
{
	struct id sandbox;

	CHECK(str_copy(sandbox.text, sizeof(sandbox.text), answer_id));
	struct exec *exec = exec_new(&sandbox);
	strings_add(&exec->argv, "true");
	return exec;
}

TEST(an_exec_is_recorded_from_start_to_end)
{
	struct exec_watch watch = {.ops = &watch_ops, .is_holder = true};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *exec = new_exec();
	auto_(exec_freep) struct exec *row = NULL;
	struct exec_start start = {.exec = exec, .is_attached = true, .watch = &watch};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	CHECK_INT(answer_err.code, ERR_OK);
	keeper_tells(keeper_of(answer_id), WIRE_K_OUTPUT, exec->id.text);
	UNTIL(outputs == 1);
	engine->ops->ack(engine, &watch, 1000);
	engine->ops->ack(engine, &watch, 200000);
	keeper_tells(keeper_of(answer_id), WIRE_K_EXIT, exec->id.text);
	UNTIL(overs == 1);
	CHECK_INT(over_code, 3);
	CHECK_STR(heard, "launch exec ack");
	CHECK_INT(store_exec_get(store, exec->id.text, &row, &(struct err){0}), 0);
	CHECK_INT(row->exit_code, 3);
	CHECK(row->ended_ms);
	CHECK_STR(event_words(), "sandbox.created sandbox.running exec.started exec.exited");
	tear_down();
}

TEST(an_internal_exec_leaves_no_trace)
{
	struct exec_watch watch = {.ops = &watch_ops, .is_holder = true};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *exec = new_exec();
	struct exec_start start = {.exec = exec, .is_attached = true, .is_internal = true,
				   .watch = &watch};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	keeper_tells(keeper_of(answer_id), WIRE_K_EXIT, exec->id.text);
	UNTIL(strstr(heard, "forget"));
	CHECK_INT(overs, 1);
	CHECK_STR(event_words(), "sandbox.created sandbox.running");
	tear_down();
}

TEST(input_is_sent_as_far_as_there_is_room)
{
	struct exec_watch watch = {.ops = &watch_ops}, rival = {.ops = &watch_ops};
	auto_free char *block = mem_zalloc(LIMIT_STDIN_WINDOW_BYTES + 100);
	struct err err = {0};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *exec = new_exec();
	struct exec_start start = {.exec = exec, .has_stdin = true};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	watch.is_writer = rival.is_writer = true;
	CHECK_INT(engine->ops->watch(engine, answer_id, exec->id.text, &watch, &err), 0);
	CHECK(engine->ops->watch(engine, answer_id, exec->id.text, &rival, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK_INT(engine->ops->input(engine, &watch, block, LIMIT_STDIN_WINDOW_BYTES + 100, true),
		  LIMIT_STDIN_WINDOW_BYTES);
	auto_wire_out struct wire_out out = {0};
	wire_begin(&out, WIRE_K_STDIN_ROOM, 0);
	wire_put_str(&out, FIELD_EXEC, exec->id.text);
	wire_put_u64(&out, FIELD_BYTES_COUNT, 50);
	CHECK_INT(wire_send(keeper_of(answer_id)->fd, &out), 0);
	UNTIL(rooms == 1);
	CHECK_INT(engine->ops->input(engine, &watch, block, 100, true), 50);
	CHECK_INT(engine->ops->input(engine, &watch, block, 0, true), 0);
	CHECK(engine->ops->input(engine, &watch, block, 1, false) < 0);
	engine->ops->unwatch(engine, &watch);
	CHECK_INT(engine->ops->watch(engine, answer_id, exec->id.text, &rival, &err), 0);
	engine->ops->unwatch(engine, &rival);
	tear_down();
}

TEST(execs_end_with_their_sandbox)
{
	struct exec_watch watch = {.ops = &watch_ops};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *exec = new_exec();
	auto_(exec_freep) struct exec *row = NULL;
	struct exec_start start = {.exec = exec, .watch = &watch};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	keeper_dies(keeper_of(answer_id));
	UNTIL(stored_state("one") == SANDBOX_FAILED && overs == 1);
	CHECK_INT(store_exec_get(store, exec->id.text, &row, &(struct err){0}), 0);
	CHECK_STR(row->reason, "lost");
	start.watch = NULL;
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 3);
	CHECK_INT(answer_err.code, ERR_CONFLICT);
	tear_down();
}

/* --- the start of the daemon --- */

static int ready;

static void on_ready(const struct err *err, void *ctx)
{
	ready++;
	CHECK_INT(err->code, ERR_OK);
}

static struct sandbox *put_row(const char *name, enum sandbox_state state)
{
	struct spec spec;
	struct sandbox *row;
	struct store_write *write = store_write_new(store);

	spec_init(&spec);
	spec_set(&spec.name, name);
	row = sandbox_new(&spec, io_real_ms());
	row->state = state;
	row->started_ms = state == SANDBOX_CREATING ? 0 : io_real_ms();
	spec_done(&spec);
	store_put_sandbox(write, row);
	CHECK_INT(store_write_wait(write, NULL, &(struct err){0}), 0);
	return row;
}

TEST(half_finished_things_are_undone_or_finished)
{
	set_up();
	auto_(sandbox_freep) struct sandbox *creating = put_row("creating", SANDBOX_CREATING);
	auto_(sandbox_freep) struct sandbox *removing = put_row("removing", SANDBOX_REMOVING);
	auto_(sandbox_freep) struct sandbox *lost = put_row("lost", SANDBOX_RUNNING);
	auto_(sandbox_freep) struct sandbox *stopped = put_row("stopped", SANDBOX_STOPPED);
	strings_add(&alive, "sb_00000000000000000000 1");
	strings_take(&alive, mem_printf("%s 0", stopped->id.text));
	reconcile_run(fleet, on_ready, NULL);
	UNTIL(ready && !fleet->members);
	CHECK_INT(stored_state("creating"), SANDBOX_FAILED);
	CHECK_INT(stored_state("removing"), SANDBOX_NONE);
	CHECK_INT(stored_state("lost"), SANDBOX_FAILED);
	CHECK_INT(stored_state("stopped"), SANDBOX_STOPPED);
	auto_free char *reason = stored_reason("lost");
	CHECK_STR(reason, "lost");
	UNTIL(strlen(heard) >= strlen("reap reap reap reap-keep"));
	tear_down();
}

TEST(the_keepers_last_words_are_believed)
{
	set_up();
	auto_(sandbox_freep) struct sandbox *row = put_row("one", SANDBOX_RUNNING);
	auto_free char *dir = mem_printf("%s/out", row->id.text);
	auto_free char *path = mem_printf("%s/out/exit", row->id.text);
	auto_free char *text = mem_printf("reason=ttl\nended_ms=%llu\ncpu_us=77\n",
					  (unsigned long long)io_real_ms());
	CHECK_INT(mkdirat(sandboxes_fd, row->id.text, 0700), 0);
	CHECK_INT(mkdirat(sandboxes_fd, dir, 0700), 0);
	auto_close int fd = openat(sandboxes_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(io_write_all(fd, text, strlen(text)), 0);
	reconcile_run(fleet, on_ready, NULL);
	UNTIL(stored_state("one") == SANDBOX_STOPPED);
	auto_(sandbox_freep) struct sandbox *after = NULL;
	CHECK_INT(store_sandbox_get(store, "one", &after, &(struct err){0}), 0);
	CHECK_STR(after->end_reason, "ttl");
	CHECK_INT(after->meters.cpu_us, 77);
	tear_down();
}

TEST(what_lives_is_adopted_with_its_execs)
{
	struct exec_watch watch = {.ops = &watch_ops};
	struct err err = {0};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *known = new_exec();
	auto_(exec_freep) struct exec *vanished = new_exec();
	auto_(exec_freep) struct exec *row = NULL;
	struct exec_start start = {.exec = known};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	start.exec = vanished;
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 3);
	struct id unknown = id_new("ex");
	exec_infos[0] = known->id.text;
	exec_infos[1] = unknown.text;

	restart_daemon();
	reconcile_run(fleet, on_ready, NULL);
	UNTIL(ready);
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);
	CHECK_INT(engine->ops->watch(engine, answer_id, known->id.text, &watch, &err), 0);
	UNTIL(store_exec_get(store, unknown.text, &row, &err) == 0);
	exec_free(take_ptr(row));
	UNTIL(store_exec_get(store, vanished->id.text, &row, &err) == 0 && row->ended_ms);
	CHECK_STR(row->reason, "lost");
	keeper_tells(keeper_of(answer_id), WIRE_K_EXIT, known->id.text);
	UNTIL(overs == 1);
	CHECK_INT(over_code, 3);
	tear_down();
}

TEST(a_stop_that_was_under_way_is_repeated)
{
	set_up();
	create("one");
	keeper_of(answer_id)->is_mute = true;
	engine->ops->stop(engine, answer_id, 60000, on_sandbox, NULL);
	UNTIL(strstr(heard, "stop"));
	restart_daemon();
	CHECK_INT(stored_state("one"), SANDBOX_STOPPING);
	keeper_of(answer_id)->is_mute = false;
	reconcile_run(fleet, on_ready, NULL);
	UNTIL(stored_state("one") == SANDBOX_STOPPED);
	CHECK_STR(heard, "execs stop reap-keep");
	tear_down();
}
