/*
 * Who: the broker's loop. Capabilities: KILL; CHOWN for the API socket. Bytes: none of cloched's.
 * Gone at the end: cloched and the API socket's name.
 */
#include "broker/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "broker/context.h"
#include "broker/spawn.h"
#include "broker/tcp.h"
#include "os/proc.h"
#include "os/syscalls.h"

enum {
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MOST_MS = 5000,
	STABLE_MS = 1000, /* up this long: the next failure is a first one again */
	END_MS = 5000,
	STARTER_MS = 5000,
	API_BACKLOG = 1024,
};

#define API_NAME "cloche.sock"

static void start_or_retry(struct supervise *supervise);

void supervise_init(struct supervise *supervise, struct broker *broker, int starter_sock,
                    const char *log_level)
{
	*supervise = (struct supervise){.broker = broker,
	                                .log_level = log_level,
	                                .starter_sock = starter_sock,
	                                .api_fd = -1,
	                                .tcp_fd = -1,
	                                .pidfd = -1,
	                                .backoff_ms = BACKOFF_FIRST_MS};
}

/* Through /proc/self/fd, so that the length of the state directory's path does not matter. */
static int open_api(const struct state *state, gid_t gid, bool is_alone)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" API_NAME,
	               state->dir_fd);
	/* We hold the lock: a socket that is there has nobody behind it. */
	if (unlinkat(state->dir_fd, API_NAME, 0) < 0 && errno != ENOENT)
		return -errno;
	mode_t old = umask(0177);
	int r = bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	umask(old);
	if (r < 0)
		return r;
	if (!is_alone &&
	    (fchownat(state->dir_fd, API_NAME, (uid_t)-1, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	     fchmodat(state->dir_fd, API_NAME, 0660, 0) < 0))
		return -errno;
	if (listen(fd, API_BACKLOG) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Rootless: the starter is outside our user namespace and starts cloched as the plain user. */
static int ask_starter(struct supervise *supervise, int wire_fd, pid_t *ret_pid, struct err *err)
{
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	auto_wire_out struct wire_out out;
	struct wire_msg answer;
	wire_begin(&out, WIRE_START_DAEMON, 1);
	wire_put_fd(&out, wire_fd);
	wire_put_fd(&out, supervise->api_fd);
	if (supervise->tcp_fd >= 0)
		wire_put_fd(&out, supervise->tcp_fd);
	if (wire_call(supervise->starter_sock, &out, bytes, STARTER_MS, &answer, err) < 0)
		return -1;
	*ret_pid = (pid_t)wire_u64(&answer, FIELD_PID, 0);
	wire_msg_done(&answer);
	return *ret_pid > 1 ? 0 : err_set(err, ERR_PROTOCOL, "the starter named no process");
}

static int spawn_ourselves(struct supervise *supervise, int wire_fd, pid_t *ret_pid,
                           struct err *err)
{
	const struct site *site = &supervise->broker->site;
	struct spawn spawn = {.cloched_fd = site->cloched_fd,
	                      .wire_fd = wire_fd,
	                      .api_fd = supervise->api_fd,
	                      .tcp_fd = supervise->tcp_fd,
	                      .state_fd = site->state.dir_fd,
	                      .state_path = site->state.path,
	                      .log_level = supervise->log_level,
	                      .change_user = true,
	                      .uid = site->daemon.uid,
	                      .gid = site->daemon.gid};
	return spawn_cloched(&spawn, ret_pid, err);
}

void supervise_refused(struct supervise *supervise, const struct err *why)
{
	supervise->refusal = *why;
}

/* What will be the same the next time, until somebody does something. A daemon that served before
 * is started again whatever it says: whoever repairs it shall not have to start it, too. */
static bool is_hopeless(const struct supervise *supervise)
{
	static const enum err_code codes[] = {ERR_UNSUPPORTED, ERR_INVALID, ERR_FORBIDDEN};
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (supervise->refusal.code == codes[i] && !supervise->has_served)
			return true;
	return false;
}

static void on_exit_event(struct loop_source *source, uint32_t events, void *ctx)
{
	struct supervise *supervise = ctx;
	loop_remove(&supervise->exit_source);
	fd_closep(&supervise->pidfd);
	supervise->pid = 0;
	line_hear_out(&supervise->broker->line);
	line_close(&supervise->broker->line);
	loop_timer_stop(&supervise->timer);
	if (supervise->is_ending) {
		loop_stop(supervise->broker->loop, supervise->end_status);
		return;
	}
	if (is_hopeless(supervise)) {
		log_error("cannot serve", LOG_ERR(&supervise->refusal));
		broker_shutdown(supervise->broker, err_exit(supervise->refusal.code));
		return;
	}
	log_warn("cloched ended, starting it again", LOG_INT("in_ms", supervise->backoff_ms));
	start_or_retry(supervise);
}

static int watch(struct supervise *supervise, pid_t pid, struct err *err)
{
	supervise->pid = pid;
	supervise->pidfd = proc_pidfd_open(pid);
	if (supervise->pidfd < 0)
		return err_sys(err, -supervise->pidfd, "watch cloched");
	int r = loop_add(supervise->broker->loop, &supervise->exit_source, supervise->pidfd,
	                 EPOLLIN, on_exit_event, supervise);
	return r < 0 ? err_sys(err, -r, "watch cloched") : 0;
}

static int start(struct supervise *supervise, struct err *err)
{
	int pair[2];
	int r = wire_pair(pair);
	if (r < 0)
		return err_sys(err, -r, "make the socket to cloched");
	auto_close int theirs = pair[1];
	pid_t pid;
	if (line_open(&supervise->broker->line, pair[0], err) < 0)
		return -1;
	r = supervise->starter_sock >= 0 ? ask_starter(supervise, theirs, &pid, err)
	                                 : spawn_ourselves(supervise, theirs, &pid, err);
	if (r < 0) {
		line_close(&supervise->broker->line);
		return -1;
	}
	supervise->started_ms = io_boot_ms();
	supervise->refusal = (struct err){0};
	log_info("cloched started", LOG_INT("pid", pid));
	return watch(supervise, pid, err);
}

static void on_restart(struct loop_timer *timer, void *ctx)
{
	struct supervise *supervise = ctx;
	struct err err = {0};
	if (start(supervise, &err) == 0)
		return;
	log_error("cloched cannot be started", LOG_ERR(&err));
	start_or_retry(supervise);
}

static void start_or_retry(struct supervise *supervise)
{
	if (supervise->started_ms && io_boot_ms() - supervise->started_ms >= STABLE_MS)
		supervise->backoff_ms = BACKOFF_FIRST_MS;
	loop_timer_in(supervise->broker->loop, &supervise->timer, supervise->backoff_ms, on_restart,
	              supervise);
	supervise->backoff_ms = MIN(supervise->backoff_ms * 2, (uint64_t)BACKOFF_MOST_MS);
}

/* Somebody killed the starter: what the shell knows as `cloche serve` is gone, so we go, too. */
static void on_starter_gone(struct loop_source *source, uint32_t events, void *ctx)
{
	struct supervise *supervise = ctx;
	loop_remove(&supervise->starter_source);
	broker_shutdown(supervise->broker, 1);
}

int supervise_listen(struct supervise *supervise, const char *listen_option, struct err *err)
{
	const struct site *site = &supervise->broker->site;
	supervise->api_fd = open_api(&site->state, site->daemon.gid, site->is_rootless);
	if (supervise->api_fd < 0)
		return err_sys(err, -supervise->api_fd, "listen on %s/" API_NAME, site->state.path);
	return tcp_listen(&site->state, listen_option, &supervise->tcp_fd, err);
}

int supervise_start(struct supervise *supervise, struct err *err)
{
	struct broker *broker = supervise->broker;
	if (supervise->starter_sock >= 0) {
		int r = loop_add(broker->loop, &supervise->starter_source, supervise->starter_sock,
		                 EPOLLRDHUP, on_starter_gone, supervise);
		if (r < 0)
			return err_sys(err, -r, "watch the starter");
	}
	return start(supervise, err);
}

static void send_signal(struct supervise *supervise, int signal)
{
	/* ESRCH: it ended meanwhile, which the loop hears of. */
	if (supervise->pidfd >= 0 && sys_pidfd_send_signal(supervise->pidfd, signal) < 0 &&
	    errno != ESRCH)
		log_error("cannot signal cloched", LOG_INT("signal", signal),
		          LOG_INT("errno", errno));
}

void supervise_kill(struct supervise *supervise, const struct err *why)
{
	log_error("cloched broke the protocol and is killed", LOG_ERR(why));
	line_close(&supervise->broker->line);
	send_signal(supervise, SIGKILL);
}

static void on_end_timeout(struct loop_timer *timer, void *ctx)
{
	log_warn("cloched does not end, killing it", LOG_INT("after_ms", END_MS));
	send_signal(ctx, SIGKILL);
}

void supervise_end(struct supervise *supervise, int status)
{
	supervise->end_status = status;
	if (supervise->is_ending)
		return;
	supervise->is_ending = true;
	loop_timer_stop(&supervise->timer);
	if (supervise->pid == 0) {
		loop_stop(supervise->broker->loop, status);
		return;
	}
	send_signal(supervise, SIGTERM);
	loop_timer_in(supervise->broker->loop, &supervise->timer, END_MS, on_end_timeout,
	              supervise);
}

void supervise_done(struct supervise *supervise)
{
	loop_remove(&supervise->exit_source);
	loop_remove(&supervise->starter_source);
	loop_timer_stop(&supervise->timer);
	fd_closep(&supervise->pidfd);
	fd_closep(&supervise->starter_sock);
	fd_closep(&supervise->tcp_fd);
	if (supervise->api_fd >= 0) {
		fd_closep(&supervise->api_fd);
		/* A name without a listener would only mislead clients; if it stays, the next start
		 * replaces it. */
		(void)unlinkat(supervise->broker->site.state.dir_fd, API_NAME, 0);
	}
}
