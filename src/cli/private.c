#include "cli/private.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/ask.h"
#include "cli/client.h"
#include "cli/place.h"

enum {
	READY_MS = 20000,
	POLL_MS = 2,
	END_MS = 10000,
	LOG_SHOWN = 4096,
	OWNED_MAX = 256,
};

void private_init(struct private_daemon *daemon)
{
	*daemon = (struct private_daemon){.pipe_fd = -1, .log_fd = -1};
}

static void pause_ms(long ms)
{
	const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	(void)nanosleep(&time, NULL); /* an early end is harmless: callers look at the clock */
}

/* --- the guardian --- */

struct guardian {
	const char *state_dir;
	bool is_temporary;
	int pipe_fd;
	pid_t serve;           /* 0: gone and reaped */
	char owned[OWNED_MAX]; /* id of the sandbox to remove with us */
};

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)remove(path); /* what stays makes the folder above stay: nothing else to do */
	return 0;
}

/* True when serve is gone, at the latest after ms. */
static bool wait_for_serve(struct guardian *guardian, uint64_t ms)
{
	uint64_t until = io_boot_ms() + ms;

	while (guardian->serve > 0) {
		if (waitpid(guardian->serve, NULL, WNOHANG) != 0) {
			guardian->serve = 0;
			break;
		}
		if (io_boot_ms() > until)
			return false;
		pause_ms(POLL_MS);
	}
	return true;
}

static void end_serve(struct guardian *guardian, int signal_number)
{
	if (guardian->serve > 0)
		(void)kill(guardian->serve, signal_number);
}

/* Removes our sandbox if we did not manage to. True when no other one of this directory lives: then
 * all of it may end, also what the daemon keeps ready for the next. */
static bool remove_owned(const struct guardian *guardian)
{
	struct cli cli = {.state_dir = (char *)guardian->state_dir};
	auto_free char *target = client_target("/sandboxes/%s?force=true", guardian->owned);
	auto_json json_t *page = NULL;

	http_init(&cli.http);
	cli.http.wait_ms = END_MS;
	/* Best effort: with the daemon gone the sandbox stays and `cloche stop` ends it. */
	if (guardian->owned[0] != '\0')
		(void)!client_json(&cli, "DELETE", target, NULL, NULL);
	int r = client_get(&cli, "/api/v1/sandboxes?state=creating,running,stopping", &page);

	http_close(&cli.http);
	return r == 0 && json_array_size(json_object_get(page, "items")) == 0;
}

static void clean_up(struct guardian *guardian)
{
	struct err ignored = {0};
	bool ends_all = guardian->is_temporary || remove_owned(guardian);

	/* When the broker does not answer, the signals below end it. */
	if (!ends_all || ask_stop_all(guardian->state_dir, guardian->is_temporary, &ignored) < 0 ||
	    !wait_for_serve(guardian, END_MS))
		end_serve(guardian, SIGTERM);
	if (!wait_for_serve(guardian, END_MS)) {
		end_serve(guardian, SIGKILL);
		(void)waitpid(guardian->serve, NULL, 0);
	}
	if (guardian->is_temporary)
		/* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
		(void)nftw(guardian->state_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* The sandbox's id, or "" when it is ours no more. */
static void take_line(struct guardian *guardian, const char *bytes, size_t len)
{
	const char *end = memchr(bytes, '\n', len);

	if (end == NULL || (size_t)(end - bytes) >= sizeof(guardian->owned))
		return;
	memcpy(guardian->owned, bytes, (size_t)(end - bytes));
	guardian->owned[end - bytes] = '\0';
}

static void watch(struct guardian *guardian)
{
	char bytes[OWNED_MAX];
	struct pollfd fds[2] = {
		{.fd = guardian->pipe_fd, .events = POLLIN},
		{.fd = (int)syscall(SYS_pidfd_open, guardian->serve, 0), .events = POLLIN}};

	for (;;) {
		if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents != 0)
			break; /* it failed: whoever waits for it sees us end */
		if (fds[0].revents == 0)
			continue;
		ssize_t len = read(guardian->pipe_fd, bytes, sizeof(bytes));

		if (len <= 0)
			break;
		take_line(guardian, bytes, (size_t)len);
	}
	(void)wait_for_serve(guardian, 0); /* reaps it if it is the one that ended */
	clean_up(guardian);
}

/* The terminal's descriptors stay with the user. */
static void redirect(int out_fd)
{
	auto_close int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)dup2(null_fd, STDIN_FILENO);
	(void)dup2(out_fd >= 0 ? out_fd : null_fd, STDOUT_FILENO);
	(void)dup2(out_fd >= 0 ? out_fd : null_fd, STDERR_FILENO);
}

static void reset_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	(void)pthread_sigmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
}

NORETURN static void exec_serve(const char *state_dir, int log_fd)
{
	redirect(log_fd);
	reset_signals();
	(void)execl("/proc/self/exe", "cloche", "serve", "--state", state_dir, "--listen", "none",
	            (char *)NULL);
	_exit(127);
}

NORETURN static void guard(struct guardian *guardian, int log_fd)
{
	(void)setsid(); /* the terminal's Ctrl-C is not for us */
	/* What ends us in order: the pipe. A stray SIGTERM must not leave a daemon behind. */
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	guardian->serve = fork();
	if (guardian->serve == 0) {
		(void)signal(SIGTERM, SIG_DFL);
		(void)signal(SIGINT, SIG_DFL);
		(void)signal(SIGHUP, SIG_DFL);
		exec_serve(guardian->state_dir, log_fd);
	}
	redirect(-1);
	(void)close(log_fd);
	if (guardian->serve > 0)
		watch(guardian);
	_exit(0);
}

/* --- our side --- */

/* What the daemon said last, one line, for the error. */
static int failed(struct private_daemon *daemon, struct cli *cli, const char *what)
{
	char text[LOG_SHOWN + 1];
	off_t size = lseek(daemon->log_fd, 0, SEEK_END);
	off_t from = size > LOG_SHOWN ? size - LOG_SHOWN : 0;
	ssize_t len = size < 0 ? 0 : pread(daemon->log_fd, text, LOG_SHOWN, from);

	text[MAX(len, 0)] = '\0';
	while (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	const char *line = strrchr(text, '\n');

	line = line == NULL ? text : line + 1;
	return err_set(&cli->err, ERR_UNAVAILABLE, "%s%s%s", what, *line == '\0' ? "" : ": ", line);
}

static int wait_ready(struct private_daemon *daemon, struct cli *cli)
{
	uint64_t until = io_boot_ms() + READY_MS;

	while (client_connect(cli) < 0) {
		if (waitpid(daemon->guardian, NULL, WNOHANG) != 0) {
			daemon->guardian = 0;
			return failed(daemon, cli, "the private daemon ended at once");
		}
		if (io_boot_ms() > until)
			return failed(daemon, cli, "the private daemon does not answer");
		struct pollfd pollfd = {.fd = cli->interrupt_fd, .events = POLLIN};

		if (poll(&pollfd, 1, POLL_MS) > 0) {
			err_set(&cli->err, ERR_UNAVAILABLE, "interrupted");
			cli->err.sys = ECANCELED;
			return -1;
		}
	}
	/* The broker listens before the daemon serves: the first answer tells. */
	cli->http.wait_ms = READY_MS;
	int r = client_get(cli, "/api/v1/health", NULL);

	cli->http.wait_ms = -1;
	if (r < 0)
		return cli->err.sys == ECANCELED
		               ? -1
		               : failed(daemon, cli, "the private daemon does not serve");
	cli->err = (struct err){0};
	return 0;
}

static int make_temporary(struct cli *cli)
{
	const char *base = place_env("TMPDIR");
	auto_free char *path =
		mem_printf("%s/cloche-XXXXXX", base != NULL && *base == '/' ? base : "/tmp");

	if (mkdtemp(path) == NULL)
		return err_sys(&cli->err, errno, "make a temporary state directory");
	free(cli->state_dir);
	cli->state_dir = take_ptr(path);
	return 0;
}

int private_start(struct private_daemon *daemon, struct cli *cli)
{
	struct guardian guardian = {.is_temporary = cli->state == NULL};
	int pipe_fds[2];

	cli->err = (struct err){0};
	daemon->log_fd = memfd_create("cloche-serve", MFD_CLOEXEC);
	if (daemon->log_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_sys(&cli->err, errno, "start a private daemon");
	guardian.pipe_fd = pipe_fds[0];
	daemon->pipe_fd = pipe_fds[1];
	if (guardian.is_temporary && make_temporary(cli) < 0) {
		(void)close(pipe_fds[0]);
		return -1;
	}
	guardian.state_dir = cli->state_dir;
	(void)fflush(NULL); /* nothing buffered may be written twice */
	daemon->guardian = fork();
	if (daemon->guardian == 0) {
		(void)close(pipe_fds[1]);
		guard(&guardian, daemon->log_fd);
	}
	int sys = errno;

	(void)close(pipe_fds[0]);
	if (daemon->guardian < 0) {
		daemon->guardian = 0;
		return err_sys(&cli->err, sys, "start a private daemon");
	}
	return wait_ready(daemon, cli);
}

void private_owns(struct private_daemon *daemon, const char *sandbox)
{
	auto_free char *line = mem_printf("%s\n", sandbox);

	if (daemon->pipe_fd >= 0)
		/* A guardian that is gone has cleaned up already. */
		(void)!io_write_all(daemon->pipe_fd, line, strlen(line));
}

void private_end(struct private_daemon *daemon)
{
	fd_closep(&daemon->pipe_fd);
	fd_closep(&daemon->log_fd);
	if (daemon->guardian > 0)
		(void)waitpid(daemon->guardian, NULL, 0);
	daemon->guardian = 0;
}
