/*
 * probe TOPIC [NAME=value...]: runs the attempts of one topic, prints a line for each
 * ("held E08 mount tmpfs: EPERM"), exits 0 when all held, 1 when one did not, 2 on bad usage.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

enum { ATTEMPT_SECONDS = 60 };

static const struct topic *const topics[] = {
	&topic_abi,     &topic_bombs,  &topic_devices, &topic_disk,      &topic_egress,
	&topic_files,   &topic_flood,  &topic_kernel,  &topic_privilege, &topic_processes,
	&topic_sockets, &topic_volume, &topic_web,
};

static char **arguments;

const char *probe_arg(const char *name)
{
	size_t len = strlen(name);
	for (char **arg = arguments; *arg; arg++)
		if (strncmp(*arg, name, len) == 0 && (*arg)[len] == '=')
			return *arg + len + 1;
	return NULL;
}

uint64_t probe_number(const char *name, uint64_t otherwise)
{
	const char *text = probe_arg(name);
	return text ? strtoull(text, NULL, 10) : otherwise;
}

struct verdict held(int err, const char *fmt, ...)
{
	struct verdict verdict = {.held = true, .err = err};
	va_list args;
	va_start(args, fmt);
	vsnprintf(verdict.detail, sizeof(verdict.detail), fmt, args);
	va_end(args);
	return verdict;
}

struct verdict broken(const char *fmt, ...)
{
	struct verdict verdict = {.held = false};
	va_list args;
	va_start(args, fmt);
	vsnprintf(verdict.detail, sizeof(verdict.detail), fmt, args);
	va_end(args);
	return verdict;
}

struct verdict refused_as(long result, const int *errnos)
{
	int err = errno;
	if (result >= 0)
		return broken("succeeded with %ld", result);
	for (; *errnos; errnos++)
		if (*errnos == err)
			return held(err, "refused");
	return broken("failed for another reason: %s", strerror(err));
}

struct verdict cannot_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		close(fd);
	return REFUSED(fd, ENOENT, EACCES, EPERM, EROFS, ENOTDIR, EISDIR, ENXIO, ELOOP);
}

void each_other_process(bool (*fn)(int pid, void *ctx), void *ctx)
{
	DIR *dir = opendir("/proc");
	if (!dir)
		return;
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		int pid = (int)strtol(entry->d_name, NULL, 10);
		if (pid > 0 && pid != getpid() && !fn(pid, ctx))
			break;
	}
	closedir(dir);
}

/* A child that ended by itself left its verdict in shared memory; a killed one is judged here. */
static struct verdict judge(const struct attempt *attempt, const struct verdict *told, int status)
{
	if (!WIFSIGNALED(status))
		return *told;
	int signal = WTERMSIG(status);
	if ((attempt->flags & KILLED_IS_HELD) && (signal == SIGSYS || signal == SIGSEGV))
		return held(0, "killed by %s", strsignal(signal));
	if ((attempt->flags & OOM_IS_HELD) && signal == SIGKILL)
		return held(0, "killed, the memory limit acted");
	return broken("died of signal %d (%s)", signal, strsignal(signal));
}

static struct verdict run_forked(const struct attempt *attempt, struct verdict *shared)
{
	*shared = broken("ended without a verdict");
	fflush(stdout);
	pid_t pid = fork();
	if (pid < 0)
		return broken("fork: %s", strerror(errno));
	if (pid == 0) {
		alarm(ATTEMPT_SECONDS);
		*shared = attempt->run();
		_exit(0);
	}
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return judge(attempt, shared, status);
}

static int run_topic(const struct topic *topic)
{
	struct verdict *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	const char *only = probe_arg("only");
	int failures = 0, runs = 0;
	for (size_t i = 0; i < topic->count; i++) {
		const struct attempt *attempt = &topic->attempts[i];
		if ((attempt->flags & NEEDS_ARG) && !probe_arg(attempt->arg))
			continue;
		if (only && strcmp(only, attempt->name) != 0 && strcmp(only, attempt->id) != 0)
			continue;
		struct verdict verdict = run_forked(attempt, shared);
		printf("%s %s %s: %s%s%s\n", verdict.held ? "held" : "BROKEN", attempt->id,
		       attempt->name, verdict.err ? strerrorname_np(verdict.err) : "",
		       verdict.err ? " " : "", verdict.detail);
		failures += !verdict.held;
		runs++;
	}
	printf("%s: %d attempts, %d broken\n", topic->name, runs, failures);
	return failures || !runs;
}

/* The number the kernel gives the first pid namespace: there, "process 1" is the machine's own. */
static bool is_on_the_host(void)
{
	char name[32] = "";
	return readlink("/proc/self/ns/pid", name, sizeof(name) - 1) > 0 &&
	       strcmp(name, "pid:[4026531836]") == 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (is_on_the_host()) {
		fprintf(stderr, "probe: this attacks what it runs in; start it inside a sandbox\n");
		return 2;
	}
	if (argc >= 2) {
		arguments = argv + 2;
		for (size_t i = 0; i < ATTEMPT_COUNT(topics); i++)
			if (strcmp(argv[1], topics[i]->name) == 0)
				return run_topic(topics[i]);
	}
	fprintf(stderr, "usage: probe TOPIC [NAME=value...]; topics:");
	for (size_t i = 0; i < ATTEMPT_COUNT(topics); i++)
		fprintf(stderr, " %s", topics[i]->name);
	fprintf(stderr, "\n");
	return 2;
}
