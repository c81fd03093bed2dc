#include "agent/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"

enum {
	HEAD_MOST = 20 * 1000, /* of its output, the beginning … */
	TAIL_MOST = 10 * 1000, /* … and the end */
	LOOK_MS = 200,         /* between two looks whether the turn is cancelled */
	LINGER_MS = 200,       /* for output of what it left behind */
};

struct output {
	char head[HEAD_MOST], tail[TAIL_MOST];
	size_t head_len, tail_len;
	uint64_t all;
};

static void take(struct output *output, const char *bytes, size_t len)
{
	size_t first = MIN(len, (size_t)HEAD_MOST - output->head_len);

	output->all += len;
	memcpy(output->head + output->head_len, bytes, first);
	output->head_len += first;
	bytes += first;
	len -= first;
	if (len > TAIL_MOST) {
		bytes += len - TAIL_MOST;
		len = TAIL_MOST;
	}
	if (output->tail_len + len > TAIL_MOST) {
		size_t drop = output->tail_len + len - TAIL_MOST;

		memmove(output->tail, output->tail + drop, output->tail_len - drop);
		output->tail_len -= drop;
	}
	memcpy(output->tail + output->tail_len, bytes, len);
	output->tail_len += len;
}

static void put_output(const struct output *output, struct buf *answer)
{
	uint64_t left = output->all - output->head_len - output->tail_len;

	(void)!buf_put(answer, output->head, output->head_len);
	if (left > 0)
		(void)!buf_printf(answer, "\n… %llu bytes left out …\n", (unsigned long long)left);
	(void)!buf_put(answer, output->tail, output->tail_len);
}

static NORETURN void be_command(const struct command *command, int out)
{
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)setpgid(0, 0); /* fails only when it is done already */
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(out, STDERR_FILENO) < 0 || chdir(command->cwd) < 0)
		_exit(126);
	execl("/bin/sh", "sh", "-c", command->line, (char *)NULL);
	_exit(127);
}

/* Reads what there is; false at its end. */
static bool drain(int fd, struct output *output)
{
	char bytes[16 * 1024];
	ssize_t got;

	while ((got = read(fd, bytes, sizeof(bytes))) > 0)
		take(output, bytes, (size_t)got);
	return got < 0 && (errno == EAGAIN || errno == EINTR);
}

enum ending { EXITED, LATE, CANCELLED };

/* Until it ended: output that comes after that is what it left behind. */
static enum ending watch(const struct command *command, pid_t pid, int fd, struct output *output,
                         int *ret_status)
{
	uint64_t due = io_boot_ms() + command->timeout_ms;
	bool is_open = true;

	for (;;) {
		struct pollfd fds[2] = {{.fd = is_open ? fd : -1, .events = POLLIN},
		                        {.fd = command->watch_fd, .events = POLLIN}};

		if (waitpid(pid, ret_status, WNOHANG) == pid)
			break;
		/* With its output closed only the clock tells of its end. */
		(void)poll(fds, ARRAY_LEN(fds), is_open ? LOOK_MS : 2);
		if (is_open && fds[0].revents)
			is_open = drain(fd, output);
		if (fds[1].revents && command->is_cancelled(command->ctx))
			return CANCELLED;
		if (io_boot_ms() >= due)
			return LATE;
	}
	while (is_open && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) > 0)
		is_open = drain(fd, output);
	return EXITED;
}

static void end_group(pid_t pid, int *ret_status)
{
	(void)kill(-pid, SIGTERM);
	for (int i = 0; i < LINGER_MS / 10; i++) {
		if (waitpid(pid, ret_status, WNOHANG) == pid)
			break;
		(void)poll(NULL, 0, 10);
	}
	(void)kill(-pid, SIGKILL);
	(void)waitpid(pid, ret_status, 0); /* ECHILD when it is gone already */
}

static int put_end(const struct command *command, enum ending ending, int status,
                   struct buf *answer)
{
	if (ending == LATE)
		(void)!buf_printf(answer, "\n(ended after %llu s: it took too long)",
		                  (unsigned long long)(command->timeout_ms / 1000));
	else if (ending == CANCELLED)
		(void)!buf_puts(answer, "\n(ended: the turn was cancelled)");
	else if (WIFSIGNALED(status))
		(void)!buf_printf(answer, "\n(ended by signal %d)", WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		(void)!buf_printf(answer, "\n(exit status %d)", WEXITSTATUS(status));
	else if (buf_len(answer) == 0)
		(void)!buf_puts(answer, "(no output)");
	return ending == EXITED && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int command_run(const struct command *command, struct buf *answer)
{
	auto_free struct output *output = mem_new(struct output);
	enum ending ending;
	int pipe_fds[2];
	int status = 0;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		(void)!buf_printf(answer, "error: start a command: %s", strerror(errno));
		return -1;
	}
	if (pid == 0)
		be_command(command, pipe_fds[1]);
	fd_closep(&pipe_fds[1]);
	(void)setpgid(pid, pid); /* whoever comes first */
	if (io_set_nonblock(pipe_fds[0], true) < 0)
		ending = LATE;
	else
		ending = watch(command, pid, pipe_fds[0], output, &status);
	if (ending != EXITED)
		end_group(pid, &status);
	fd_closep(&pipe_fds[0]);
	put_output(output, answer);
	return put_end(command, ending, status, answer);
}
