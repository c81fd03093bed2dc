/*
 * The life of a keeper: parse the slot, launch (privileged), then the loop (unprivileged) until the
 * sandbox ends, then the exit record. The end has one path: SIGTERM to everything inside, after the
 * grace the control socket is closed, init exits, the kernel kills what is left; if init should not
 * obey, the keeper's own death kills it (PR_SET_PDEATHSIG).
 */
#include "keeper/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "keeper/guest.h"
#include "keeper/isolate.h"
#include "keeper/network.h"
#include "keeper/port.h"
#include "keeper/procdev.h"
#include "keeper/state.h"
#include "os/proc.h"

enum {
	SAMPLE_FIRST_MS = 250,
	SAMPLE_BUSY_MS = 1000,
	SAMPLE_IDLE_MS = 5000,
	SAMPLE_SHARE = 20,     /* of its time, what lies between two samples of a command */
	INIT_ANSWER_MS = 5000, /* a fork bomb of the largest size, read and killed */
	INIT_EXIT_MS = 3000,
	ENDING_POLL_MS = 20,
	UNCLAIMED_MS = 60 * 1000,
};

/* What the machine offers, looked at once by the zygote and inherited by fork. */
static struct cgroup_layout warm_layout;
static bool is_warm;

void keeper_warm(void)
{
	if (cgroup_detect(&warm_layout) < 0)
		warm_layout = (struct cgroup_layout){0};
	(void)!cgroup_enter_folder(&warm_layout); /* else keepers are where it is */
	char boot[37];
	(void)!proc_boot_id(boot); /* remembered; whoever needs it says when it fails */
	isolate_warm();
	uplink_warm();
	procdev_warm();
	is_warm = true;
}

const struct cgroup_layout *keeper_layout(void)
{
	if (!is_warm)
		keeper_warm();
	return &warm_layout;
}

uint64_t keeper_next_request(struct keeper *keeper)
{
	return ++keeper->init_request;
}

static void init_said(struct keeper *keeper, struct wire_msg *msg)
{
	if (!port_init_said(keeper, msg))
		network_init_said(keeper, msg);
}

int keeper_ask_init(struct keeper *keeper, struct wire_out *out, struct err *err)
{
	if (keeper->launch.control[0] < 0)
		return err_set(err, ERR_CONFLICT, "the sandbox is ending");
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	struct pollfd ready = {.fd = keeper->launch.control[0], .events = POLLIN};
	uint64_t until = io_boot_ms() + INIT_ANSWER_MS;
	int r = wire_send(ready.fd, out);
	while (r >= 0) {
		struct wire_msg msg;
		uint64_t now = io_boot_ms();
		int n = poll(&ready, 1, now < until ? (int)(until - now) : 0);
		if (n < 0 && errno == EINTR)
			continue;
		r = n <= 0 ? -ETIMEDOUT : wire_recv(ready.fd, bytes, LIMIT_WIRE_BYTES, &msg);
		if (r == 0)
			return err_set(err, ERR_UNAVAILABLE, "ask init: it is gone");
		if (r < 0)
			break;
		bool is_ours = msg.request == keeper->init_request;
		int refused = is_ours ? wire_get_err(&msg, err) : 0;
		if (!is_ours)
			init_said(keeper, &msg); /* asked before, without waiting */
		wire_msg_done(&msg);
		if (is_ours)
			return refused < 0 ? err_wrap(err, "ask init") : 0;
	}
	return err_sys(err, -r, "ask init");
}

/* --- limits and deadlines --- */

void keeper_tell_limit(struct keeper *keeper, const char *reason, const char *detail)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_LIMIT, 0);
	wire_put_str(&out, FIELD_REASON, reason);
	wire_put_str(&out, FIELD_DETAIL, detail);
	serve_send(keeper, NULL, &out);
}

/* What limits did since it was last told. A flood of refusals is told about once a second. */
static void tell_limits(struct keeper *keeper)
{
	const struct meter *now = &keeper->meter;
	struct told_limits *told = &keeper->told;
	if (told->at_ms != 0 && now->sampled_ms < told->at_ms + SAMPLE_BUSY_MS)
		return;
	struct told_limits next = {now->sampled_ms, now->usage.oom_kills, now->usage.pids_denied,
	                           now->disk.is_full};
	if (next.oom_kills > told->oom_kills)
		keeper_tell_limit(keeper, "oom",
		                  "a process was killed: the memory limit was reached");
	if (next.pids_denied > told->pids_denied)
		keeper_tell_limit(keeper, "pids",
		                  "a new process was refused: the limit on processes was reached");
	if (next.is_full && !told->is_full)
		keeper_tell_limit(keeper, "disk",
		                  "the disk limit was reached: bytes or inodes are used up");
	if (next.oom_kills == told->oom_kills && next.pids_denied == told->pids_denied &&
	    next.is_full == told->is_full)
		next.at_ms = told->at_ms;
	*told = next;
}

void keeper_sample(struct keeper *keeper)
{
	meter_sample(&keeper->meter, &keeper->launch.cgroup, &keeper->slot.disk,
	             keeper->launch.rootfs.disk_fd);
	tell_limits(keeper);
}

static bool has_running(const struct keeper *keeper)
{
	for (const struct exec *exec = keeper->execs; exec; exec = exec->next) {
		if (exec->state != EXEC_ENDED)
			return true;
	}
	return false;
}

/* Memory comes and goes in steps, and a step may be anywhere between two samples: so that a receipt
 * is right for short commands as well, these are looked at more often. */
static uint64_t sample_pause(const struct keeper *keeper)
{
	uint64_t pause = (io_boot_ms() - keeper->busy_since_ms) / SAMPLE_SHARE;

	if (!has_running(keeper))
		return SAMPLE_IDLE_MS;
	return MIN(MAX(pause, (uint64_t)SAMPLE_FIRST_MS), (uint64_t)SAMPLE_BUSY_MS);
}

static void on_sample(struct loop_timer *timer, void *ctx)
{
	struct keeper *keeper = ctx;
	keeper_sample(keeper);
	uint64_t pause = sample_pause(keeper);
	if (pause == SAMPLE_IDLE_MS)
		mem_settle();
	loop_timer_in(keeper->loop, timer, pause, on_sample, keeper);
}

void keeper_watch(struct keeper *keeper)
{
	keeper->busy_since_ms = io_boot_ms();
	if (keeper->sample.due_ms > keeper->busy_since_ms + SAMPLE_FIRST_MS)
		loop_timer_in(keeper->loop, &keeper->sample, SAMPLE_FIRST_MS, on_sample, keeper);
}

static void on_deadline(struct loop_timer *timer, void *ctx)
{
	keeper_end(ctx, "ttl", ENDING_POLL_MS * 50);
}

void keeper_set_deadline(struct keeper *keeper, uint64_t deadline_ms)
{
	if (deadline_ms == 0)
		loop_timer_stop(&keeper->deadline);
	else
		loop_timer_at(keeper->loop, &keeper->deadline, deadline_ms, on_deadline, keeper);
}

/* --- the end --- */

static void close_control(struct keeper *keeper)
{
	loop_remove(&keeper->control);
	loop_remove(&keeper->spawn);
	fd_closep(&keeper->launch.control[0]);
	fd_closep(&keeper->launch.spawn[0]);
}

static void on_init_late(struct loop_timer *timer, void *ctx)
{
	struct keeper *keeper = ctx;
	log_warn("init did not end: ending it with the keeper",
	         LOG_STR("sandbox", keeper->slot.id));
	loop_stop(keeper->loop, 0);
}

static void on_grace(struct loop_timer *timer, void *ctx)
{
	struct keeper *keeper = ctx;
	close_control(keeper);
	loop_timer_in(keeper->loop, &keeper->stop, INIT_EXIT_MS, on_init_late, keeper);
}

/* A second request can only make the grace shorter: who waits for a long one may lose patience. */
static void end_sooner(struct keeper *keeper, uint64_t grace_ms)
{
	if (keeper->launch.control[0] >= 0 && grace_ms < keeper->grace_ms)
		loop_timer_in(keeper->loop, &keeper->stop, grace_ms, on_grace, keeper);
	keeper->grace_ms = MIN(keeper->grace_ms, grace_ms);
}

void keeper_end(struct keeper *keeper, const char *reason, uint64_t grace_ms)
{
	if (keeper->end_reason) {
		end_sooner(keeper, grace_ms);
		return;
	}
	struct err err = {0};
	(void)!exec_freeze(keeper, false,
	                   &err); /* what is frozen cannot end; thawing never fails */
	keeper->end_reason = reason;
	keeper->grace_ms = grace_ms;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_SIGNAL_ALL, keeper_next_request(keeper));
	wire_put_u64(&out, FIELD_SIGNAL, SIGTERM);
	if (!has_running(keeper) || grace_ms == 0 || keeper_ask_init(keeper, &out, &err) < 0)
		grace_ms = 0; /* nothing to wait for, or nobody who could pass it on */
	loop_timer_in(keeper->loop, &keeper->stop, grace_ms, on_grace, keeper);
}

void keeper_exec_ended(struct keeper *keeper)
{
	/* Whoever removes it asks once more: many may wait for that at a time. */
	if (keeper->slot.is_once && !has_running(keeper))
		loop_timer_in(keeper->loop, &keeper->sample, SAMPLE_IDLE_MS, on_sample, keeper);
	if (keeper->end_reason && keeper->launch.control[0] >= 0 && !has_running(keeper))
		loop_timer_in(keeper->loop, &keeper->stop, 0, on_grace, keeper);
}

static void on_init_exit(struct loop_source *source, uint32_t events, void *ctx)
{
	struct keeper *keeper = ctx;
	siginfo_t info = {0};
	(void)waitid(P_PIDFD, (id_t)keeper->launch.init_pidfd, &info, WEXITED | WNOHANG);
	loop_remove(source);
	if (!keeper->end_reason) {
		keeper_sample(keeper);
		keeper->end_reason = keeper->meter.usage.oom_kills > 0 ? "oom" : "lost";
	}
	loop_stop(keeper->loop, 0);
}

/* A new spawner after the old one was killed: it was born in init's group and waits there. Only
 * pids of this sandbox can arrive here: the socket is in init's and the spawner's hands alone. */
static void on_spawn(struct loop_source *source, uint32_t events, void *ctx)
{
	struct keeper *keeper = ctx;
	struct wire_msg msg;
	int r = wire_recv(source->fd, keeper->bytes, LIMIT_WIRE_BYTES, &msg);
	if (r == -EAGAIN)
		return;
	if (r <= 0) {
		loop_remove(&keeper->spawn); /* init is gone too, or will be */
		return;
	}
	r = msg.type == WIRE_S_AGAIN && msg.sender > 0
	            ? cgroup_attach_by(&keeper->launch.work_door, msg.sender)
	            : -EPROTO;
	wire_msg_done(&msg);
	if (r < 0) {
		log_warn("cannot place a new spawner", LOG_STR("sandbox", keeper->slot.id),
		         LOG_INT("errno", -r));
		return; /* it waits for ever: execs are refused, nothing runs without limits */
	}
	keeper_sample(keeper);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_SPAWN_ON, 0);
	(void)!wire_send(keeper->launch.control[0], &out); /* a dead init shows by its pidfd */
}

/* Answers to what was asked without waiting; a closed socket is its end, which the pidfd reports
 * better. */
static void on_control(struct loop_source *source, uint32_t events, void *ctx)
{
	struct keeper *keeper = ctx;
	struct wire_msg msg;
	int r = events & EPOLLIN ? wire_recv(source->fd, keeper->bytes, LIMIT_WIRE_BYTES, &msg) : 0;
	if (r > 0) {
		init_said(keeper, &msg);
		wire_msg_done(&msg);
	} else if (r != -EAGAIN && r != -EINTR) {
		loop_remove(&keeper->control);
	}
}

/* Commands that still ran went with the sandbox: each gets its last frame. */
static void finish_execs(struct keeper *keeper)
{
	for (struct exec *exec = keeper->execs; exec; exec = exec->next) {
		if (exec->state != EXEC_RUNNING)
			continue;
		exec->exit_signal = SIGKILL;
		exec->is_killed = true;
		exec->reason = keeper->end_reason;
		exec_finish(exec);
	}
}

static void write_exit_record(struct keeper *keeper)
{
	const struct meter *meter = &keeper->meter;
	struct network_sums net = network_sums(keeper);
	char text[768];
	int n = snprintf(
		text, sizeof(text),
		"reason=%s\nended_ms=%llu\ncpu_us=%llu\nmemory_peak=%llu\nmemory_byte_s=%llu\n"
		"disk=%llu\ninodes=%llu\nuptime_ms=%llu\noom_kills=%llu\npids_denied=%llu\n"
		"output=%llu\nnet_sent=%llu\nnet_received=%llu\nnet_connections=%llu\n"
		"net_denied=%llu\nfiles_same=%d\ndisk_byte_s=%llu\n",
		keeper->end_reason, (unsigned long long)io_real_ms(),
		(unsigned long long)meter->usage.cpu_us,
		(unsigned long long)meter->usage.memory_peak,
		(unsigned long long)(meter->memory_byte_ms / 1000),
		(unsigned long long)meter->disk.bytes, (unsigned long long)meter->disk.inodes,
		(unsigned long long)(io_boot_ms() - keeper->started_boot_ms),
		(unsigned long long)meter->usage.oom_kills,
		(unsigned long long)meter->usage.pids_denied,
		(unsigned long long)keeper->output_bytes, (unsigned long long)net.sent,
		(unsigned long long)net.received, (unsigned long long)net.connections,
		(unsigned long long)net.denied, meter_files_same(meter),
		(unsigned long long)(meter->disk_byte_ms / 1000));
	int r = io_replace_file(keeper->launch.out_dir, "exit", text, (size_t)n, 0640);
	if (r < 0)
		log_error("cannot write the exit record", LOG_STR("sandbox", keeper->slot.id),
		          LOG_INT("errno", -r));
}

static void say_gone(struct keeper *keeper)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_GONE, 0);
	wire_put_str(&out, FIELD_REASON, keeper->end_reason);
	meter_put(&keeper->meter, &out);
	wire_put_u64(&out, FIELD_METER_UPTIME_MS, io_boot_ms() - keeper->started_boot_ms);
	wire_put_u64(&out, FIELD_METER_OUTPUT, keeper->output_bytes);
	network_put_sums(keeper, &out);
	serve_send(keeper, NULL, &out);
	serve_drain(keeper);
}

/* --- the beginning --- */

static void report(struct keeper *keeper, const struct err *err)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, err ? WIRE_ERROR : WIRE_SLOT_READY, 0);
	if (err)
		wire_put_err(&out, err);
	wire_put_str(&out, FIELD_SANDBOX, keeper->slot.id);
	wire_put_u64(&out, FIELD_PID, (uint64_t)getpid());
	for (size_t i = 0; i < keeper->launch.mechanism_count; i++)
		wire_put_str(&out, FIELD_MECHANISM, keeper->launch.mechanisms[i]);
	/* A broker that died meanwhile finds us by our identity file. */
	(void)!wire_send(keeper->slot.result, &out);
	if (err || !keeper->slot.is_blank)
		fd_closep(&keeper->slot.result);
}

/* Its end, and what it says. */
static int watch_init(struct keeper *keeper)
{
	int r = loop_add(keeper->loop, &keeper->init, keeper->launch.init_pidfd, EPOLLIN,
	                 on_init_exit, keeper);
	if (r < 0)
		return r;
	return loop_add(keeper->loop, &keeper->control, keeper->launch.control[0], EPOLLIN,
	                on_control, keeper);
}

static void on_blank_proved(struct keeper *keeper, const struct err *err)
{
	keeper->is_refused = err->code != ERR_OK;
}

/* The network of a blank one is there already, and what it becomes changes nothing about it: so it
 * is proved now. Inside there is nobody yet but our own. */
static int prove_blank(struct keeper *keeper, struct err *err)
{
	int r = watch_init(keeper);
	if (r >= 0)
		r = network_start(keeper, on_blank_proved);
	if (r < 0)
		return err_sys(err, -r, "start the sandbox (network)");
	while (r >= 0 && network_is_proving(keeper) && !keeper->end_reason)
		r = loop_step(keeper->loop, -1);
	loop_remove(&keeper->init);
	loop_remove(&keeper->control);
	if (r >= 0 && !keeper->is_refused && !keeper->end_reason)
		return 0;
	return err_set(err, ERR_INTERNAL,
	               "start the sandbox (network): it could not be proved that nothing leaves");
}

/* They are to be the keeper's, who is root until it has an image. False: it is not any more. */
static bool spare_of_blank(struct keeper *keeper)
{
	bool changes_id = keeper->launch.is_real_root;
	if (changes_id && seteuid(keeper->slot.keeper_uid) < 0)
		return true; /* then they are made later */
	relay_spare(keeper);
	return !changes_id || seteuid(0) == 0;
}

/* Without its broker a blank one ends: it has every privilege and nobody's trust yet. */
static bool wait_blank(struct keeper *keeper, struct err *err)
{
	if (prove_blank(keeper, err) < 0) {
		report(keeper, err);
		return false;
	}
	report(keeper, NULL);
	return spare_of_blank(keeper) && launch_await(&keeper->launch, err);
}

static int prepare_loop(struct keeper *keeper)
{
	int r = watch_init(keeper);
	if (r >= 0)
		r = loop_add(keeper->loop, &keeper->spawn, keeper->launch.spawn[0], EPOLLIN,
		             on_spawn, keeper);
	if (r >= 0)
		r = serve_start(keeper);
	if (r < 0)
		return r;
	/* A parked one whose daemon died before it came: see conn_free for the other case. */
	keeper_set_deadline(keeper, keeper->slot.is_parked ? io_boot_ms() + UNCLAIMED_MS
	                                                   : keeper->slot.deadline_ms);
	loop_timer_in(keeper->loop, &keeper->sample, SAMPLE_BUSY_MS, on_sample, keeper);
	return 0;
}

/* It runs from here on, or was never there. */
static void on_network_ready(struct keeper *keeper, const struct err *err)
{
	if (err->code == ERR_OK) {
		keeper->started_boot_ms = io_boot_ms();
		/* Said first: nothing comes before we are back in the loop. */
		report(keeper, NULL);
		meter_restart(&keeper->meter, &keeper->slot.disk, keeper->launch.rootfs.disk_fd,
		              keeper->slot.marks_files);
		return;
	}
	report(keeper, err);
	keeper->is_refused = true;
	loop_stop(keeper->loop, 1);
}

static int live(struct keeper *keeper)
{
	int r = prepare_loop(keeper);
	if (r >= 0)
		r = guest_start(keeper);
	if (r >= 0 && keeper->network)
		on_network_ready(keeper, &(struct err){0}); /* proved while it was blank */
	else if (r >= 0)
		r = network_start(keeper, on_network_ready);
	if (r < 0) {
		struct err err = {0};
		(void)err_sys(&err, -r, "start the sandbox (loop)");
		report(keeper, &err);
		return 1;
	}
	(void)loop_run(keeper->loop); /* whatever ended it, the end is recorded */
	if (keeper->is_refused)
		return 1;
	if (!keeper->end_reason)
		keeper->end_reason = "lost";
	meter_sample(&keeper->meter, &keeper->launch.cgroup, &keeper->slot.disk,
	             keeper->launch.rootfs.disk_fd);
	finish_execs(keeper);
	write_exit_record(keeper);
	say_gone(keeper);
	return 0;
}

static void keeper_done(struct keeper *keeper)
{
	exec_done_all(keeper);
	relay_spare_done(keeper);
	serve_done(keeper);
	network_done(keeper);
	guest_done(keeper);
	port_done(keeper);
	loop_timer_stop(&keeper->sample);
	loop_timer_stop(&keeper->deadline);
	loop_timer_stop(&keeper->stop);
	loop_remove(&keeper->control);
	loop_remove(&keeper->spawn);
	loop_remove(&keeper->init);
	launch_done(&keeper->launch);
	slot_done(&keeper->slot);
	loop_free(keeper->loop);
	free(keeper->bytes);
}

/* Whoever started cloche may have secrets in the environment: a keeper needs none of it, and parses
 * what strangers send. */
static void forget_environment(void)
{
	for (char **text = environ; text && *text; text++)
		explicit_bzero(*text, strlen(*text));
}

int keeper_run(struct wire_msg *msg)
{
	struct keeper keeper = {0};
	struct err err = {0};
	(void)prctl(PR_SET_NAME, "cloche-keeper", 0, 0, 0); /* only what ps shows */
	/* Not the broker's terminal or process group: Ctrl-C there ends no sandbox. */
	(void)setsid();
	(void)signal(SIGPIPE, SIG_IGN);
	forget_environment();
	int r = slot_parse(msg, &keeper.slot, &err);
	keeper.bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	launch_init(&keeper.launch, &keeper.slot, keeper_layout(), keeper.bytes);
	if (r >= 0 && loop_new(&keeper.loop) < 0)
		r = err_set(&err, ERR_UNAVAILABLE, "start the sandbox (loop): out of memory");
	if (r >= 0)
		r = launch_ground(&keeper.launch, &err);
	if (r >= 0 && keeper.slot.is_blank && !wait_blank(&keeper, &err)) {
		keeper_done(&keeper);
		return 0;
	}
	if (r >= 0)
		r = launch_finish(&keeper.launch, &err);
	if (r >= 0) {
		relay_spare(&keeper); /* while the walls inside are closed */
		r = launch_ready(&keeper.launch, &err);
	}
	int status = 1;
	if (r < 0)
		report(&keeper, &err);
	else
		status = live(&keeper);
	keeper_done(&keeper);
	return status;
}
