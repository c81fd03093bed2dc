/*
 * Who: an ordinary user's process (the starter) and its child, which becomes root of a new user
 * namespace. Capabilities: none outside that namespace; newuidmap and newgidmap (setuid programs of
 * the system) write the map where the administrator gave this user a range. Bytes: /etc/subuid and
 * /etc/subgid, messages of our own child. Gone at the end: the starter, with the broker.
 */
#include "broker/rootless.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/slot.h"
#include "broker/spawn.h"
#include "os/ns.h"
#include "wire/wire.h"

/* A /proc/sys number, or `otherwise`. */
static uint64_t sysctl_number(const char *path, uint64_t otherwise)
{
	auto_free char *text = NULL;
	size_t len;
	uint64_t value;
	if (io_read_file(AT_FDCWD, path, 64, &text, &len) < 0)
		return otherwise;
	text[strcspn(text, "\n")] = '\0';
	return str_to_u64(text, &value) < 0 ? otherwise : value;
}

/* Each is a sentence with its remedy. */
static const char by_apparmor[] =
	"AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns=1): "
	"install cloche's AppArmor profile with `make install`, or set it to 0";
static const char by_sysctl[] = "user namespaces are switched off for ordinary users: "
				"set kernel.unprivileged_userns_clone=1, or run as root";
static const char by_count[] =
	"no more user namespaces are allowed: raise user.max_user_namespaces";
static const char by_kernel[] =
	"this kernel has no user namespaces: boot one with CONFIG_USER_NS, or run as root";
static const char by_policy[] =
	"user namespaces are forbidden here (a container's filter or security policy): "
	"allow them, or run as root";

const char *rootless_reason(int sys)
{
	if (sysctl_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) != 0)
		return by_apparmor;
	if (sysctl_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
		return by_sysctl;
	if (sys == ENOSPC || sysctl_number("/proc/sys/user/max_user_namespaces", 1) == 0)
		return by_count;
	return sys == ENOSYS || sys == EINVAL ? by_kernel : by_policy;
}

static const char *find_helper(const char *const *places)
{
	while (*places && access(*places, X_OK) < 0)
		places++;
	return *places;
}

static int run_helper(const char *const *places, pid_t pid, uint32_t own, uint32_t first,
                      uint32_t count)
{
	const char *path = find_helper(places);
	if (!path)
		return -ENOENT;
	char numbers[5][16];
	(void)snprintf(numbers[0], sizeof(numbers[0]), "%d", (int)pid);
	(void)snprintf(numbers[1], sizeof(numbers[1]), "%u", own);
	(void)snprintf(numbers[2], sizeof(numbers[2]), "%u", first);
	(void)snprintf(numbers[3], sizeof(numbers[3]), "%u", count);
	char *argv[] = {(char *)path, numbers[0], (char *)"0", numbers[1], (char *)"1",
	                (char *)"1",  numbers[2], numbers[3],  NULL};
	char *env[] = {NULL};
	pid_t child = fork();
	if (child == 0) {
		execve(path, argv, env);
		_exit(127);
	}
	int status;
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* 0 inside is the user, 1.. are the ids the administrator gave to them; else 0 alone. */
static int write_maps(pid_t pid, struct site *site)
{
	static const char *const uid_helpers[] = {"/usr/bin/newuidmap", "/bin/newuidmap", NULL};
	static const char *const gid_helpers[] = {"/usr/bin/newgidmap", "/bin/newgidmap", NULL};
	struct userdb_subids subids;
	site->shared_base = 0;
	site->shared_count = 1;
	if (userdb_subids(geteuid(), &subids)) {
		uint32_t count = MIN(subids.uid_count, subids.gid_count);
		count = MIN(count, (uint32_t)SLOT_RANGE_COUNT);
		int r = run_helper(uid_helpers, pid, geteuid(), subids.uid_first, count);
		if (r == 0)
			r = run_helper(gid_helpers, pid, getegid(), subids.gid_first, count);
		if (r == 0) {
			site->shared_base = 1;
			site->shared_count = count;
			return 0;
		}
		log_warn("the ids of /etc/subuid cannot be used: one id for everything inside",
		         LOG_STR("why",
		                 r == -ENOENT ? "newuidmap is not installed" : "newuidmap failed"));
	}
	struct ns_map uids = {0, geteuid(), 1};
	struct ns_map gids = {0, getegid(), 1};
	return ns_write_maps(pid, &uids, 1, &gids, 1, true);
}

/* The child's half: unshare, wait for the maps, become root inside. The pipe carries an errno up.
 */
static int enter(int up, int down, struct site *site)
{
	int r = unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
	uint32_t range[2];
	if (io_write_all(up, &r, sizeof(r)) < 0)
		return -EPIPE;
	if (r < 0)
		return r;
	if (io_read_full(down, range, sizeof(range)) != (ssize_t)sizeof(range))
		return -EPIPE;
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return -errno;
	site->is_rootless = true;
	site->shared_base = range[0];
	site->shared_count = range[1];
	site->daemon = (struct userdb_account){0, 0};
	/* Where AppArmor restricts them, the namespace can be made but gives no rights. */
	return unshare(CLONE_NEWUTS) < 0 ? -errno : 0;
}

/* The parent's half for a child that runs enter(). */
static int map_child(pid_t pid, int up, int down, struct site *site)
{
	int r;
	if (io_read_full(up, &r, sizeof(r)) != (ssize_t)sizeof(r))
		return -EPIPE;
	if (r < 0)
		return r;
	r = write_maps(pid, site);
	if (r < 0)
		return r;
	uint32_t range[2] = {site->shared_base, site->shared_count};
	return io_write_all(down, range, sizeof(range));
}

struct pipes {
	int up[2];
	int down[2];
};

static void pipes_done(struct pipes *pipes)
{
	fd_closep(&pipes->up[0]);
	fd_closep(&pipes->up[1]);
	fd_closep(&pipes->down[0]);
	fd_closep(&pipes->down[1]);
}

static int pipes_open(struct pipes *pipes)
{
	*pipes = (struct pipes){{-1, -1}, {-1, -1}};
	return pipe2(pipes->up, O_CLOEXEC) < 0 || pipe2(pipes->down, O_CLOEXEC) < 0 ? -errno : 0;
}

/* --- the starter --- */

struct starter {
	struct rootless *rootless;
	struct loop *loop;
	struct loop_source source;
	int sock;
	int cloched_fd;
	pid_t broker;
};

static void start_cloched(struct starter *starter, struct wire_msg *msg)
{
	const struct state *state = &starter->rootless->site->state;
	struct err err = {0};
	pid_t pid = 0;
	struct spawn spawn = {.cloched_fd = starter->cloched_fd,
	                      .wire_fd = msg->fds[0],
	                      .api_fd = msg->fds[1],
	                      .tcp_fd = msg->fd_count > 2 ? msg->fds[2] : -1,
	                      .state_fd = state->dir_fd,
	                      .state_path = state->path,
	                      .log_level = starter->rootless->log_level};
	int r = spawn_cloched(&spawn, &pid, &err);
	auto_wire_out struct wire_out out;
	wire_begin(&out, r < 0 ? WIRE_ERROR : WIRE_OK, msg->request);
	if (r < 0)
		wire_put_err(&out, &err);
	else
		wire_put_u64(&out, FIELD_PID, (uint64_t)pid);
	(void)!wire_send(starter->sock, &out); /* a broker that is gone is noticed by its exit */
}

static void on_request(struct loop_source *source, uint32_t events, void *ctx)
{
	struct starter *starter = ctx;
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	struct wire_msg msg;
	int r = wire_recv(starter->sock, bytes, LIMIT_WIRE_BYTES, &msg);
	if (r <= 0) {
		loop_remove(&starter->source);
		return;
	}
	if (msg.type == WIRE_START_DAEMON && msg.fd_count >= 2 && msg.fd_count <= 3)
		start_cloched(starter, &msg);
	wire_msg_done(&msg);
}

static void on_signal(int signal, void *ctx)
{
	struct starter *starter = ctx;
	if (signal != SIGCHLD) {
		(void)kill(starter->broker,
		           signal); /* our child: the number is its until we wait */
		return;
	}
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		if (pid == starter->broker)
			loop_stop(starter->loop,
			          WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int run_starter(struct starter *starter, struct err *err)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, 0};
	auto_loop struct loop *loop = NULL;
	int r = loop_new(&loop);
	starter->loop = loop;
	if (r == 0)
		r = loop_signals(loop, signals, on_signal, starter);
	if (r == 0)
		r = loop_add(loop, &starter->source, starter->sock, EPOLLIN, on_request, starter);
	if (r < 0)
		return err_sys(err, -r, "watch the broker");
	on_signal(SIGCHLD, starter); /* it may have ended before the signal was watched */
	r = loop_run(loop);
	loop_remove(&starter->source);
	return r < 0 ? err_sys(err, -r, "watch the broker") : r;
}

static NORETURN void run_broker(struct rootless *rootless, const struct pipes *pipes, int sock)
{
	struct err err = {0};
	int r = enter(pipes->up[1], pipes->down[0], rootless->site);
	if (r < 0) {
		err_set(&err, ERR_MISSING, "%s", rootless_reason(-r));
		log_error("cannot serve", LOG_ERR(&err));
		_exit(err_exit(ERR_MISSING));
	}
	_exit(rootless->serve(rootless->ctx, sock));
}

int rootless_serve(struct rootless *rootless, struct err *err)
{
	auto_(pipes_done) struct pipes pipes;
	int pair[2] = {-1, -1};
	int r = pipes_open(&pipes);
	if (r == 0)
		r = wire_pair(pair);
	if (r < 0)
		return err_sys(err, -r, "make the starter's sockets");
	struct starter starter = {.rootless = rootless, .sock = pair[0]};
	auto_close int cloched = site_find_cloched();
	starter.cloched_fd = cloched;
	starter.broker = fork();
	if (starter.broker == 0) {
		close(pair[0]);
		run_broker(rootless, &pipes, pair[1]);
	}
	close(pair[1]);
	if (starter.broker < 0)
		r = err_sys(err, errno, "fork the broker");
	else if ((r = map_child(starter.broker, pipes.up[0], pipes.down[1], rootless->site)) < 0)
		r = r == -EPIPE ? err_set(err, ERR_INTERNAL, "the broker died at start")
		                : err_set(err, ERR_MISSING, "%s", rootless_reason(-r));
	pipes_done(&pipes);
	/* Only the broker holds the lock from here on; ours is the same open file. */
	if (r == 0)
		r = run_starter(&starter, err);
	close(pair[0]);
	return r;
}

int rootless_enter(struct site *site, struct err *err)
{
	auto_(pipes_done) struct pipes pipes;
	int r = pipes_open(&pipes);
	if (r < 0)
		return err_sys(err, -r, "make pipes");
	pid_t self = getpid();
	pid_t helper = fork();
	if (helper == 0) {
		fd_closep(&pipes.up[1]); /* so that our death is end of file for the other */
		fd_closep(&pipes.down[0]);
		_exit(map_child(self, pipes.up[0], pipes.down[1], site) < 0);
	}
	if (helper < 0)
		return err_sys(err, errno, "fork");
	fd_closep(&pipes.up[0]);
	fd_closep(&pipes.down[1]);
	r = enter(pipes.up[1], pipes.down[0], site);
	while (waitpid(helper, NULL, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? err_set(err, ERR_MISSING, "%s", rootless_reason(-r)) : 0;
}
