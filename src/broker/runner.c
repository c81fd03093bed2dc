/*
 * Who: a child made for one run; root (or root of a user namespace) until the program starts.
 * Capabilities: SETUID, SETGID, SETPCAP until they are dropped. Bytes: the program's output, kept
 * as it is. Gone before the program runs: capabilities, other descriptors, the environment; at the
 * end: everything it left running.
 */
#include "broker/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "os/caps.h"
#include "os/proc.h"

enum { RUNNER_SWEEPS = 100, RUNNER_CHUNK = 16 * 1024 };

/* Somebody else who can write the program can choose what runs. */
static int open_program(const char *path, struct err *err)
{
	struct stat st;
	if (path[0] != '/')
		return err_set(err, ERR_INVALID, "the program must be given by an absolute path");
	auto_close int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, "cannot open %s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a program", path);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, ERR_FORBIDDEN, "%s can be changed by others", path);
	return take_fd(&fd);
}

static int drop_privileges(const struct runner_spec *spec)
{
	int r = 0;
	if (spec->change_user) {
		r = caps_become(spec->uid, spec->gid, CAPS_BIT(CAP_SETPCAP));
		if (r == 0)
			r = caps_limit(0);
	} else {
		r = caps_clear();
	}
	return r < 0 ? r : caps_no_new_privs();
}

/* Only comes back on failure. A script is opened by its name again, so its fd stays open for it. */
static int become_program(const struct runner_spec *spec, int program, int out)
{
	char *env[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin", (char *)"LANG=C.UTF-8", NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(out, STDERR_FILENO) < 0)
		return -errno;
	int keep_program = fcntl(program, F_DUPFD, 3);
	const int keep[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, keep_program};
	if (keep_program < 0 || chdir("/") < 0)
		return -errno;
	(void)setsid(); /* a new child leads nothing: it works */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	int r = caps_close_fds_except(keep, ARRAY_LEN(keep));
	if (r == 0)
		r = drop_privileges(spec);
	if (r < 0)
		return r;
	(void)execveat(keep_program, "", spec->argv, env, AT_EMPTY_PATH);
	return -errno;
}

/* One read of what is there. False at the end of file or when nothing is there. */
static bool take_some(int fd, struct runner_result *result)
{
	uint8_t chunk[RUNNER_CHUNK];
	ssize_t len = read(fd, chunk, sizeof(chunk));
	if (len <= 0)
		return false;
	size_t fits = MIN((size_t)len, buf_room(&result->output));
	/* The rest is read and dropped, so that the program goes on. */
	if (buf_put(&result->output, chunk, fits) < 0 || fits < (size_t)len)
		result->is_cut = true;
	return true;
}

/* Until the program has ended and what it wrote is read, or the deadline. */
static void collect(int fd, int pidfd, uint64_t deadline_ms, struct runner_result *result)
{
	struct pollfd p[] = {{.fd = pidfd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
	for (;;) {
		uint64_t now = io_boot_ms();
		int r = now >= deadline_ms ? 0 : poll(p, ARRAY_LEN(p), (int)(deadline_ms - now));
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0) {
			result->timed_out = true;
			return;
		}
		if (p[1].revents && !take_some(fd, result))
			p[1].fd = -1; /* closed by the program, which may go on */
		if (p[0].revents) {
			while (p[1].fd >= 0 && take_some(fd, result))
				;
			return;
		}
	}
}

/* Grandchildren come to us when their parents end (we are their subreaper): kill until none is
 * left. */
static void sweep(void)
{
	for (int i = 0; i < RUNNER_SWEEPS; i++) {
		auto_free pid_t *pids = NULL;
		size_t count = 0;
		bool found = false;
		if (proc_list(&pids, &count) < 0)
			return;
		for (size_t k = 0; k < count; k++) {
			pid_t parent;
			if (proc_parent(pids[k], &parent) < 0 || parent != getpid())
				continue;
			found = true;
			(void)kill(pids[k], SIGKILL); /* our child until we wait for it */
			(void)waitpid(pids[k], NULL, 0);
		}
		if (!found)
			return;
	}
}

int runner_run(const struct runner_spec *spec, struct runner_result *ret, struct err *err)
{
	int pipe_fds[2];
	*ret = (struct runner_result){0};
	buf_init(&ret->output, RUNNER_OUTPUT_MAX);
	auto_close int program = open_program(spec->argv[0], err);
	if (program < 0)
		return -1;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_sys(err, errno, "prepare to run %s", spec->argv[0]);
	uint64_t deadline = io_boot_ms() + MIN(spec->timeout_ms, (uint64_t)RUNNER_TIMEOUT_MOST_MS);
	pid_t pid = fork();
	if (pid == 0) {
		int r = become_program(spec, program, pipe_fds[1]);
		_exit(r == -ENOENT || r == -ENOEXEC ? 127 : 126);
	}
	close(pipe_fds[1]);
	if (pid < 0) {
		close(pipe_fds[0]);
		return err_sys(err, errno, "fork");
	}
	auto_close int pidfd = proc_pidfd_open(pid);
	if (io_set_nonblock(pipe_fds[0], true) == 0 && pidfd >= 0)
		collect(pipe_fds[0], pidfd, deadline, ret);
	close(pipe_fds[0]);
	int status = 0;
	(void)kill(pid, SIGKILL); /* does nothing to one that has ended and is not waited for */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sweep();
	ret->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	ret->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return 0;
}

void runner_done(struct runner_result *result)
{
	buf_done(&result->output);
}
