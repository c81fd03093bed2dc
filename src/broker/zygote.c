/*
 * Who: forked from the broker; root (or root of its user namespace) with its capabilities, because
 * keepers and workers are made from it. Bytes: messages of the broker only. Gone at the end:
 * nothing is held; a child closes what it does not need, above all the broker's lock.
 */
#include "broker/zygote.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/caps.h"
#include "os/proc.h"

enum { ZYGOTE_KEEP_MAX = 16 };

static NORETURN void run_child(const struct zygote_role *role, int sock, pid_t zygote,
                               struct wire_msg *msg)
{
	close(sock);
	signal(SIGCHLD, SIG_DFL);
	if (!role->outlives && proc_die_with(zygote) < 0)
		_exit(1);
	_exit(role->run(msg, role->ctx));
}

static NORETURN void serve(const struct zygote_role *role, int sock)
{
	uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	pid_t self = getpid();
	for (;;) {
		struct wire_msg msg;
		int r = wire_recv(sock, bytes, LIMIT_WIRE_BYTES, &msg);
		if (r == -EINTR)
			continue;
		if (r <= 0)
			_exit(r < 0);
		/* The child's answer socket closes with it, so a failed fork reads as end of file.
		 */
		pid_t pid = fork();
		if (pid == 0)
			run_child(role, sock, self, &msg);
		wire_msg_done(&msg);
	}
}

/* What the broker's loop set up must not reach keepers: signal mask, session, descriptors. */
static NORETURN void become_zygote(const struct zygote_role *role, int sock)
{
	int keep[ZYGOTE_KEEP_MAX + 4] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, sock};
	size_t count = 4;
	for (size_t i = 0; i < role->keep_count && i < ZYGOTE_KEEP_MAX; i++)
		if (role->keep[i] >= 0)
			keep[count++] = role->keep[i];
	if (caps_close_fds_except(keep, count) < 0)
		_exit(1);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGCHLD,
	       SIG_IGN); /* children are reaped by the kernel: nobody here waits for them */
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	(void)setsid(); /* a terminal's Ctrl-C is for the broker alone; fails only for a leader */
	(void)prctl(PR_SET_NAME, role->name, 0, 0, 0);
	/* What a dead keeper leaves comes here and is reaped by the kernel: collecting the last
	 * process of a sandbox takes milliseconds, which the broker's loop must not pay. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (role->warm)
		role->warm();
	serve(role, sock);
}

int zygote_start(struct zygote *zygote, const struct zygote_role *role, struct err *err)
{
	int pair[2];
	int r = wire_pair(pair);
	if (r < 0)
		return err_sys(err, -r, "make the socket of %s", role->name);
	pid_t pid = fork();
	if (pid == 0)
		become_zygote(role, pair[1]);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_sys(err, errno, "fork %s", role->name);
	}
	r = io_set_nonblock(pair[0], true);
	*zygote = (struct zygote){.role = role, .pid = pid, .sock = pair[0]};
	return r < 0 ? err_sys(err, -r, "prepare the socket of %s", role->name) : 0;
}

void zygote_stop(struct zygote *zygote)
{
	if (zygote->pid <= 0)
		return;
	fd_closep(&zygote->sock);
	/* It ends by itself at end of file; waiting keeps the order of an ending deterministic. */
	while (waitpid(zygote->pid, NULL, 0) < 0 && errno == EINTR)
		;
	zygote->pid = 0;
}

int zygote_send(struct zygote *zygote, const struct wire_out *out, struct err *err)
{
	int r = wire_send(zygote->sock, out);
	if (r == -EPIPE || r == -ECONNRESET) {
		log_warn("zygote died, starting another", LOG_STR("zygote", zygote->role->name));
		zygote_stop(zygote);
		if (zygote_start(zygote, zygote->role, err) < 0)
			return -1;
		r = wire_send(zygote->sock, out);
	}
	if (r == -EAGAIN)
		return err_set(err, ERR_LIMITED, "%s is busy", zygote->role->name);
	if (r < 0)
		return err_sys(err, -r, "ask %s", zygote->role->name);
	return 0;
}
