/*
 * Who: forked from the broker (root) or from the starter (an ordinary user). Capabilities: SETUID,
 * SETGID, SETPCAP until they are dropped. Bytes: its own environment. Gone before cloched runs:
 * every capability, also from the bounding set, all other descriptors and environment variables,
 * the way back (no_new_privs).
 */
#include "broker/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "os/caps.h"
#include "os/syscalls.h"

extern char **environ;

enum {
	SPAWN_ENV_MAX = 32,
	SPAWN_FD_WIRE = 3,
	SPAWN_FD_API = 4,
	SPAWN_FD_STATE = 5,
	SPAWN_FD_TCP = 6
};

/* What cloched may know of our environment. */
static void pick_environment(char **out)
{
	size_t count = 0;
	out[count++] = (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	for (char **at = environ; *at && count < SPAWN_ENV_MAX; at++)
		if (str_has_prefix(*at, "LANG=") || str_has_prefix(*at, "CLOCHE_"))
			out[count++] = *at;
	out[count] = NULL;
}

static int place_fds(const struct spawn *spawn, bool needs_state)
{
	bool has_tcp = spawn->tcp_fd >= 0;
	const int from[] = {spawn->wire_fd, spawn->api_fd, spawn->state_fd, spawn->cloched_fd,
	                    has_tcp ? spawn->tcp_fd : spawn->api_fd};
	int high[ARRAY_LEN(from)];
	for (size_t i = 0; i < ARRAY_LEN(from); i++) {
		high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 10);
		if (high[i] < 0)
			return -errno;
	}
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
	    dup2(high[0], SPAWN_FD_WIRE) < 0 || dup2(high[1], SPAWN_FD_API) < 0 ||
	    (needs_state && dup2(high[2], SPAWN_FD_STATE) < 0) ||
	    (has_tcp && dup2(high[4], SPAWN_FD_TCP) < 0))
		return -errno;
	const int keep[] = {STDIN_FILENO,
	                    STDOUT_FILENO,
	                    STDERR_FILENO,
	                    SPAWN_FD_WIRE,
	                    SPAWN_FD_API,
	                    high[3],
	                    needs_state ? SPAWN_FD_STATE : SPAWN_FD_API,
	                    has_tcp ? SPAWN_FD_TCP : SPAWN_FD_API};
	int r = caps_close_fds_except(keep, ARRAY_LEN(keep));
	return r < 0 ? r : high[3];
}

static int drop_privileges(const struct spawn *spawn)
{
	int r = 0;
	if (spawn->change_user) {
		/* SETPCAP lives on for one moment, to empty the bounding set, too. */
		r = caps_become(spawn->uid, spawn->gid, CAPS_BIT(CAP_SETPCAP));
		if (r == 0)
			r = caps_limit(0);
	} else {
		r = caps_clear();
	}
	return r < 0 ? r : caps_no_new_privs();
}

/* Runs in the child; returns only on failure. */
static int become_cloched(const struct spawn *spawn)
{
	char *env[SPAWN_ENV_MAX + 1];
	char path[] = "/proc/self/fd/5";
	char *argv[12] = {(char *)"cloched", (char *)"--state", (char *)spawn->state_path,
	                  (char *)"--broker-fd", (char *)"3"};
	size_t count = 5;
	if (spawn->tcp_fd >= 0) {
		argv[count++] = (char *)"--tcp-fd";
		argv[count++] = (char *)"6";
	}
	if (spawn->log_level) {
		argv[count++] = (char *)"--log-level";
		argv[count++] = (char *)spawn->log_level;
	}
	pick_environment(env);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	/* Not in the terminal's foreground group: Ctrl-C is for the broker, which ends us in order.
	 */
	(void)setpgid(0, 0);
	(void)umask(077);
	int r = drop_privileges(spawn);
	if (r < 0)
		return r;
	bool needs_state = access(spawn->state_path, X_OK) < 0;
	if (needs_state)
		argv[2] = path;
	int cloched = place_fds(spawn, needs_state);
	if (cloched < 0)
		return cloched;
	(void)sys_execve_fd(cloched, argv, env);
	return -errno;
}

int spawn_cloched(const struct spawn *spawn, pid_t *ret_pid, struct err *err)
{
	pid_t pid = fork();
	if (pid == 0) {
		struct err failed = {0};
		err_sys(&failed, -become_cloched(spawn), "start cloched");
		log_error("cloched cannot be started", LOG_ERR(&failed));
		_exit(1);
	}
	if (pid < 0)
		return err_sys(err, errno, "fork cloched");
	*ret_pid = pid;
	return 0;
}
