/*
 * Who: a child made for one run; root (or root of a user namespace) until the program starts.
 * Capabilities: SETUID, SETGID, SETPCAP, and SYS_ADMIN to hide a folder, until they are dropped.
 * Bytes: the program's output, kept as it is. Gone before the program runs: capabilities, other
 * descriptors, the environment; at the end: everything it left running.
 *
 * With something to hide the program is not our child but that of process 1 of a pid namespace:
 * with the processes of others in sight, /proc/PID/root would lead around what is mounted over the
 * folder, for a program that has the user of those processes.
 */
#include "broker/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "os/caps.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/proc.h"
#include "os/syscalls.h"

enum { RUNNER_SWEEPS = 100, RUNNER_CHUNK = 16 * 1024, RUNNER_PROCESSES = 512 };

/* What the program's side says when it is over, or could not begin. */
struct verdict {
	int failed; /* an errno; 0: it was begun */
	int status; /* as waitpid tells it */
};

/* Descriptors between us and it. */
struct pipes {
	int in; /* what it reads; -1: nothing */
	int out[2], errors[2], verdict[2];
};

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

static void limit(int what, rlim_t most)
{
	struct rlimit now;
	if (getrlimit(what, &now) < 0)
		return;
	most = MIN(most, now.rlim_max);
	now = (struct rlimit){most, most};
	(void)setrlimit(what, &now); /* lowering one's own is always allowed */
}

static void limit_all(const struct runner_spec *spec)
{
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, 256);
	limit(RLIMIT_FSIZE, (rlim_t)1 << 30);
	limit(RLIMIT_DATA, (rlim_t)2 << 30);
	limit(RLIMIT_CPU, spec->timeout_ms / 1000 + 1);
	/* Processes are counted for a user: one that has others would be stopped by those. */
	if (spec->change_user)
		limit(RLIMIT_NPROC, RUNNER_PROCESSES);
}

/* Only comes back on failure. A script is opened by its name again, so its fd stays open for it. */
static int become_program(const struct runner_spec *spec, int program, const struct pipes *pipes)
{
	char *env[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin", (char *)"LANG=C.UTF-8", NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(pipes->in >= 0 ? pipes->in : null, STDIN_FILENO) < 0 ||
	    dup2(pipes->out[1], STDOUT_FILENO) < 0 ||
	    dup2(pipes->errors[1] >= 0 ? pipes->errors[1] : pipes->out[1], STDERR_FILENO) < 0)
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
	limit_all(spec);
	if (r == 0)
		r = drop_privileges(spec);
	if (r < 0)
		return r;
	(void)sys_execve_fd(keep_program, spec->argv, env);
	return -errno;
}

static void start_program(const struct runner_spec *spec, int program, const struct pipes *pipes)
{
	int r = become_program(spec, program, pipes);
	_exit(r == -ENOENT || r == -ENOEXEC ? 127 : 126);
}

/* In a mount namespace of our own: nothing at the folder, no process but those to come. */
static int hide(const char *folder)
{
	auto_close int cover = -1, proc = -1;
	auto_close int target = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int old_proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (target < 0 || old_proc < 0)
		return -errno;
	int r = mount_make_private();
	if (r == 0)
		r = mount_new("tmpfs", "none", "size=4k,mode=0",
		              MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, &cover);
	if (r == 0)
		r = mount_attach_fd(cover, target);
	if (r == 0)
		r = mount_new("proc", "proc", "", MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, &proc);
	return r < 0 ? r : mount_attach_fd(proc, old_proc);
}

/* Process 1 of its namespace: all of it ends with us. */
static void be_first(const struct runner_spec *spec, int program, const struct pipes *pipes)
{
	struct verdict verdict = {.failed = -hide(spec->hidden)};
	pid_t pid = verdict.failed ? -1 : fork();
	if (pid == 0)
		start_program(spec, program, pipes);
	if (pid < 0 && !verdict.failed)
		verdict.failed = errno;
	for (pid_t ended = 0; pid > 0 && ended != pid;) {
		ended = waitpid(-1, &verdict.status, 0);
		if (ended < 0 && errno != EINTR)
			break;
	}
	(void)!write(pipes->verdict[1], &verdict, sizeof(verdict)); /* a pipe takes that much */
	_exit(0);
}

/* One read of what is there. False at the end of file or when nothing is there. */
static bool take_some(int fd, struct buf *to, bool *is_cut)
{
	uint8_t chunk[RUNNER_CHUNK];
	ssize_t len = read(fd, chunk, sizeof(chunk));
	if (len <= 0)
		return false;
	size_t fits = MIN((size_t)len, buf_room(to));
	/* The rest is read and dropped, so that the program goes on. */
	if (buf_put(to, chunk, fits) < 0 || fits < (size_t)len)
		*is_cut = true;
	return true;
}

/* Until the program has ended and what it wrote is read, or the deadline. */
static void collect(const struct pipes *pipes, int pidfd, uint64_t deadline_ms,
                    struct runner_result *result)
{
	struct buf *bufs[] = {&result->output, &result->errors};
	struct pollfd p[] = {{.fd = pipes->out[0], .events = POLLIN},
	                     {.fd = pipes->errors[0], .events = POLLIN},
	                     {.fd = pidfd, .events = POLLIN}};
	for (;;) {
		uint64_t now = io_boot_ms();
		int r = now >= deadline_ms ? 0 : poll(p, ARRAY_LEN(p), (int)(deadline_ms - now));
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0) {
			result->timed_out = true;
			return;
		}
		for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
			if (p[i].fd >= 0 && p[i].revents &&
			    !take_some(p[i].fd, bufs[i], &result->is_cut))
				p[i].fd = -1; /* closed by the program, which may go on */
		if (!p[2].revents)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
			while (p[i].fd >= 0 && take_some(p[i].fd, bufs[i], &result->is_cut))
				;
		return;
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

static void pipes_done(struct pipes *pipes)
{
	fd_closep(&pipes->in);
	for (int i = 0; i < 2; i++) {
		fd_closep(&pipes->out[i]);
		fd_closep(&pipes->errors[i]);
		fd_closep(&pipes->verdict[i]);
	}
}

/* A file in memory: whoever reads it need not be fed. */
static int input_file(const struct runner_spec *spec, int *ret_fd)
{
	auto_close int fd = memfd_create("input", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = io_write_all(fd, spec->input, spec->input_len);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int pipes_open(struct pipes *pipes, const struct runner_spec *spec)
{
	*pipes = (struct pipes){-1, {-1, -1}, {-1, -1}, {-1, -1}};
	if (spec->input) {
		int r = input_file(spec, &pipes->in);
		if (r < 0)
			return r;
	}
	if (pipe2(pipes->out, O_CLOEXEC) < 0 || pipe2(pipes->verdict, O_CLOEXEC) < 0 ||
	    (spec->splits && pipe2(pipes->errors, O_CLOEXEC) < 0))
		return -errno;
	int r = io_set_nonblock(pipes->out[0], true);
	if (r == 0 && spec->splits)
		r = io_set_nonblock(pipes->errors[0], true);
	return r;
}

static pid_t start_side(const struct runner_spec *spec, int program, const struct pipes *pipes)
{
	if (!spec->hidden) {
		pid_t pid = fork();
		if (pid == 0)
			start_program(spec, program, pipes);
		return pid < 0 ? -errno : pid;
	}
	pid_t pid = ns_clone(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC, -1, NULL);
	if (pid == 0)
		be_first(spec, program, pipes);
	return pid;
}

/* How it ended. Without a word of process 1 it was killed with it. */
static int take_verdict(const struct runner_spec *spec, const struct pipes *pipes, int status,
                        struct runner_result *ret, struct err *err)
{
	struct verdict verdict = {.status = status};
	if (spec->hidden && io_set_nonblock(pipes->verdict[0], true) == 0 &&
	    read(pipes->verdict[0], &verdict, sizeof(verdict)) == (ssize_t)sizeof(verdict) &&
	    verdict.failed)
		return err_sys(err, verdict.failed, "hide %s from a program", spec->hidden);
	ret->exit_code = WIFEXITED(verdict.status) ? WEXITSTATUS(verdict.status) : 0;
	ret->signal = WIFSIGNALED(verdict.status) ? WTERMSIG(verdict.status) : 0;
	return 0;
}

static int run_with(const struct runner_spec *spec, int program, struct pipes *pipes,
                    struct runner_result *ret, struct err *err)
{
	uint64_t deadline = io_boot_ms() + MIN(spec->timeout_ms, (uint64_t)RUNNER_TIMEOUT_MOST_MS);
	pid_t pid = start_side(spec, program, pipes);
	if (pid < 0)
		return err_sys(err, -pid, "start %s", spec->argv[0]);
	fd_closep(&pipes->out[1]);
	fd_closep(&pipes->errors[1]);
	fd_closep(&pipes->verdict[1]);
	auto_close int pidfd = proc_pidfd_open(pid);
	if (pidfd >= 0)
		collect(pipes, pidfd, deadline, ret);
	int status = 0;
	(void)kill(pid, SIGKILL); /* does nothing to one that has ended and is not waited for */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sweep();
	return take_verdict(spec, pipes, status, ret, err);
}

int runner_run(const struct runner_spec *spec, struct runner_result *ret, struct err *err)
{
	struct pipes pipes;
	*ret = (struct runner_result){0};
	buf_init(&ret->output, RUNNER_OUTPUT_MAX);
	buf_init(&ret->errors, RUNNER_OUTPUT_MAX);
	auto_close int program = open_program(spec->argv[0], err);
	if (program < 0)
		return -1;
	int r = pipes_open(&pipes, spec);
	if (r == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		r = -errno;
	if (r < 0)
		(void)err_sys(err, -r, "prepare to run %s", spec->argv[0]); /* always -1 */
	else
		r = run_with(spec, program, &pipes, ret, err);
	pipes_done(&pipes);
	return r < 0 ? -1 : 0;
}

void runner_done(struct runner_result *result)
{
	buf_done(&result->output);
	buf_done(&result->errors);
}
