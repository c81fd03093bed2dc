/*
 * inject SOCKET PROGRAM ARGUMENTS...: runs PROGRAM in this process, under a seccomp filter that
 * asks a supervisor about the system calls of calls.def, in every process that comes of it. The
 * supervisor lets them pass until a rule, sent over SOCKET, names one: then that call fails, or the
 * process that makes it is killed instead. So every role can be hurt at every step, static and
 * confined ones too, without a line in the program under test.
 *
 * A request is one line, the answer another:
 *   fail ROLE CALL N ERRNO [forever]   the N-th matching call from now on fails, or all from it on
 *   kill ROLE CALL N [ROLE...]         instead of the N-th its process is killed, and all of the
 *                                      other roles with it
 *   strike ROLE CALL N ROLE...         before the N-th all of the other roles are killed
 *   clock SECONDS                      from now on the clock of the day is off by that
 * (step_clock.c) off                                no rule; answers "seen N hit H CALL" of the
 * last one ROLE is a process's name ("cloched", "cloche-keeper"; "worker" for a jailed cloched) or
 * "any"; CALL is a name of calls.def, "malloc" (fail_malloc.c), "step" for all that are no memory,
 * "descriptor" for those that make one, or "record" for what others rely on from then on: it is on
 * disk, or was said.
 *
 * The supervisor lives until the last process under the filter is gone: one that asked and got no
 * answer would see ENOSYS.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mark.h"

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

enum kind { STEP, DESCRIPTOR, MEMORY, RECORD };
enum {
	ALSO_MAX = 4,
	CLIENTS = 4,
	LINE_BYTES = 256,
	ASKERS = 4096,
	STAT_BYTES = 1024,
	DEATH_MS = 2000
};

static const struct call {
	const char *name;
	int number;
	enum kind kind;
} calls[] = {
#define CALL(name, kind) {#name, SYS_##name, kind},
#include "calls.def"
#undef CALL
	{"malloc", MARK_MALLOC, MEMORY},
	{"clock", MARK_CLOCK, MEMORY},
};

static long clock_off;

struct rule {
	bool is_set, kills, strikes, forever;
	char role[32];
	char call[32];
	unsigned long nth, seen, hits;
	const char *last; /* name of the call that was hit last */
	int error;
	char also[ALSO_MAX][32];
	size_t also_count;
};

static void fail(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	_exit(125);
}

/* --- the filter --- */

/* A list of comparisons, each jumping over the rest to the notification behind them. */
static int install(void)
{
	enum { HEAD = 4, COUNT = ARRAY_LEN(calls) };
	struct sock_filter code[HEAD + COUNT + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK_ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};

	for (size_t i = 0; i < COUNT; i++)
		code[HEAD + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
		                                              (uint32_t)calls[i].number,
		                                              (uint8_t)(COUNT - i), 0);
	code[HEAD + COUNT] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[HEAD + COUNT + 1] =
		(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
	                    &program);
}

/* --- who asks --- */

static size_t read_proc(pid_t pid, const char *name, char *to, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, to, size - 1);
	if (fd >= 0)
		close(fd);
	to[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static bool has_role(pid_t pid, const char *role)
{
	char name[32], line[128];

	if (strcmp(role, "any") == 0)
		return true;
	read_proc(pid, "comm", name, sizeof(name));
	name[strcspn(name, "\n")] = '\0';
	/* The writer thread of cloched and a jailed cloched have names of their own or the same. */
	size_t len = read_proc(pid, "cmdline", line, sizeof(line));
	const char *second = line + strlen(line) + 1;
	bool is_worker = strcmp(line, "cloched") == 0 && len > sizeof("cloched") &&
	                 strcmp(second, "worker") == 0;
	if (is_worker || strcmp(role, "worker") == 0)
		return is_worker && strcmp(role, "worker") == 0;
	return strcmp(name, role) == 0;
}

static const struct call *find_call(int number)
{
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

/* Everybody who ever asked: only these are ours to kill. The oldest go. */
static struct asker {
	pid_t pid;
	unsigned long long start;
} askers[ASKERS];
static size_t asker_count;

static unsigned long long start_time(pid_t pid)
{
	char text[STAT_BYTES];
	unsigned long long start = 0;

	read_proc(pid, "stat", text, sizeof(text));
	char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		start = strtoull(at, NULL, 10);
	return start;
}

static void remember(pid_t pid)
{
	for (size_t i = 0; i < asker_count && i < ASKERS; i++)
		if (askers[i].pid == pid)
			return;
	askers[asker_count++ % ASKERS] = (struct asker){pid, start_time(pid)};
}

/* Whoever asks may be a thread. */
static pid_t process_of(pid_t pid)
{
	char text[STAT_BYTES];

	read_proc(pid, "status", text, sizeof(text));
	char *at = strstr(text, "\nTgid:");
	return at ? (pid_t)strtol(at + sizeof("\nTgid:") - 1, NULL, 10) : pid;
}

/* Until it is gone, so that nobody who looks afterwards takes it for alive. */
static void kill_surely(pid_t pid)
{
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, process_of(pid), 0),
	                     .events = POLLIN};

	kill(pid, SIGKILL);
	if (end.fd < 0)
		return;
	(void)poll(&end, 1, DEATH_MS); /* one that hangs shows in what is checked then */
	close(end.fd);
}

static void kill_role(const char *role, pid_t but)
{
	for (size_t i = 0; i < asker_count && i < ASKERS; i++) {
		const struct asker *asker = &askers[i];

		if (asker->pid != but && has_role(asker->pid, role) && asker->start != 0 &&
		    start_time(asker->pid) == asker->start)
			kill_surely(asker->pid);
	}
}

/* --- answering --- */

static bool is_meant(const char *name, const struct call *call)
{
	if (strcmp(name, "step") == 0)
		return call->kind != MEMORY;
	if (strcmp(name, "descriptor") == 0)
		return call->kind == DESCRIPTOR;
	if (strcmp(name, "record") == 0)
		return call->kind == RECORD;
	return strcmp(name, call->name) == 0;
}

/* What cannot fail in reality: a wake-up between two threads, and a change or the removal of a
 * descriptor that epoll has. */
static bool cannot_fail(const struct seccomp_notif *asked)
{
	char path[64], target[32] = "";

	if (asked->data.nr == SYS_epoll_ctl)
		return asked->data.args[1] != EPOLL_CTL_ADD;
	snprintf(path, sizeof(path), "/proc/%u/fd/%d", asked->pid, (int)asked->data.args[0]);
	return asked->data.nr == SYS_write && readlink(path, target, sizeof(target) - 1) > 0 &&
	       strcmp(target, "anon_inode:[eventfd]") == 0;
}

static bool is_hit(struct rule *rule, const struct seccomp_notif *asked)
{
	const struct call *call = find_call(asked->data.nr);

	if (!rule->is_set || !call || !is_meant(rule->call, call))
		return false;
	if (!has_role((pid_t)asked->pid, rule->role) || (!rule->kills && cannot_fail(asked)))
		return false;
	if (++rule->seen < rule->nth || (rule->hits > 0 && !rule->forever))
		return false;
	rule->hits++;
	rule->last = call->name;
	return true;
}

static void answer(int listener, struct rule *rule)
{
	struct seccomp_notif asked = {0};
	struct seccomp_notif_resp reply = {0};

	/* ENOENT: it was killed while it asked. */
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
		return;
	reply.id = asked.id;
	if (asked.data.nr == MARK_CLOCK) {
		reply.val = MARK_CLOCK_ZERO + clock_off;
		(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
		return;
	}
	remember((pid_t)asked.pid);
	bool hit = is_hit(rule, &asked);
	for (size_t i = 0; hit && i < rule->also_count; i++)
		kill_role(rule->also[i], (pid_t)asked.pid);
	if (!hit || rule->strikes) {
		reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	} else if (rule->kills) {
		kill_surely((pid_t)asked.pid); /* there is nobody left to answer */
		return;
	} else {
		reply.error = -rule->error;
	}
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

/* --- rules --- */

static bool set_rule(struct rule *rule, char *line)
{
	char *save = NULL, *words[5 + ALSO_MAX] = {0};
	size_t count = 0;

	for (char *word = strtok_r(line, " \n", &save); word && count < ARRAY_LEN(words);
	     word = strtok_r(NULL, " \n", &save))
		words[count++] = word;
	if (count < 4)
		return false;
	*rule = (struct rule){.is_set = true,
	                      .kills = strcmp(words[0], "fail") != 0,
	                      .strikes = strcmp(words[0], "strike") == 0};
	snprintf(rule->role, sizeof(rule->role), "%s", words[1]);
	snprintf(rule->call, sizeof(rule->call), "%s", words[2]);
	rule->nth = strtoul(words[3], NULL, 10);
	if (rule->kills) {
		for (size_t i = 4; i < count && rule->also_count < ALSO_MAX; i++)
			snprintf(rule->also[rule->also_count++], sizeof(rule->also[0]), "%s",
			         words[i]);
		return true;
	}
	rule->error = count > 4 ? (int)strtol(words[4], NULL, 10) : EIO;
	rule->forever = count > 5;
	return true;
}

static void take_line(int client, char *line, struct rule *rule)
{
	char said[LINE_BYTES];

	if (strncmp(line, "off", 3) == 0) {
		snprintf(said, sizeof(said), "seen %lu hit %lu %s\n", rule->seen, rule->hits,
		         rule->last ? rule->last : "-");
		*rule = (struct rule){0};
	} else if (strncmp(line, "clock ", 6) == 0) {
		clock_off = strtol(line + 6, NULL, 10);
		snprintf(said, sizeof(said), "set\n");
	} else {
		snprintf(said, sizeof(said), "%s\n", set_rule(rule, line) ? "set" : "what?");
	}
	(void)!send(client, said, strlen(said), MSG_NOSIGNAL);
}

static void serve(int listener, int control)
{
	struct pollfd polled[2 + CLIENTS] = {{listener, POLLIN, 0}, {control, POLLIN, 0}};
	struct rule rule = {0};

	for (size_t i = 2; i < ARRAY_LEN(polled); i++)
		polled[i] = (struct pollfd){-1, POLLIN, 0};
	while (poll(polled, ARRAY_LEN(polled), -1) > 0 || errno == EINTR) {
		char line[LINE_BYTES];

		if (polled[0].revents & POLLIN)
			answer(listener, &rule);
		else if (polled[0].revents)
			return;
		for (size_t i = 2; i < ARRAY_LEN(polled); i++) {
			if (polled[i].fd < 0 && (polled[1].revents & POLLIN)) {
				polled[i].fd = accept4(control, NULL, NULL, SOCK_CLOEXEC);
				polled[i].revents = polled[1].revents = 0;
			}
			if (polled[i].fd < 0 || !polled[i].revents)
				continue;
			ssize_t n = recv(polled[i].fd, line, sizeof(line) - 1, 0);
			line[n > 0 ? n : 0] = '\0';
			if (n > 0) {
				take_line(polled[i].fd, line, &rule);
			} else {
				close(polled[i].fd);
				polled[i].fd = -1;
			}
		}
	}
}

/* --- start --- */

static int listen_on(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
		fail(path);
	memcpy(addr.sun_path, path, strlen(path));
	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, CLIENTS) < 0)
		fail(path);
	return fd;
}

/* ENOENT: it knows what it is asked, but not this question. */
static bool is_listener(int fd)
{
	uint64_t none = 0;

	return ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &none) < 0 && errno == ENOENT;
}

/* Takes the listener out of the process that is about to exec, since that one cannot send it: the
 * filter would ask us first. Then lets it go on. */
static void supervise(pid_t pid, int fd, int control, int go)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int listener = -1;

	(void)setsid();
	(void)prctl(PR_SET_NAME, "inject", 0, 0, 0);
	for (int i = 0; i < 25000; i++) {
		listener = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
		if (listener >= 0 && is_listener(listener))
			break;
		if (listener >= 0)
			close(listener);
		listener = -1;
		usleep(200);
	}
	if (listener < 0)
		fail("take the listener");
	close(pidfd);
	close(go);
	/* Whoever started us waits for the end of our output. */
	for (int i = 0; i < 3; i++)
		(void)dup2(open("/dev/null", O_RDWR), i);
	serve(listener, control);
}

int main(int argc, char **argv)
{
	int go[2], control, next;
	char byte;
	pid_t self = getpid();

	if (argc < 3)
		return 125;
	control = listen_on(argv[1]);
	if (pipe2(go, O_CLOEXEC) < 0)
		fail("pipe");
	/* The number that the listener is about to get: the lowest that is free by then. */
	next = go[1];
	pid_t pid = fork();
	if (pid == 0) {
		close(go[0]);
		if (fork() == 0)
			supervise(self, next, control, go[1]);
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
	close(go[1]);
	if (install() != next)
		fail("install the filter");
	(void)!read(go[0], &byte, 1); /* end of file: the supervisor has it */
	execv(argv[2], argv + 2);
	fail(argv[2]);
}
