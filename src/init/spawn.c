/*
 * spawner (work cgroup, init's id) -> shim (same id, subreaper) -> command (the user's id, no
 * capability). Between fork and exec the command's process only makes system calls and reports a
 * failure as a struct err over a close-on-exec pipe: an empty pipe means the exec happened.
 */
#include "init/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/account.h"
#include "init/walls.h"
#include "os/caps.h"
#include "os/tty.h"
#include "wire/wire.h"

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct command {
	struct account account;
	char **argv;
	char **environment;
	const char *cwd;
	uint64_t nofile, file_bytes; /* 0: as it is */
	bool is_tty;
	int status; /* socket to the keeper */
	int stdio[3];
	int master; /* of a terminal */
};

/* --- the command's own process, between fork and exec --- */

static const char *environment_get(char *const *environment, const char *name)
{
	size_t len = strlen(name);
	for (; *environment; environment++) {
		if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=')
			return *environment + len + 1;
	}
	return NULL;
}

static int set_stdio(const struct command *command, struct err *err)
{
	if (command->is_tty) {
		int r = tty_make_controlling(command->stdio[0]);
		return r < 0 ? err_sys(err, -r, "take the terminal") : 0;
	}
	if (setsid() < 0)
		return err_sys(err, errno, "start a session");
	for (int fd = 0; fd < 3; fd++) {
		if (dup2(command->stdio[fd], fd) < 0)
			return err_sys(err, errno, "set up the standard streams");
	}
	return 0;
}

/* Where the out-of-memory killer looks first: before the shim, the spawner and init. The file
 * belongs to us only while we are dumpable, which harms nothing as long as we still have init's
 * uid. */
static void volunteer_for_oom(void)
{
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	(void)!io_write_ctl(AT_FDCWD, "/proc/self/oom_score_adj",
	                    "500"); /* best effort by design */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* In a sandbox made in advance this is where the limit comes from. Never above what we have. */
static int set_limit(__rlimit_resource_t which, uint64_t most)
{
	struct rlimit limit;
	if (most == 0)
		return 0;
	if (getrlimit(which, &limit) < 0)
		return -errno;
	limit.rlim_max = MIN((rlim_t)most, limit.rlim_max);
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(which, &limit) < 0 ? -errno : 0;
}

static int enter_cwd(const struct command *command, struct err *err)
{
	if (chdir(command->cwd) == 0)
		return 0;
	return err_set(err, ERR_INVALID, "cannot enter the working directory '%.100s': %s",
	               command->cwd, strerrordesc_np(errno));
}

static int try_exec(const struct command *command, const char *path, int *worst)
{
	(void)execve(path, command->argv, command->environment);
	/* A file that exists but cannot run says more than one that is not there. */
	if (errno != ENOENT && errno != ENOTDIR)
		*worst = errno;
	return -1;
}

static int exec_on_path(const struct command *command, struct err *err)
{
	const char *name = command->argv[0];
	int worst = ENOENT;
	if (strchr(name, '/')) {
		(void)try_exec(command, name, &worst);
	} else {
		const char *path = environment_get(command->environment, "PATH");
		for (path = path ? path : default_path; path && name[0];) {
			const char *end = strchrnul(path, ':');
			char full[4096];
			int n = snprintf(full, sizeof(full), "%.*s/%s", (int)(end - path), path,
			                 name);
			if (n > 0 && (size_t)n < sizeof(full))
				(void)try_exec(command, full, &worst);
			path = *end ? end + 1 : NULL;
		}
	}
	(void)err_sys(err, worst, "execute '%.100s'", name);
	err->code = worst == ENOENT ? ERR_NO_PROGRAM : ERR_NOT_PROGRAM;
	return -1;
}

static int become_command(const struct command *command, struct err *err)
{
	static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGQUIT};
	sigset_t none;
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		(void)signal(signals[i], SIG_DFL);
	if (set_stdio(command, err) < 0)
		return -1;
	volunteer_for_oom();
	if (getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
		return err_sys(err, errno, "take the ordinary priority");
	int r = set_limit(RLIMIT_NOFILE, command->nofile);
	if (r >= 0)
		r = set_limit(RLIMIT_FSIZE, command->file_bytes);
	if (r < 0)
		return err_sys(err, -r, "limit files");
	r = caps_drop_bounding();
	if (r < 0)
		return err_sys(err, -r, "empty the capability sets");
	if (command->account.uid != getuid() || command->account.gid != getgid())
		r = caps_become(command->account.uid, command->account.gid, 0);
	if (r >= 0)
		r = caps_clear();
	if (r < 0)
		return err_sys(err, -r, "become user %u", command->account.uid);
	if (enter_cwd(command, err) < 0)
		return -1;
	return exec_on_path(command, err);
}

static NORETURN void run_command(const struct command *command, int report)
{
	struct err err = {0};
	if (dup2(report, 3) < 0 || fcntl(3, F_SETFD, FD_CLOEXEC) < 0)
		_exit(125);
	struct command moved = *command;
	for (int i = 0; i < 3; i++)
		moved.stdio[i] = fcntl(command->stdio[i], F_DUPFD_CLOEXEC, 10);
	(void)become_command(&moved, &err); /* returns only when it failed */
	(void)!io_write_all(3, &err, sizeof(err));
	_exit(125);
}

/* --- the shim --- */

static void send_status(const struct command *command, enum wire_type type, int status,
                        const struct err *err)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, type, 0);
	if (err)
		wire_put_err(&out, err);
	else if (WIFSIGNALED(status))
		wire_put_u64(&out, FIELD_SIGNAL, (uint64_t)WTERMSIG(status));
	else
		wire_put_u64(&out, FIELD_EXIT_CODE, (uint64_t)WEXITSTATUS(status));
	(void)!wire_send(command->status, &out); /* the keeper also sees the socket close */
}

static void send_started(const struct command *command, pid_t leader)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_S_STARTED, 0);
	wire_put_u64(&out, FIELD_PID, (uint64_t)leader);
	wire_put_u64(&out, FIELD_ENTRIES,
	             (uint64_t)getpid()); /* the shim itself: top of the tree */
	if (command->is_tty)
		wire_put_fd(&out, command->master);
	(void)!wire_send(command->status, &out); /* as above */
}

static NORETURN void shim_fail(const struct command *command, const struct err *err)
{
	send_status(command, WIRE_S_FAILED, 0, err);
	_exit(0);
}

/* Waits for the command and says how it ended, reaping whatever else became our child. Stays while
 * something the command left behind lives: by us it can be found and killed. */
static NORETURN void shim_wait(const struct command *command, pid_t leader)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);
		if (pid == leader)
			send_status(command, WIRE_S_EXITED, status, NULL);
		if (pid < 0 && errno != EINTR)
			_exit(0);
	}
}

static void close_stdio(struct command *command)
{
	for (int i = 0; i < 3; i++)
		fd_closep(&command->stdio[i]);
}

static int open_terminal(struct command *command, const struct wire_msg *msg, struct err *err)
{
	uint64_t rows = wire_u64(msg, FIELD_ROWS, 0), cols = wire_u64(msg, FIELD_COLS, 0);
	struct tty_size size = {.rows = rows ? (uint16_t)rows : 24,
	                        .cols = cols ? (uint16_t)cols : 80};
	int slave = -1;
	/* A terminal belongs to whoever opens it: the command's user must own its own. */
	(void)setfsgid(command->account.gid);
	(void)setfsuid(command->account.uid);
	int r = tty_open_pair(&command->master, &slave);
	(void)setfsuid(geteuid());
	(void)setfsgid(getegid());
	if (r >= 0)
		r = tty_set_size(command->master, size);
	if (r < 0)
		return err_sys(err, -r, "open a terminal");
	command->stdio[0] = slave;
	command->stdio[1] = fcntl(slave, F_DUPFD_CLOEXEC, 10);
	command->stdio[2] = fcntl(slave, F_DUPFD_CLOEXEC, 10);
	return 0;
}

static char **copy_list(const struct wire_msg *msg, enum wire_field field, size_t spare)
{
	size_t at = 0, count = 0;
	char **list = mem_zalloc((wire_count(msg, field) + spare + 1) * sizeof(char *));
	const char *item;
	while ((item = wire_next_str(msg, field, &at)) != NULL)
		list[count++] = mem_strdup(item);
	return list;
}

static void add_default(char **environment, const char *name, const char *value)
{
	if (environment_get(environment, name))
		return;
	size_t count = 0;
	while (environment[count])
		count++;
	environment[count] = mem_printf("%s=%s", name, value);
}

/* What a login shell would have: the caller's values win. */
static void complete_environment(struct command *command)
{
	const struct {
		const char *name, *value;
	} defaults[] = {{"PATH", default_path},
	                {"HOME", command->account.home},
	                {"USER", command->account.name},
	                {"LOGNAME", command->account.name},
	                {"SHELL", command->account.shell},
	                {"LANG", "C.UTF-8"},
	                {"TERM", command->is_tty ? "xterm-256color" : "dumb"}};
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
		if (defaults[i].value[0])
			add_default(command->environment, defaults[i].name, defaults[i].value);
	}
}

static int parse_command(struct command *command, struct wire_msg *msg, struct err *err)
{
	enum { DEFAULTS = 8 };
	command->argv = copy_list(msg, FIELD_ARGV, 1);
	command->environment = copy_list(msg, FIELD_ENV, DEFAULTS);
	command->cwd = wire_str(msg, FIELD_CWD, "/workspace");
	command->is_tty = wire_u64(msg, FIELD_TTY, 0) != 0;
	command->nofile = wire_u64(msg, FIELD_NOFILE, 0);
	command->file_bytes = wire_u64(msg, FIELD_FILE_BYTES, 0);
	if (account_find(wire_str(msg, FIELD_USER, "agent"), &command->account, err) < 0)
		return -1;
	if (getuid() != 0 && !caps_has(CAP_SETUID) && command->account.uid != getuid())
		return err_set(
			err, ERR_UNSUPPORTED,
			"this sandbox has only the user agent: more ids need newuidmap and a "
			"line for this user in /etc/subuid");
	if (!command->argv[0]) /* no command: the user's shell */
		command->argv[0] = mem_strdup(command->account.shell);
	complete_environment(command);
	if (command->is_tty)
		return open_terminal(command, msg, err);
	for (int i = 0; i < 3; i++)
		command->stdio[i] = wire_take_fd(msg, (size_t)i + 1);
	return 0;
}

static NORETURN void shim(struct wire_msg *msg)
{
	struct err err = {0};
	struct command command = {
		.status = wire_take_fd(msg, 0), .stdio = {-1, -1, -1}, .master = -1};
	int report[2];
	(void)prctl(PR_SET_NAME, "cloche-shim", 0, 0, 0); /* only what ps shows */
	/* Orphans of the command come to us, not to init: so all of an exec stays below its shim.
	 */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || pipe2(report, O_CLOEXEC) < 0) {
		(void)err_sys(&err, errno, "prepare the command");
		shim_fail(&command, &err);
	}
	if (parse_command(&command, msg, &err) < 0)
		shim_fail(&command, &err);
	pid_t leader = fork();
	if (leader == 0)
		run_command(&command, report[1]);
	int sys = errno;
	(void)close(report[1]);
	close_stdio(&command);
	if (leader < 0) {
		(void)err_sys(&err, sys, "fork the command (the limit on processes?)");
		shim_fail(&command, &err);
	}
	if (io_read_full(report[0], &err, sizeof(err)) == (ssize_t)sizeof(err))
		shim_fail(&command, &err);
	(void)close(report[0]);
	send_started(&command, leader);
	fd_closep(&command.master);
	shim_wait(&command, leader);
}

/* --- the spawner --- */

static void reap(int number)
{
	int saved = errno;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
	errno = saved;
}

static void spawn_one(int sock, struct wire_msg *msg)
{
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(sock);
		(void)signal(SIGCHLD, SIG_DFL);
		shim(msg);
	}
	if (pid > 0)
		return;
	struct err err = {0};
	struct command command = {.status = msg->fds[0]};
	(void)err_sys(&err, errno, "start a process: the sandbox is at its limit");
	err.code = ERR_LIMITED;
	send_status(&command, WIRE_S_FAILED, 0, &err);
}

/* S_MOUNTED: what is mounted inside changed since we were made. */
static void take_message(int sock, struct wire_msg *msg, struct walls *walls)
{
	if (msg->type == WIRE_S_MOUNTED)
		walls_forget(walls);
	/* The keeper sees the status socket close; another spawner tries. */
	if (walls_close(walls) < 0)
		_exit(1);
	if (msg->type == WIRE_S_EXEC && msg->fd_count >= 1)
		spawn_one(sock, msg);
}

void spawn_loop(int sock, struct walls *walls)
{
	uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	struct sigaction action = {.sa_handler = reap, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
	(void)sigaction(SIGCHLD, &action, NULL); /* cannot fail for a valid signal */
	(void)prctl(PR_SET_NAME, "cloche-spawn", 0, 0, 0);
	for (;;) {
		struct wire_msg msg;
		int r = wire_recv(sock, bytes, LIMIT_WIRE_BYTES, &msg);
		if (r == 0)
			_exit(0);
		if (r < 0)
			continue; /* a packet we cannot read; the keeper will notice the silence */
		take_message(sock, &msg, walls);
		wire_msg_done(&msg);
	}
}
