/*
 * One end of a connection whose cost is measured: `netload serve ADDRESS PORT` answers, `netload
 * ping ADDRESS PORT COUNT` prints the microseconds from connect to the first byte of each of so
 * many connections, `netload bulk ADDRESS PORT BYTES` the gigabytes a second that arrive. The same
 * program inside and outside a sandbox. Static; needs libc only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve(argv + 2);
	if (argc == 5 && strcmp(argv[1], "ping") == 0)
		return ping(argv + 2);
	if (argc == 5 && strcmp(argv[1], "bulk") == 0)
		return bulk(argv + 2);
	return 2;
}
