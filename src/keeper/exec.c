/*
 * Commands inside: asked for by the daemon, started by the spawner, watched through the shim's
 * status socket. States: STARTING -> RUNNING -> ENDED; an exec that could not start goes from
 * STARTING away.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "keeper/state.h"
#include "os/path.h"
#include "os/tty.h"

enum {
	FREEZE_TIMEOUT_MS = 500,
	KILL_AGAIN_MS = 1000,
	START_AGAIN_MS = 5000, /* then somebody else shall start it */
	START_MS = 15000,
	LET_DIE_MS = 50,
	KILLS_BELOW_SHIM = 3,
	OOM_EXIT_CODE = 128 + SIGKILL,
	ARGV_KEPT_BYTES = 2048, /* of one exec: a list of all must fit LIMIT_KEEPER_QUEUE_BYTES */
};

struct exec *exec_find(struct keeper *keeper, const char *id)
{
	for (struct exec *exec = keeper->execs; exec; exec = exec->next) {
		if (str_eq(exec->id, id))
			return exec;
	}
	return NULL;
}

static void free_list(char **list)
{
	for (char **item = list; item && *item; item++)
		free(*item);
	free(list);
}

static void exec_free(struct exec *exec)
{
	struct keeper *keeper = exec->keeper;
	for (struct exec **at = &keeper->execs; *at; at = &(*at)->next) {
		if (*at == exec) {
			*at = exec->next;
			keeper->exec_count--;
			break;
		}
	}
	relay_done(exec);
	loop_remove(&exec->status);
	fd_closep(&exec->status_fd);
	loop_timer_stop(&exec->timeout);
	loop_timer_stop(&exec->start);
	free_list(exec->argv);
	free(exec);
}

void exec_done_all(struct keeper *keeper)
{
	while (keeper->execs)
		exec_free(keeper->execs);
}

static void remove_output(struct keeper *keeper, const char *id)
{
	auto_close int dir = path_open_plain(keeper->launch.out_dir, id, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return;
	(void)!path_remove_below(dir); /* what is left goes with the sandbox */
	(void)unlinkat(keeper->launch.out_dir, id, AT_REMOVEDIR);
}

void exec_forget(struct exec *exec)
{
	remove_output(exec->keeper, exec->id);
	exec_free(exec);
}

/* --- start --- */

/* Fds for the spawner: status, and pipes unless there is a terminal. All but ours are closed by the
 * caller after the send. */
struct child_fds {
	int status;
	int stdio[3];
};

static void child_fds_close(struct child_fds *fds)
{
	fd_closep(&fds->status);
	for (int i = 0; i < 3; i++)
		fd_closep(&fds->stdio[i]);
}

static int make_output_pipe(struct exec_stream *stream, int *ret_write)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	stream->fd = fds[0];
	*ret_write = fds[1];
	return 0;
}

static int make_pipes(struct exec *exec, bool has_input, struct child_fds *ret)
{
	int fds[2];
	int r = wire_pair(fds);
	if (r < 0)
		return r;
	exec->status_fd = fds[0];
	ret->status = fds[1];
	if (exec->is_tty)
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	ret->stdio[0] = fds[0];
	exec->input_fd = fds[1];
	if (!has_input)
		fd_closep(&exec->input_fd); /* the command reads end of file at once */
	r = make_output_pipe(&exec->streams[0], &ret->stdio[1]);
	return r < 0 ? r : make_output_pipe(&exec->streams[1], &ret->stdio[2]);
}

static int send_to_spawner(struct exec *exec, const struct wire_msg *msg,
                           const struct child_fds *fds)
{
	static const enum wire_field strings[] = {FIELD_CWD, FIELD_USER};
	static const enum wire_field lists[] = {FIELD_ARGV, FIELD_ENV};
	static const enum wire_field numbers[] = {FIELD_TTY, FIELD_ROWS, FIELD_COLS};
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_S_EXEC, 0);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		size_t at = 0;
		const char *item;
		while ((item = wire_next_str(msg, lists[i], &at)) != NULL)
			wire_put_str(&out, lists[i], item);
	}
	for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
		if (wire_has(msg, strings[i]))
			wire_put_str(&out, strings[i], wire_str(msg, strings[i], ""));
	}
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		wire_put_u64(&out, numbers[i], wire_u64(msg, numbers[i], 0));
	wire_put_u64(&out, FIELD_NOFILE, exec->keeper->slot.nofile);
	if (exec->keeper->slot.is_once)
		wire_put_u64(&out, FIELD_ONCE, exec->keeper->slot.marks_files ? 1 : 2);
	/* A file without a name is not counted: let at least none be larger than all may be. */
	if (exec->keeper->slot.disk.backend == DISK_SAMPLED)
		wire_put_u64(&out, FIELD_FILE_BYTES, exec->keeper->slot.disk.bytes);
	wire_put_fd(&out, fds->status);
	for (int i = 0; i < 3 && !exec->is_tty; i++)
		wire_put_fd(&out, fds->stdio[i]);
	return wire_send(exec->keeper->launch.spawn[0], &out);
}

/* For lists only, so the beginning of a long one will do. */
static char **copy_argv(const struct wire_msg *msg)
{
	size_t at = 0, count = 0, left = ARGV_KEPT_BYTES;
	size_t most = MIN(wire_count(msg, FIELD_ARGV), (size_t)ARGV_KEPT_BYTES / sizeof(char *));
	char **argv = mem_zalloc((most + 1) * sizeof(char *));
	const char *item;
	while (left > 0 && count < most && (item = wire_next_str(msg, FIELD_ARGV, &at)) != NULL) {
		argv[count] = mem_strndup(item, left);
		size_t len = strlen(argv[count++]) + 1;
		left -= MIN(left, len);
	}
	return argv;
}

static struct exec *exec_new(struct keeper *keeper, const struct wire_msg *msg, const char *id)
{
	struct exec *exec = mem_new(struct exec);
	exec->keeper = keeper;
	(void)snprintf(exec->id, sizeof(exec->id), "%s", id); /* its shape was checked */
	exec->argv = copy_argv(msg);
	exec->is_tty = wire_u64(msg, FIELD_TTY, 0) != 0;
	exec->is_attached = wire_u64(msg, FIELD_ATTACHED, 0) != 0;
	exec->rate_limit = wire_u64(msg, FIELD_OUTPUT_RATE, keeper->slot.output_rate);
	exec->started_ms = io_real_ms();
	exec->reason = "";
	exec->input_eof = UINT64_MAX;
	exec->status_fd = exec->input_fd = -1;
	exec->status.fd = exec->input_source.fd = -1;
	exec->log.fd = exec->log.dir_fd = -1;
	exec->oom_kills_before = keeper->meter.usage.oom_kills;
	exec->pids_denied_before = keeper->meter.usage.pids_denied;
	for (size_t i = 0; i < ARRAY_LEN(exec->streams); i++)
		exec->streams[i] = (struct exec_stream){.exec = exec,
		                                        .fd = -1,
		                                        .stream = i ? OUTLOG_STDERR : OUTLOG_STDOUT,
		                                        .source = {.fd = -1}};
	exec->next = keeper->execs;
	keeper->execs = exec;
	keeper->exec_count++;
	return exec;
}

static void on_status(struct loop_source *source, uint32_t events, void *ctx);
static void kill_strays(struct keeper *keeper);

/* Makes room by dropping the oldest that has ended. */
static bool make_room(struct keeper *keeper)
{
	if (keeper->exec_count < LIMIT_EXECS)
		return true;
	struct exec *oldest = NULL;
	for (struct exec *exec = keeper->execs; exec; exec = exec->next) {
		if (exec->state == EXEC_ENDED)
			oldest = exec;
	}
	if (oldest)
		exec_forget(oldest);
	return oldest != NULL;
}

static int launch_command(struct exec *exec, const struct wire_msg *msg)
{
	struct child_fds fds = {-1, {-1, -1, -1}};
	int r = make_pipes(exec, wire_u64(msg, FIELD_STDIN, 0) != 0, &fds);
	if (r >= 0)
		r = loop_add(exec->keeper->loop, &exec->status, exec->status_fd, EPOLLIN, on_status,
		             exec);
	if (r >= 0)
		r = send_to_spawner(exec, msg, &fds);
	child_fds_close(&fds);
	/* While the shim is busy. If there is nowhere to put its output, nobody will take the
	 * command's status either, and the shim ends what it started. */
	return r < 0 ? r : relay_start(exec, exec->keeper->launch.out_dir);
}

static void on_timeout(struct loop_timer *timer, void *ctx)
{
	struct exec *exec = ctx;
	struct err err = {0};
	if (exec_kill(exec, "timeout", &err) < 0)
		log_warn("cannot end an exec at its timeout", LOG_STR("exec", exec->id),
		         LOG_ERR(&err));
	/* Its end stops the timer; until then it is tried again. */
	loop_timer_in(exec->keeper->loop, timer, KILL_AGAIN_MS, on_timeout, exec);
}

static void answer_start(struct exec *exec, const struct err *err);

static void on_start_late(struct loop_timer *timer, void *ctx)
{
	struct exec *exec = ctx;
	struct err err = {0};
	(void)err_set(&err, ERR_UNAVAILABLE,
	              "the command did not start in %d s: the sandbox is too busy, or something in "
	              "it stops what starts commands",
	              START_MS / 1000); /* always -1 */
	answer_start(exec, &err);
	exec_forget(exec);
}

/* Nobody took it: the spawner has no turn, or was stopped, which the workload can do where it has
 * the same id. Another one finds in the socket what this one did not take. */
static void on_start_slow(struct loop_timer *timer, void *ctx)
{
	struct exec *exec = ctx;
	struct keeper *keeper = exec->keeper;
	if (keeper->is_paused) { /* it came in the moment before: it goes on when the rest does */
		loop_timer_in(keeper->loop, timer, START_AGAIN_MS, on_start_slow, exec);
		return;
	}
	loop_timer_in(keeper->loop, timer, START_MS - START_AGAIN_MS, on_start_late, exec);
	if (io_boot_ms() - keeper->respawned_ms < START_AGAIN_MS)
		return; /* it has had no time yet */
	keeper->respawned_ms = io_boot_ms();
	log_warn("a command does not start, trying another spawner",
	         LOG_STR("sandbox", keeper->slot.id), LOG_STR("exec", exec->id));
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_SPAWN_DEAD, 0);
	(void)!wire_send(keeper->launch.control[0], &out); /* a dead init shows by its pidfd */
}

int exec_start(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
               struct err *err)
{
	const char *id = wire_str(msg, FIELD_EXEC, "");
	if (!id_is_valid(id, "ex"))
		return err_set(err, ERR_INVALID, "malformed exec id");
	if (exec_find(keeper, id))
		return err_set(err, ERR_CONFLICT, "exec %s exists", id);
	if (keeper->end_reason)
		return err_set(err, ERR_CONFLICT, "the sandbox is ending (%s)", keeper->end_reason);
	if (keeper->slot.is_parked)
		return err_set(err, ERR_CONFLICT, "the sandbox is nobody's yet");
	if (keeper->is_paused)
		return err_set(err, ERR_CONFLICT, "the sandbox is frozen: nothing starts in it");
	if (!make_room(keeper))
		return err_set(err, ERR_LIMITED, "%d execs run already", LIMIT_EXECS);
	struct exec *exec = exec_new(keeper, msg, id);
	exec->starter = conn;
	exec->start_request = msg->request;
	exec->may_answer_once = wire_u64(msg, FIELD_ONCE, 0) != 0;
	keeper_watch(keeper);
	int r = launch_command(exec, msg);
	if (r < 0) {
		exec_forget(exec);
		if (r == -EAGAIN)
			return err_set(err, ERR_LIMITED,
			               "the sandbox is too busy to start a command");
		return err_sys(err, -r, "start the command");
	}
	loop_timer_in(keeper->loop, &exec->start, START_AGAIN_MS, on_start_slow, exec);
	uint64_t timeout_ms = wire_u64(msg, FIELD_TIMEOUT_MS, 0);
	if (timeout_ms > 0)
		loop_timer_in(keeper->loop, &exec->timeout, timeout_ms, on_timeout, exec);
	return 0;
}

/* --- what the shim says --- */

static void answer_start(struct exec *exec, const struct err *err)
{
	struct keeper *keeper = exec->keeper;
	struct conn *conn = exec->starter;
	exec->starter = NULL;
	if (!conn)
		return;
	if (err) {
		serve_error(keeper, conn, exec->start_request, err);
		return;
	}
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, exec->start_request);
	wire_put_u64(&out, FIELD_PID, (uint64_t)exec->leader);
	serve_send(keeper, conn, &out);
}

/* The terminal's master comes from inside: it must be one, and nothing else (E21). */
static int take_terminal(struct exec *exec, struct wire_msg *msg)
{
	if (!exec->is_tty)
		return 0;
	auto_close int master = wire_take_fd(msg, 0);
	if (master < 0 || !tty_is_master(master))
		return -EPROTO;
	exec->streams[0].fd = take_fd(&master);
	return 0;
}

static void on_exited(struct exec *exec, const struct wire_msg *msg)
{
	exec->exit_signal = (int)wire_u64(msg, FIELD_SIGNAL, 0);
	exec->exit_code = (int)wire_u64(msg, FIELD_EXIT_CODE, 0);
	exec_finish(exec);
}

static void on_started(struct exec *exec, struct wire_msg *msg)
{
	exec->leader = (pid_t)wire_u64(msg, FIELD_PID, 0);
	exec->shim = (pid_t)wire_u64(msg, FIELD_ENTRIES, 0);
	int r = take_terminal(exec, msg);
	exec->state = EXEC_RUNNING;
	loop_timer_stop(&exec->start);
	if (r >= 0)
		r = relay_watch(exec);
	struct err err = {0};
	if (r < 0) {
		(void)err_sys(&err, -r, "watch the streams of the command"); /* always -1 */
		exec->is_killed = true;
		exec->reason = "killed";
	}
	/* Where its end came with its start, that answers both. */
	bool has_ended = wire_has(msg, FIELD_EXIT_CODE) || wire_has(msg, FIELD_SIGNAL);
	if (r < 0 || !has_ended || !exec->may_answer_once)
		answer_start(exec, r < 0 ? &err : NULL);
	if (has_ended) {
		on_exited(exec, msg);
		return;
	}
	if (exec->is_killed && exec_kill(exec, exec->reason, &err) < 0)
		log_warn("cannot end an exec at its start", LOG_STR("exec", exec->id),
		         LOG_ERR(&err));
}

static void on_failed(struct exec *exec, const struct wire_msg *msg)
{
	struct err err = {0};
	(void)wire_get_err(msg, &err);
	answer_start(exec, &err);
	exec_forget(exec);
}

/* Why it ended, beyond the status: a limit that acted meanwhile is the reason people look for. */
static const char *find_reason(const struct exec *exec)
{
	const struct meter *meter = &exec->keeper->meter;
	bool is_failure = exec->exit_signal != 0 || exec->exit_code != 0;
	if (exec->is_killed)
		return exec->reason;
	if ((exec->exit_signal == SIGKILL || exec->exit_code == OOM_EXIT_CODE) &&
	    meter->usage.oom_kills > exec->oom_kills_before)
		return "oom";
	if (is_failure && meter->usage.pids_denied > exec->pids_denied_before)
		return "pids";
	if (is_failure && (meter->disk.is_full || exec->exit_signal == SIGXFSZ))
		return "disk";
	return exec->exit_signal ? "signal" : "exited";
}

/* To whoever still waits to hear of its start: that it was started, and has ended. */
static void tell_end(struct exec *exec)
{
	struct keeper *keeper = exec->keeper;
	struct conn *starter = exec->leader > 0 ? exec->starter : NULL;
	if (starter) {
		auto_wire_out struct wire_out answer;
		wire_begin(&answer, WIRE_OK, exec->start_request);
		exec_put_info(exec, &answer);
		exec->starter = NULL;
		serve_send(keeper, starter, &answer);
	}
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_EXIT, 0);
	exec_put_info(exec, &out);
	serve_send_others(keeper, starter, &out);
}

void exec_finish(struct exec *exec)
{
	struct keeper *keeper = exec->keeper;
	char text[OUTPUT_EXIT_TEXT];
	if (exec->state == EXEC_ENDED)
		return;
	relay_drain(exec);
	/* A limit is the reason of a failure only; whoever waits for a success need not wait for
	 * the meters. */
	bool is_success = exec->exit_signal == 0 && exec->exit_code == 0;
	if (!is_success)
		keeper_sample(keeper);
	exec->reason = find_reason(exec);
	exec->ended_ms = io_real_ms();
	exec->state = EXEC_ENDED;
	output_exit_text(exec, text, sizeof(text));
	/* A full disk loses this line, not the status: the notification below carries it too. */
	if (outlog_append_exit(&exec->log, text) < 0)
		log_warn("cannot record an exec's end", LOG_STR("exec", exec->id));
	loop_timer_stop(&exec->timeout);
	serve_flush_output(keeper);
	tell_end(exec);
	/* After the word is out: the daemon stores it itself before it answers anybody. What was
	 * made for this one command goes now: nobody looks for it after a power cut, and no other
	 * comes. */
	if (!keeper->slot.is_once && outlog_sync(&exec->log) < 0)
		log_warn("an exec's end may not be on disk", LOG_STR("exec", exec->id));
	if (is_success && !keeper->slot.is_once)
		keeper_sample(keeper);
	relay_end(exec);
	relay_update(exec);
	if (!keeper->slot.is_once)
		relay_spare_soon(keeper);
	output_bound(keeper);
	keeper_exec_ended(keeper);
}

/* The shim went without a word: killed together with its command, or the sandbox ended. */
static void on_vanished(struct exec *exec)
{
	struct keeper *keeper = exec->keeper;
	struct err err = {0};
	if (exec->state == EXEC_STARTING) {
		(void)err_set(&err, ERR_UNAVAILABLE,
		              "the command could not be started: its process was "
		              "killed (out of memory?)");
		answer_start(exec, &err);
		exec_forget(exec);
		kill_strays(keeper); /* it may have come as far as a command */
		return;
	}
	exec->exit_signal = SIGKILL;
	kill_strays(keeper);
	exec_finish(exec);
}

static void on_status(struct loop_source *source, uint32_t events, void *ctx)
{
	struct exec *exec = ctx;
	struct wire_msg msg;
	int r = wire_recv(source->fd, exec->keeper->bytes, LIMIT_WIRE_BYTES, &msg);
	if (r <= 0) {
		loop_remove(&exec->status);
		fd_closep(&exec->status_fd);
		if (exec->state != EXEC_ENDED)
			on_vanished(exec);
		return;
	}
	if (msg.type == WIRE_S_STARTED && exec->state == EXEC_STARTING)
		on_started(exec, &msg);
	else if (msg.type == WIRE_S_FAILED && exec->state == EXEC_STARTING)
		on_failed(exec, &msg);
	else if (msg.type == WIRE_S_EXITED && exec->state == EXEC_RUNNING)
		on_exited(exec, &msg);
	wire_msg_done(&msg);
}

/* --- signals --- */

int exec_signal(struct exec *exec, int number, struct err *err)
{
	if (exec->state != EXEC_RUNNING)
		return err_set(err, ERR_CONFLICT, "exec %s has ended", exec->id);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_SIGNAL, keeper_next_request(exec->keeper));
	wire_put_u64(&out, FIELD_PID, (uint64_t)exec->leader);
	wire_put_u64(&out, FIELD_SIGNAL, (uint64_t)number);
	return keeper_ask_init(exec->keeper, &out, err);
}

/* Freezes the work group; may be nested. False: nothing holds it still. */
static bool hold_still(struct keeper *keeper)
{
	const struct cgroup *cgroup = &keeper->launch.cgroup;
	if (keeper->holds++ == 0 || keeper->is_let_die)
		keeper->is_frozen = cgroup->version != 0 && cgroup_freeze(cgroup, CGROUP_WORK, true,
		                                                          FREEZE_TIMEOUT_MS) >= 0;
	return keeper->is_frozen;
}

static void let_go(struct keeper *keeper)
{
	const struct cgroup *cgroup = &keeper->launch.cgroup;
	if (--keeper->holds > 0 || cgroup->version == 0)
		return;
	if (cgroup_freeze(cgroup, CGROUP_WORK, false, FREEZE_TIMEOUT_MS) < 0)
		log_warn("cannot thaw the sandbox", LOG_STR("sandbox", keeper->slot.id));
}

static void on_refreeze(struct loop_timer *timer, void *ctx)
{
	struct keeper *keeper = ctx;
	keeper->is_let_die = false;
	if (keeper->is_paused &&
	    cgroup_freeze(&keeper->launch.cgroup, CGROUP_WORK, true, FREEZE_TIMEOUT_MS) < 0)
		log_warn("cannot freeze the sandbox again", LOG_STR("sandbox", keeper->slot.id));
}

/* What was killed while it was frozen dies when it is thawed (version 1 of cgroups): the rest gets
 * a moment, too. */
static void let_die(struct keeper *keeper)
{
	if (!keeper->is_paused)
		return;
	keeper->is_let_die = true;
	if (cgroup_freeze(&keeper->launch.cgroup, CGROUP_WORK, false, FREEZE_TIMEOUT_MS) < 0)
		log_warn("cannot thaw the sandbox", LOG_STR("sandbox", keeper->slot.id));
	loop_timer_in(keeper->loop, &keeper->refreeze, LET_DIE_MS, on_refreeze, keeper);
}

int exec_freeze(struct keeper *keeper, bool on, struct err *err)
{
	if (on == keeper->is_paused)
		return 0;
	if (on && keeper->end_reason)
		return err_set(err, ERR_CONFLICT, "the sandbox is ending (%s)", keeper->end_reason);
	keeper->is_paused = on;
	if (!on) {
		loop_timer_stop(&keeper->refreeze);
		keeper->is_let_die = false;
		let_go(keeper);
		return 0;
	}
	if (hold_still(keeper))
		return 0;
	keeper->is_paused = false;
	let_go(keeper);
	return err_set(err, ERR_UNSUPPORTED, "nothing here can freeze a sandbox");
}

/* Asks init with the work group frozen, so that nothing forks away meanwhile. */
static int kill_frozen(struct keeper *keeper, struct wire_out *out, struct err *err)
{
	/* chase forks when nothing holds them still */
	wire_put_u64(out, FIELD_MORE, !hold_still(keeper));
	int r = keeper_ask_init(keeper, out, err);
	let_go(keeper);
	let_die(keeper);
	return r;
}

/* A shim was killed, by the kernel for want of memory or by a command of its own uid: what was
 * below it is nobody's, and no timeout would ever end it. */
static void kill_strays(struct keeper *keeper)
{
	struct err err = {0};
	if (keeper->end_reason)
		return;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_KILL_STRAYS, keeper_next_request(keeper));
	for (const struct exec *exec = keeper->execs; exec; exec = exec->next) {
		char pid[16];
		(void)snprintf(pid, sizeof(pid), "%d", (int)exec->shim);
		if (exec->status_fd >= 0 && exec->shim > 0)
			wire_put_str(&out, FIELD_ENTRY, pid);
	}
	if (kill_frozen(keeper, &out, &err) < 0)
		log_warn("cannot end what a killed shim left", LOG_STR("sandbox", keeper->slot.id),
		         LOG_ERR(&err));
}

int exec_kill(struct exec *exec, const char *reason, struct err *err)
{
	struct keeper *keeper = exec->keeper;
	/* While its shim lives, what an ended command left behind can still be told apart. */
	if (exec->state == EXEC_ENDED && exec->status_fd < 0)
		return err_set(err, ERR_CONFLICT, "exec %s has ended", exec->id);
	if (exec->state != EXEC_ENDED) {
		exec->is_killed = true;
		exec->reason = reason;
	}
	if (exec->state == EXEC_STARTING)
		return 0; /* nothing to kill yet: on_started does it */
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_KILL_TREE, keeper_next_request(keeper));
	wire_put_u64(&out, FIELD_PID, (uint64_t)exec->shim);
	/* A shim that did not report what the first kill did is stopped: only the same uid can do
	 * that, which the workload has where there is no range of ids. */
	wire_put_u64(&out, FIELD_KEEP, exec->kills++ < KILLS_BELOW_SHIM);
	return kill_frozen(keeper, &out, err);
}

void exec_kill_all(struct keeper *keeper, const char *reason)
{
	(void)hold_still(keeper); /* without a freezer each is chased */
	for (struct exec *exec = keeper->execs; exec; exec = exec->next) {
		struct err err = {0};
		if (exec->state == EXEC_ENDED && exec->status_fd < 0)
			continue;
		if (exec_kill(exec, reason, &err) < 0)
			log_warn("cannot end an exec", LOG_STR("exec", exec->id),
			         LOG_STR("reason", reason), LOG_ERR(&err));
	}
	let_go(keeper);
}

void exec_conn_gone(struct keeper *keeper, struct conn *conn)
{
	for (struct exec *exec = keeper->execs; exec; exec = exec->next) {
		if (exec->starter == conn)
			exec->starter = NULL;
		/* Nobody reads any more: a command must not hang for that. */
		if (!keeper->conns && exec->is_attached) {
			exec->is_attached = false;
			relay_update(exec);
		}
	}
}

void exec_put_info(const struct exec *exec, struct wire_out *out)
{
	wire_put_str(out, FIELD_EXEC, exec->id);
	for (char **arg = exec->argv; *arg; arg++)
		wire_put_str(out, FIELD_ARGV, *arg);
	wire_put_u64(out, FIELD_PID, (uint64_t)exec->leader);
	wire_put_u64(out, FIELD_STARTED_MS, exec->started_ms);
	wire_put_u64(out, FIELD_TTY, exec->is_tty);
	wire_put_u64(out, FIELD_ATTACHED, exec->is_attached);
	wire_put_u64(out, FIELD_OFFSET, exec->log.offset);
	wire_put_u64(out, FIELD_BYTES_COUNT, buf_room(&exec->input));
	wire_put_u64(out, FIELD_INPUT_OFFSET, exec->input_taken);
	wire_put_u64(out, FIELD_EOF, exec->input_eof == exec->input_taken);
	if (exec->state != EXEC_ENDED)
		return;
	wire_put_u64(out, FIELD_ENDED_MS, exec->ended_ms);
	wire_put_str(out, FIELD_REASON, exec->reason);
	if (exec->exit_signal)
		wire_put_u64(out, FIELD_SIGNAL, (uint64_t)exec->exit_signal);
	else
		wire_put_u64(out, FIELD_EXIT_CODE, (uint64_t)exec->exit_code);
}
