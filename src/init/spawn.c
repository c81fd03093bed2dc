/*
 * spawner (work cgroup, init's id) -> shim (same id, subreaper) -> command (the user's id, no
 * capability). While nothing runs, one shim waits ready on the socket, so that the first command
 * costs no fork of its own; after a while without any it ends, for sandboxes that idle are many.
 * The first is there before there is a root, and closes the walls behind itself as soon as there
 * is. In a sandbox that is nobody's yet it waits for as long as that takes, behind walls that are
 * up: if mounts come in meanwhile, they were made of what was there before, so shim and spawner
 * end, and init forks another. Between birth and exec the command's process shares the shim's
 * memory (as after vfork: the shim stands still meanwhile), makes only system calls, and leaves a
 * failure in the struct command.
 */
#include "init/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/account.h"
#include "init/init.h"
#include "init/walls.h"
#include "os/caps.h"
#include "os/tty.h"
#include "wire/wire.h"

/* RESTS: the exit status of a shim after which no other is to wait until a command came. */
enum { SEND_TRIES = 200, SEND_AGAIN_MS = 10, IDLE_MS = 5000, RESTS = 3, REST_MS = 200 };

/* What a waiting shim tells its spawner of messages that it took in its place. */
enum { TOLD_ONCE = 'o', TOLD_MOUNTED = 'm' };

#define AGENT "agent"

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

enum { COMMAND_STACK_BYTES = 64 * 1024 };

struct command {
	struct account account;
	char **argv;
	char **environment;
	const char *cwd;
	uint64_t nofile, file_bytes; /* 0: as it is */
	bool is_tty;
	bool is_last; /* the sandbox goes after it */
	int status;   /* socket to the keeper */
	int taken;    /* to the spawner, which waits for a word; -1: it does not */
	int stdio[3];
	int master;     /* of a terminal */
	bool is_failed; /* set by the command's process, with err, when it could not exec */
	struct err err;
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

/* In a sandbox made in advance this is where the limit comes from. Never above what we have. */
static int set_limit(int which, uint64_t most)
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
	               command->cwd, strerror(errno));
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
	(void)pthread_sigmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		(void)signal(signals[i], SIG_DFL);
	if (set_stdio(command, err) < 0)
		return -1;
	if (getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
		return err_sys(err, errno, "take the ordinary priority");
	int r = set_limit(RLIMIT_NOFILE, command->nofile);
	if (r >= 0)
		r = set_limit(RLIMIT_FSIZE, command->file_bytes);
	if (r < 0)
		return err_sys(err, -r, "limit files");
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

static int run_command(void *ctx)
{
	struct command *command = ctx;
	(void)become_command(command, &command->err); /* returns only when it failed */
	command->is_failed = true;
	_exit(125);
}

/* --- the shim --- */

/* Where the out-of-memory killer looks first: at commands, before the shim, the spawner and init. A
 * command inherits it, so the shim has it while it waits for one, when there is time, and goes back
 * afterwards. Best effort by design. */
struct volunteer {
	int fd; /* -1: it is as it was */
	char before[8];
};

/* The file belongs to us only while we are dumpable, which harms nothing as long as we have a uid
 * that no command has: where they share it, one could reach into our memory, and the largest goes
 * first. */
static void volunteer_for_oom(struct volunteer *volunteer)
{
	volunteer->fd = -1;
	if (getuid() != INIT_UID)
		return;
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	volunteer->fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	ssize_t n = volunteer->fd < 0 ? -1
	                              : pread(volunteer->fd, volunteer->before,
	                                      sizeof(volunteer->before) - 1, 0);
	volunteer->before[MAX(n, 0)] = '\0';
	if (n <= 0 || pwrite(volunteer->fd, "500", 3, 0) < 0)
		fd_closep(&volunteer->fd);
}

static void stand_back(struct volunteer *volunteer)
{
	if (volunteer->fd >= 0)
		(void)!pwrite(volunteer->fd, volunteer->before, strlen(volunteer->before), 0);
	fd_closep(&volunteer->fd);
}

static void tell_spawner(int taken, char word)
{
	(void)!write(taken, &word, 1); /* one that is gone takes its shims with it */
}

/* The keeper waits for this word and for nothing else: without memory to send it, it is sent as
 * soon as there is some. */
static int send_surely(int sock, const struct wire_out *out)
{
	static const struct timespec pause = {.tv_nsec = SEND_AGAIN_MS * 1000 * 1000};
	int r = wire_send(sock, out);
	for (int i = 0; i < SEND_TRIES && r < 0 && r != -EPIPE && r != -ECONNRESET; i++) {
		(void)nanosleep(&pause, NULL); /* woken early it only tries early */
		r = wire_send(sock, out);
	}
	return r;
}

static void put_end(struct wire_out *out, int status)
{
	if (WIFSIGNALED(status))
		wire_put_u64(out, FIELD_SIGNAL, (uint64_t)WTERMSIG(status));
	else
		wire_put_u64(out, FIELD_EXIT_CODE, (uint64_t)WEXITSTATUS(status));
}

static void send_status(const struct command *command, enum wire_type type, int status,
                        const struct err *err)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, type, 0);
	if (err)
		wire_put_err(&out, err);
	else
		put_end(&out, status);
	(void)!send_surely(command->status, &out); /* the keeper also sees the socket close */
}

/* ended: how, if it is over already; else NULL. */
static void send_started(const struct command *command, pid_t leader, const int *ended)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_S_STARTED, 0);
	wire_put_u64(&out, FIELD_PID, (uint64_t)leader);
	wire_put_u64(&out, FIELD_ENTRIES,
	             (uint64_t)getpid()); /* the shim itself: top of the tree */
	if (ended)
		put_end(&out, *ended);
	if (command->is_tty)
		wire_put_fd(&out, command->master);
	if (send_surely(command->status, &out) >= 0)
		return;
	/* Nobody waits for it any more. */
	(void)kill(leader, SIGKILL);
	_exit(1);
}

static NORETURN void shim_fail(const struct command *command, const struct err *err)
{
	send_status(command, WIRE_S_FAILED, 0, err);
	_exit(0);
}

/* The end of the last command is the end of the sandbox, which somebody waits for: whatever we and
 * the spawner would do now can be done a little later, if there is anything left to do it for. */
static void shim_rest(struct command *command)
{
	static const struct timespec pause = {.tv_nsec = REST_MS * 1000 * 1000};
	fd_closep(&command->status); /* the keeper hears that nothing is left of it */
	(void)nanosleep(&pause, NULL);
	if (command->taken >= 0)
		tell_spawner(command->taken, TOLD_ONCE);
}

/* Waits for the command and says how it ended, reaping whatever else became our child. Stays while
 * something the command left behind lives: by us it can be found and killed. leader 0: its end is
 * told already. */
static NORETURN void shim_wait(struct command *command, pid_t leader)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);
		if (pid > 0 && pid == leader)
			send_status(command, WIRE_S_EXITED, status, NULL);
		if (pid > 0 || errno == EINTR)
			continue;
		if (command->is_last)
			shim_rest(command);
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

/* usual: the agent's account, where nobody can have changed it since it was read; else NULL. */
static int find_account(const struct wire_msg *msg, const struct account *usual,
                        struct account *ret, struct err *err)
{
	const char *user = wire_str(msg, FIELD_USER, AGENT);
	if (!usual || !str_eq(user, AGENT))
		return account_find(user, ret, err);
	*ret = *usual;
	return 0;
}

static int parse_command(struct command *command, struct wire_msg *msg, const struct account *usual,
                         struct err *err)
{
	enum { DEFAULTS = 8 };
	command->argv = copy_list(msg, FIELD_ARGV, 1);
	command->environment = copy_list(msg, FIELD_ENV, DEFAULTS);
	command->cwd = wire_str(msg, FIELD_CWD, "/workspace");
	command->is_tty = wire_u64(msg, FIELD_TTY, 0) != 0;
	command->nofile = wire_u64(msg, FIELD_NOFILE, 0);
	command->file_bytes = wire_u64(msg, FIELD_FILE_BYTES, 0);
	if (find_account(msg, usual, &command->account, err) < 0)
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

/* What every command needs and none changes. */
struct prepared {
	int result; /* <0: why nothing can start */
	struct volunteer volunteer;
};

struct spawner {
	int sock;
	struct walls *walls;
	uint8_t *bytes;
	int limited;          /* <0: why no program would be kept from gaining capabilities */
	bool is_parked;       /* nobody's yet: nothing has run inside */
	struct account usual; /* of commands that name no user; read while nothing has run */
	bool is_once;         /* most likely no command comes after the first */
	bool rests;           /* nobody needs to wait */
	int birth;            /* where the first shim hears that there is a root; -1: there is */
	size_t children;      /* shims, the waiting one too */
	int taken; /* hangs up when the waiting shim has a command, or died; -1: none waits */
};

static struct prepared shim_prepare(const struct spawner *spawner)
{
	struct prepared prepared = {.result = spawner->limited, .volunteer = {.fd = -1}};
	if (spawner->limited < 0)
		return prepared;
	(void)signal(SIGCHLD, SIG_DFL);
	(void)prctl(PR_SET_NAME, "cloche-shim", 0, 0, 0); /* only what ps shows */
	/* Orphans of the command come to us, not to init: so all of an exec stays below its shim.
	 */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		prepared.result = -errno;
	volunteer_for_oom(&prepared.volunteer);
	return prepared;
}

/* Returns when the command has made its exec, or failed to. */
static pid_t give_birth(struct command *command)
{
	alignas(16) uint8_t stack[COMMAND_STACK_BYTES];
	pid_t pid = clone(run_command, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
	                  command);
	return pid < 0 ? -errno : pid;
}

/* Not before its birth: it wakes the spawner, and the command goes first. */
static void let_spawner_go(struct command *command, bool is_once)
{
	if (command->taken >= 0 && is_once)
		tell_spawner(command->taken, TOLD_ONCE);
	fd_closep(&command->taken);
}

/* Many a command is over before its parent gets its next turn. */
static bool is_over(const struct command *command, pid_t leader, int *ret_status)
{
	return command->is_last && !command->is_tty && !command->is_failed && leader > 0 &&
	       waitpid(leader, ret_status, WNOHANG) == leader;
}

/* taken: see struct command. */
static NORETURN void shim(struct wire_msg *msg, struct prepared *prepared,
                          const struct account *usual, int taken)
{
	struct err err = {0};
	uint64_t once = wire_u64(msg, FIELD_ONCE, 0);
	struct command command = {.status = wire_take_fd(msg, 0),
	                          .stdio = {-1, -1, -1},
	                          .master = -1,
	                          .taken = taken,
	                          .is_last = once == 2};
	if (prepared->result < 0) {
		(void)err_sys(&err, -prepared->result, "prepare the command");
		shim_fail(&command, &err);
	}
	/* It may have waited long for somebody who starts it. */
	struct pollfd keeper = {.fd = command.status, .events = POLLIN};
	if (poll(&keeper, 1, 0) > 0 && keeper.revents & (POLLHUP | POLLERR))
		_exit(0);
	if (parse_command(&command, msg, usual, &err) < 0)
		shim_fail(&command, &err);
	pid_t leader = give_birth(&command);
	int status;
	bool has_ended = is_over(&command, leader, &status);
	close_stdio(&command);
	if (leader < 0) {
		(void)err_sys(&err, -leader, "fork the command (the limit on processes?)");
		shim_fail(&command, &err);
	}
	if (command.is_failed)
		shim_fail(&command, &command.err);
	send_started(&command, leader, has_ended ? &status : NULL);
	fd_closep(&command.master);
	if (!has_ended)
		let_spawner_go(&command, once != 0);
	stand_back(&prepared->volunteer);
	shim_wait(&command, has_ended ? 0 : leader);
}

/* --- the spawner --- */

/* The next message for a waiting shim; 0: none came for a while. */
static int wait_for_message(const struct spawner *spawner, bool is_parked, struct wire_msg *ret)
{
	struct pollfd p = {.fd = spawner->sock, .events = POLLIN};
	if (poll(&p, 1, is_parked ? -1 : IDLE_MS) == 0)
		return 0;
	int r = wire_recv(spawner->sock, spawner->bytes, LIMIT_WIRE_BYTES, ret);
	if (r <= 0)
		_exit(0); /* the keeper left */
	return r;
}

/* S_EXEC, or whatever else a spawner would not know either. Until then the spawner reads nothing,
 * so what is for it is passed on. */
static void wait_for_command(const struct spawner *spawner, int taken, struct wire_msg *ret)
{
	bool is_parked = spawner->is_parked;
	for (;;) {
		if (wait_for_message(spawner, is_parked, ret) == 0)
			_exit(RESTS);
		if (ret->type == WIRE_S_MOUNTED) {
			tell_spawner(taken, TOLD_MOUNTED);
			_exit(0);
		}
		if (ret->type != WIRE_S_CLAIMED)
			return;
		is_parked = false;
		wire_msg_done(ret);
	}
}

/* Where it was while the root was switched may be the old one, so it goes there once more. */
static int wait_for_root(struct spawner *spawner)
{
	char is_parked;
	if (spawner->birth < 0)
		return 0;
	int r = walls_hand_listener(spawner->walls, spawner->birth);
	if (r < 0)
		return r;
	if (io_read_full(spawner->birth, &is_parked, 1) != 1)
		_exit(0); /* init is gone */
	fd_closep(&spawner->birth);
	spawner->is_parked = is_parked;
	return chdir("/") < 0 ? -errno : walls_close(spawner->walls);
}

/* A child that waits for one command on the spawner's own socket. */
static NORETURN void wait_as_shim(struct spawner *spawner, int taken)
{
	struct wire_msg msg;
	struct err err = {0};
	/* A spawner that is replaced leaves nobody behind on its socket. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || wait_for_root(spawner) < 0)
		_exit(1); /* another spawner tries */
	struct prepared prepared = shim_prepare(spawner);
	bool has_usual = spawner->is_parked && account_find(AGENT, &spawner->usual, &err) == 0;
	wait_for_command(spawner, taken, &msg);
	(void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	(void)close(spawner->sock);
	if (msg.type != WIRE_S_EXEC || msg.fd_count < 1)
		_exit(0); /* the keeper will notice the silence */
	shim(&msg, &prepared, has_usual ? &spawner->usual : NULL, taken);
}

/* Not before the walls are up, which all commands must share, but for the first, which sees to them
 * itself. Without room for one more process the spawner itself takes what comes, and says so. */
static void keep_one_waiting(struct spawner *spawner)
{
	int fds[2];
	bool is_walled = spawner->walls->is_up || spawner->birth >= 0;
	if (!is_walled || spawner->children > 0 || spawner->rests || pipe2(fds, O_CLOEXEC) < 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(fds[0]);
		wait_as_shim(spawner, fds[1]);
	}
	(void)close(fds[1]);
	fd_closep(&spawner->birth); /* init hears of a shim that is not there */
	fd_closep(&spawner->walls->listener);
	if (pid < 0) {
		(void)close(fds[0]);
		return;
	}
	spawner->children++;
	spawner->taken = fds[0];
	spawner->rests = spawner->is_once;
	spawner->is_parked = false; /* the next one comes after somebody's command */
}

static void spawn_one(struct spawner *spawner, struct wire_msg *msg)
{
	pid_t pid = fork();
	spawner->rests = spawner->is_once;
	if (pid == 0) {
		(void)close(spawner->sock);
		struct prepared prepared = shim_prepare(spawner);
		shim(msg, &prepared, NULL, -1);
	}
	if (pid > 0) {
		spawner->children++;
		return;
	}
	struct err err = {0};
	struct command command = {.status = msg->fds[0]};
	(void)err_sys(&err, errno, "start a process: the sandbox is at its limit");
	err.code = ERR_LIMITED;
	send_status(&command, WIRE_S_FAILED, 0, &err);
}

/* S_MOUNTED: what is mounted inside changed since we were made. S_CLAIMED: nothing will change any
 * more. */
static void take_message(struct spawner *spawner)
{
	struct wire_msg msg;
	int r = wire_recv(spawner->sock, spawner->bytes, LIMIT_WIRE_BYTES, &msg);
	if (r == 0)
		_exit(0);
	if (r < 0)
		return; /* a packet we cannot read; the keeper will notice the silence */
	/* Walls cannot be made anew; and the keeper sees the status socket close. Another spawner
	 * tries. */
	if (msg.type == WIRE_S_MOUNTED ? spawner->walls->is_up : walls_close(spawner->walls) < 0)
		_exit(1);
	spawner->is_once |= wire_u64(&msg, FIELD_ONCE, 0) != 0;
	if (msg.type == WIRE_S_EXEC && msg.fd_count >= 1)
		spawn_one(spawner, &msg);
	wire_msg_done(&msg);
}

/* The waiting shim has a command, or died, or tells what it took. */
static void hear_shim(struct spawner *spawner)
{
	char told;
	ssize_t n = read(spawner->taken, &told, 1);
	if (n > 0 && told == TOLD_MOUNTED)
		_exit(1); /* as in take_message */
	if (n > 0) {
		spawner->is_once = spawner->rests = true;
		return;
	}
	fd_closep(&spawner->taken);
	/* For the next to wait behind; who runs one command alone needs none. */
	if (!spawner->is_once && walls_close(spawner->walls) < 0)
		_exit(1);
}

static void reap(struct spawner *spawner)
{
	int status;
	while (waitpid(-1, &status, WNOHANG) > 0) {
		spawner->children--;
		spawner->rests |= WIFEXITED(status) && WEXITSTATUS(status) == RESTS;
	}
}

static void on_child(int number)
{
	/* Only there to end ppoll. */
}

/* SIGCHLD comes while waiting and at no other time. */
static void arrange_signals(void)
{
	struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
	sigset_t child;
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigaction(SIGCHLD, &action, NULL); /* cannot fail for a valid signal */
	(void)pthread_sigmask(SIG_BLOCK, &child, NULL);
}

void spawn_loop(int sock, struct walls *walls, bool is_parked, int birth)
{
	struct spawner spawner = {.sock = sock,
	                          .walls = walls,
	                          .is_parked = is_parked,
	                          .birth = birth,
	                          .bytes = mem_zalloc(LIMIT_WIRE_BYTES),
	                          .taken = -1};
	sigset_t none;
	/* Inherited by all it forks: eighty calls that no command has to wait for. */
	spawner.limited = walls->is_bounded ? 0 : caps_drop_bounding();
	(void)sigemptyset(&none);
	arrange_signals();
	(void)prctl(PR_SET_NAME, "cloche-spawn", 0, 0, 0);
	mem_settle();
	for (;;) {
		reap(&spawner);
		keep_one_waiting(&spawner);
		if (spawner.birth >= 0)
			_exit(1); /* there was nothing left for the first */
		struct pollfd fds[] = {{.fd = sock, .events = spawner.taken < 0 ? POLLIN : 0},
		                       {.fd = spawner.taken, .events = POLLIN}};
		if (ppoll(fds, ARRAY_LEN(fds), NULL, &none) <= 0)
			continue;
		if (fds[0].revents & (POLLHUP | POLLERR))
			_exit(0); /* the keeper is gone */
		if (fds[0].revents & POLLIN)
			take_message(&spawner);
		if (fds[1].revents)
			hear_shim(&spawner);
	}
}
