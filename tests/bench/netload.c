/*
 * One end of a connection whose cost is measured: `netload serve ADDRESS PORT` answers, `netload
 * ping ADDRESS PORT COUNT` prints the microseconds from connect to the first byte of each of so
 * many connections, `netload bulk ADDRESS PORT BYTES` the gigabytes a second that arrive.
 * `netload relay LISTEN TO` passes connections to a port of this machine on to another by splice,
 * one at a time, for a redirect to lead to. `netload names ADDRESS RESULT` answers every question
 * for an address, `netload ask ADDRESS COUNT` prints the microseconds of each answer for
 * bench.test. `netload calls COUNT` prints the nanoseconds of two system calls, `netload stats PATH
 * COUNT` those of looking at what is there. The same program inside and outside a sandbox. Static;
 * needs libc only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 128 * 1024 };

static char block[BLOCK];

static double now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static struct sockaddr_in place(char **args)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)strtoul(args[1], NULL, 10))};
	if (inet_pton(AF_INET, args[0], &at.sin_addr) != 1)
		exit(2);
	return at;
}

/* A ping is one byte back; a bulk is a number of bytes back. */
static void answer(int fd)
{
	int now = 1;
	uint64_t left = 0;
	char kind;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
	if (read(fd, &kind, 1) != 1)
		return;
	if (kind == 'p') {
		(void)!write(fd, "x", 1);
		return;
	}
	if (read(fd, &left, sizeof(left)) != sizeof(left))
		return;
	while (left > 0) {
		ssize_t n = write(fd, block, left < BLOCK ? left : BLOCK);
		if (n <= 0)
			return;
		left -= (uint64_t)n;
	}
}

static int serve(char **args)
{
	struct sockaddr_in at = place(args);
	int on = 1;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 512) < 0)
		return 1;
	puts("ready");
	fflush(stdout);
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		answer(fd);
		close(fd);
	}
}

static int dial(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0) {
		perror("connect");
		exit(1);
	}
	return fd;
}

static int ping(char **args)
{
	struct sockaddr_in to = place(args);
	char byte;
	for (unsigned long left = strtoul(args[2], NULL, 10); left > 0; left--) {
		double start = now_us();
		int fd = dial(&to);
		if (write(fd, "p", 1) != 1 || read(fd, &byte, 1) != 1)
			return 1;
		printf("%.1f\n", now_us() - start);
		close(fd);
		usleep(2000);
	}
	return 0;
}

static int bulk(char **args)
{
	struct sockaddr_in to = place(args);
	uint64_t bytes = strtoull(args[2], NULL, 10), got = 0;
	int fd = dial(&to);
	if (write(fd, "b", 1) != 1 || write(fd, &bytes, sizeof(bytes)) != sizeof(bytes))
		return 1;
	double start = now_us();
	while (got < bytes) {
		ssize_t n = read(fd, block, BLOCK);
		if (n <= 0)
			return 1;
		got += (uint64_t)n;
	}
	printf("%.3f\n", (double)got / (now_us() - start) / 1e3);
	return 0;
}

/* --- a relay as plain as can be --- */

/* What is there, from one side to the other; false: one of them is done. */
static int pass(int from, int to, const int pipes[2])
{
	ssize_t n = splice(from, NULL, pipes[1], NULL, 1 << 20, SPLICE_F_MOVE);
	while (n > 0) {
		ssize_t out = splice(pipes[0], NULL, to, NULL, (size_t)n, SPLICE_F_MOVE);
		if (out <= 0)
			return 0;
		n -= out;
		if (n == 0)
			return 1;
	}
	return 0;
}

static int relay(char **args)
{
	char *any[] = {"0.0.0.0", args[0]}, *here[] = {"127.0.0.1", args[1]};
	struct sockaddr_in at = place(any), to = place(here);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, pipes[2];
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (pipe2(pipes, O_CLOEXEC) < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(listener, 512) < 0)
		return 1;
	fcntl(pipes[0], F_SETPIPE_SZ, 1 << 20);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int in = accept4(listener, NULL, NULL, SOCK_CLOEXEC), out = dial(&to), goes_on = 1;
		struct pollfd both[] = {{.fd = in, .events = POLLIN},
		                        {.fd = out, .events = POLLIN}};
		setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		while (goes_on && poll(both, 2, -1) > 0) {
			if (both[0].revents)
				goes_on = pass(in, out, pipes);
			if (goes_on && both[1].revents)
				goes_on = pass(out, in, pipes);
		}
		close(in);
		close(out);
	}
}

/* --- names --- */

static int names(char **args)
{
	char *where[] = {args[0], "53"};
	struct sockaddr_in at = place(where), from;
	struct in_addr result;
	unsigned char bytes[600];
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (inet_pton(AF_INET, args[1], &result) != 1 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return 1;
	puts("ready");
	fflush(stdout);
	for (;;) {
		static const unsigned char head[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0xe, 0x10, 0, 4};
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(fd, bytes, 512, 0, (struct sockaddr *)&from, &from_len);
		if (n < 17)
			continue;
		size_t len = 12;
		while (len < (size_t)n && bytes[len])
			len += bytes[len] + 1U;
		len += 5;
		int is_a = len <= (size_t)n && bytes[len - 3] == 1;
		bytes[2] = 0x81;
		bytes[3] = 0x80;
		memset(bytes + 6, 0, 6);
		bytes[7] = (unsigned char)is_a;
		if (is_a) {
			memcpy(bytes + len, head, sizeof(head));
			memcpy(bytes + len + sizeof(head), &result, 4);
			len += sizeof(head) + 4;
		}
		sendto(fd, bytes, len, 0, (struct sockaddr *)&from, from_len);
	}
}

static int ask(char **args)
{
	static const char question[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\5bench\4test\0\0\1\0\1";
	char *where[] = {args[0], "53"};
	struct sockaddr_in to = place(where);
	char bytes[600];
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return 1;
	for (unsigned long left = strtoul(args[1], NULL, 10); left > 0; left--) {
		double start = now_us();
		if (send(fd, question, sizeof(question) - 1, 0) < 0 ||
		    recv(fd, bytes, sizeof(bytes), 0) < 12 || bytes[7] != 1)
			return 1;
		printf("%.1f\n", now_us() - start);
		usleep(2000);
	}
	return 0;
}

/* Calls that touch no file system: what the filter of a sandbox costs, and nothing else. */
static int calls(char **args)
{
	unsigned long count = strtoul(args[0], NULL, 10);
	struct stat st;
	double start = now_us();
	for (unsigned long i = 0; i < count; i++) {
		(void)getppid();
		(void)!fstat(STDOUT_FILENO, &st);
	}
	printf("%.1f\n", (now_us() - start) * 1e3 / (double)count);
	return 0;
}

static int stats(char **args)
{
	unsigned long count = strtoul(args[1], NULL, 10);
	struct stat st;
	double start = now_us();
	for (unsigned long i = 0; i < count; i++) {
		if (stat(args[0], &st) < 0)
			return 1;
	}
	printf("%.1f\n", (now_us() - start) * 1e3 / (double)count);
	return 0;
}

static const struct {
	const char *name;
	int args;
	int (*run)(char **args);
} verbs[] = {{"serve", 2, serve}, {"ping", 3, ping}, {"bulk", 3, bulk},   {"relay", 2, relay},
             {"names", 2, names}, {"ask", 2, ask},   {"calls", 1, calls}, {"stats", 2, stats}};

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (argc == 2 + verbs[i].args && strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argv + 2);
	}
	return 2;
}
