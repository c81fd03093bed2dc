#include "stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/engine.h"
#include "daemon/environments.h"
#include "daemon/gallery.h"
#include "daemon/sweep.h"
#include "model/policy.h"
#include "runtime/broker_call.h"
#include "runtime/runtime.h"

enum { KEEPERS = 4 };

/* --- the players --- */

struct loop *loop;
struct store *store;
struct fleet *fleet;
struct engine *engine;
int stage_broker_fd, stage_sandboxes_fd;
char heard[4096];
struct err launch_err;
bool hold_launch;
uint64_t held_launch;
int reaps_to_refuse;
enum err_code reap_code = ERR_IO;
bool hold_reap;
struct strings alive;
struct err policy_err;
char exec_env[512];
const char *exec_infos[4];
int answers;
struct err answer_err;
char answer_id[33];
enum sandbox_state answer_state;
int outputs, overs, rooms, over_code;

static struct loop_source store_source, broker_source;
static int run_fd;
static struct broker_call *broker;
static struct runtime *runtime;
static struct gallery *gallery;
static struct stage_keeper keepers[KEEPERS];
static uint8_t bytes[LIMIT_WIRE_BYTES];
static struct config config;
static struct keys keys; /* all zeros seal as well as others */
static struct environments environments;

static void hear(const char *word)
{
	size_t len = strlen(heard);

	(void)snprintf(heard + len, sizeof(heard) - len, "%s%s", len ? " " : "", word);
}

void send_simple(int fd, enum wire_type type, uint64_t request, const struct err *err)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, type, request);
	if (err)
		wire_put_err(&out, err);
	if (type == WIRE_OK)
		wire_put_str(&out, FIELD_MECHANISM, "cgroup=v1");
	CHECK_INT(wire_send(fd, &out), 0);
}

struct stage_keeper *keeper_of(const char *id)
{
	for (size_t i = 0; i < KEEPERS; i++) {
		if (str_eq(keepers[i].id, id))
			return &keepers[i];
	}
	return NULL;
}

void keeper_dies(struct stage_keeper *keeper)
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

void keeper_says_gone(struct stage_keeper *keeper, const char *reason)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, WIRE_K_GONE, 0);
	wire_put_str(&out, FIELD_REASON, reason);
	wire_put_u64(&out, FIELD_METER_CPU_US, 5000);
	CHECK_INT(wire_send(keeper->fd, &out), 0);
	keeper_dies(keeper);
}

void keeper_tells(struct stage_keeper *keeper, enum wire_type type, const char *exec)
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

/* As a keeper does: only a newer one, and only if it can be read. */
static void take_policy(struct stage_keeper *keeper, const struct wire_msg *msg)
{
	uint64_t generation = wire_u64(msg, FIELD_GENERATION, 0);
	auto_wire_out struct wire_out out = {0};
	struct err err = policy_err;
	struct policy policy;
	size_t len = 0;
	const uint8_t *blob = wire_blob(msg, FIELD_POLICY, &len);

	if (generation <= keeper->generation)
		(void)err_set(&err, ERR_CONFLICT, "it is not newer"); /* always -1 */
	if (err.code == ERR_OK && policy_parse(blob, len, &policy, &err) == 0) {
		policy_fingerprint(&policy, keeper->fingerprint);
		policy_done(&policy);
		keeper->generation = generation;
	}
	if (err.code != ERR_OK) {
		send_simple(keeper->fd, WIRE_ERROR, msg->request, &err);
		return;
	}
	wire_begin(&out, WIRE_OK, msg->request);
	wire_put_u64(&out, FIELD_GENERATION, generation);
	CHECK_INT(wire_send(keeper->fd, &out), 0);
}

static void note_env(const struct wire_msg *msg)
{
	const char *text;
	size_t at = 0;

	exec_env[0] = '\0';
	while ((text = wire_next_str(msg, FIELD_ENV, &at))) {
		size_t len = strlen(exec_env);

		(void)snprintf(exec_env + len, sizeof(exec_env) - len, "%s ", text);
	}
}

static void list_hosts(struct stage_keeper *keeper, uint64_t request)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, WIRE_K_NET_HOST, request);
	wire_put_str(&out, FIELD_HOST, "a.example");
	wire_put_str(&out, FIELD_PROTO, "tcp");
	wire_put_u64(&out, FIELD_PORT, 443);
	wire_put_u64(&out, FIELD_COUNT, 3);
	CHECK_INT(wire_send(keeper->fd, &out), 0);
}

static void list_execs(struct stage_keeper *keeper, uint64_t request)
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
		{WIRE_K_POLICY, "policy"},
	};
	struct stage_keeper *keeper = ctx;
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
	if (msg.type == WIRE_K_NET)
		list_hosts(keeper, msg.request);
	if (msg.type == WIRE_K_EXEC)
		note_env(&msg);
	if (msg.type == WIRE_K_ANSWER)
		hear(wire_str(&msg, FIELD_VERDICT, "?"));
	if (msg.type == WIRE_K_POLICY && !keeper->is_stuck)
		take_policy(keeper, &msg);
	else if (msg.request && !keeper->is_stuck)
		send_simple(keeper->fd, WIRE_OK, msg.request, NULL);
	if (msg.type == WIRE_K_STOP && !keeper->is_mute && !keeper->is_stuck)
		keeper_says_gone(keeper, "stopped");
	wire_msg_done(&msg);
}

static void on_keeper_accept(struct loop_source *source, uint32_t events, void *ctx)
{
	struct stage_keeper *keeper = ctx;

	loop_remove(&keeper->source);
	fd_closep(&keeper->fd);
	keeper->fd = accept4(keeper->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	CHECK(keeper->fd >= 0);
	CHECK_INT(loop_add(loop, &keeper->source, keeper->fd, EPOLLIN, on_keeper_io, keeper), 0);
}

struct stage_keeper *keeper_appears(const char *id)
{
	struct stage_keeper *keeper = keeper_of("");
	auto_free char *name = mem_printf("%s.sock", id);
	auto_free char *dir = mem_printf("%s/out", id);

	CHECK(keeper);
	CHECK(str_copy(keeper->id, sizeof(keeper->id), id));
	keeper->generation = 0;
	keeper->fingerprint[0] = '\0';
	(void)mkdirat(stage_sandboxes_fd, id, 0700); /* may be there */
	(void)mkdirat(stage_sandboxes_fd, dir, 0700);
	keeper->listen_fd = wire_listen(run_fd, name, 0600);
	CHECK(keeper->listen_fd >= 0);
	CHECK_INT(loop_add(loop, &keeper->listening, keeper->listen_fd, EPOLLIN, on_keeper_accept,
	                   keeper),
	          0);
	return keeper;
}

static void answer_list(uint64_t request)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, WIRE_OK, request);
	for (size_t i = 0; i < alive.count; i++)
		wire_put_str(&out, FIELD_ENTRY, alive.items[i]);
	CHECK_INT(wire_send(stage_broker_fd, &out), 0);
}

static void answer_reap(const char *id, uint64_t request)
{
	struct err busy = {0};

	if (hold_reap)
		return;
	if (reaps_to_refuse > 0) {
		reaps_to_refuse--;
		(void)err_set(&busy, reap_code, "a file stays"); /* always -1 */
		send_simple(stage_broker_fd, WIRE_ERROR, request, &busy);
		return;
	}
	if (keeper_of(id))
		keeper_dies(keeper_of(id));
	send_simple(stage_broker_fd, WIRE_OK, request, NULL);
}

static void on_broker_io(struct loop_source *source, uint32_t events, void *ctx)
{
	struct wire_msg msg;
	const char *id;

	if (wire_recv(stage_broker_fd, bytes, sizeof(bytes), &msg) != 1) {
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
			send_simple(stage_broker_fd, WIRE_ERROR, msg.request, &launch_err);
		else if (keeper_appears(id))
			send_simple(stage_broker_fd, WIRE_OK, msg.request, NULL);
	} else if (msg.type == WIRE_OP_REAP) {
		hear(wire_u64(&msg, FIELD_KEEP_FILES, 0) ? "reap-keep" : "reap");
		answer_reap(id, msg.request);
	} else if (msg.type == WIRE_OP_EGRESS) {
		hear(wire_str(&msg, FIELD_CIDR, "egress"));
		send_simple(stage_broker_fd, WIRE_OK, msg.request, NULL);
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
	stage_broker_fd = pair[1];
	CHECK_INT(loop_new(&loop), 0);
	CHECK_INT(loop_add(loop, &broker_source, stage_broker_fd, EPOLLIN, on_broker_io, NULL), 0);
	CHECK_INT(store_open(&options, &store, &err), 0);
	CHECK_INT(loop_add(loop, &store_source, store_event_fd(store), EPOLLIN, on_store_io, NULL),
	          0);
	CHECK_INT(broker_call_new(loop, pair[0], on_broker_gone, NULL, &broker, &err), 0);
	runtime = runtime_native_new(broker);
	config_init(&config);
	environments = (struct environments){store, &config, &keys};
	fleet = fleet_new(&(struct fleet){.loop = loop,
	                                  .environments = &environments,
	                                  .store = store,
	                                  .runtime = runtime,
	                                  .run_fd = run_fd,
	                                  .sandboxes_fd = stage_sandboxes_fd,
	                                  .sweep_ms = 20,
	                                  .retry_ms = 5});
	gallery = gallery_new(loop, store, broker);
	engine = engine_new(fleet, gallery, broker);
}

void set_up(void)
{
	for (size_t i = 0; i < KEEPERS; i++)
		keepers[i] = (struct stage_keeper){.listen_fd = -1, .fd = -1};
	run_fd = open_dir("run");
	stage_sandboxes_fd = open_dir("sandboxes");
	start_daemon();
}

static void end_daemon(void)
{
	sweep_stop(fleet);
	fleet_shut(fleet);
	broker_call_free(broker);
	runtime_free(runtime);
	loop_remove(&store_source);
	store_close(store);
	fleet_free(fleet);
	config_done(&config);
	engine_free(engine);
	gallery_free(gallery);
	for (size_t i = 0; i < KEEPERS; i++) {
		loop_remove(&keepers[i].listening);
		loop_remove(&keepers[i].source);
		fd_closep(&keepers[i].fd);
	}
	loop_remove(&broker_source);
	fd_closep(&stage_broker_fd);
	loop_free(loop);
	heard[0] = '\0';
}

void restart_daemon(void)
{
	end_daemon();
	start_daemon();
	for (size_t i = 0; i < KEEPERS; i++) {
		if (keepers[i].id[0])
			CHECK_INT(loop_add(loop, &keepers[i].listening, keepers[i].listen_fd,
			                   EPOLLIN, on_keeper_accept, &keepers[i]),
			          0);
	}
}

void tear_down(void)
{
	end_daemon();
	for (size_t i = 0; i < KEEPERS; i++)
		fd_closep(&keepers[i].listen_fd);
	fd_closep(&run_fd);
	fd_closep(&stage_sandboxes_fd);
	strings_done(&alive);
}

/* --- what was answered --- */

void on_sandbox(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	answers++;
	answer_err = *err;
	if (sandbox) {
		CHECK(str_copy(answer_id, sizeof(answer_id), sandbox->id.text));
		answer_state = sandbox->state;
	}
}

void on_done(const struct err *err, void *ctx)
{
	answers++;
	answer_err = *err;
}

void on_exec(const struct exec *exec, const struct err *err, void *ctx)
{
	answers++;
	answer_err = *err;
}

void create(const char *name)
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

enum sandbox_state stored_state(const char *id)
{
	auto_(sandbox_freep) struct sandbox *row = NULL;

	return store_sandbox_get(store, id, &row, &(struct err){0}) == 0 ? row->state
	                                                                 : SANDBOX_NONE;
}

char *stored_reason(const char *id)
{
	auto_(sandbox_freep) struct sandbox *row = NULL;

	CHECK_INT(store_sandbox_get(store, id, &row, &(struct err){0}), 0);
	return mem_strdup(row->end_reason ? row->end_reason : "");
}

const char *exec_reason(const char *id)
{
	static char reason[32];
	auto_(exec_freep) struct exec *row = NULL;

	if (store_exec_get(store, id, &row, &(struct err){0}) < 0)
		return NULL;
	CHECK(str_copy(reason, sizeof(reason), row->reason ? row->reason : ""));
	return reason;
}

const char *event_words(void)
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

const struct exec_watch_ops watch_ops = {on_output, on_room, on_over};

struct exec *new_exec(void)
{
	struct id sandbox;

	CHECK(str_copy(sandbox.text, sizeof(sandbox.text), answer_id));
	struct exec *exec = exec_new(&sandbox);
	strings_add(&exec->argv, "true");
	return exec;
}
