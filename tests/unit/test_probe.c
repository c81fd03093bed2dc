/* The proof from inside must not be satisfied by anything but a refusal. */
#include "init/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "os/anyip.h"
#include "own_ns.h"

#define FORBIDDEN "169.254.169.254"
#define RESOLVER  "192.0.0.1"

enum behaviour { RESETS, ANSWERS, ENDS, SILENT };

static bool set_up(void)
{
	struct anyip own;
	bool has_v6;
	CHECK(addr_parse("192.0.0.2", &own.v4) && addr_parse("fd00:c10c:e::2", &own.v6));
	if (!own_ns(CLONE_NEWNET))
		return false;
	/* Without the filter every address leads to whoever listens here. */
	CHECK_INT(anyip_set_up(&own, &has_v6), 0);
	return true;
}

static int listen_on(int type, uint16_t port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
	/* A datagram's answer must come from where it was sent to. */
	if (type == SOCK_DGRAM)
		CHECK(inet_pton(AF_INET, RESOLVER, &any.sin_addr) == 1);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), on = 1;
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	CHECK(bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0);
	if (type == SOCK_STREAM)
		CHECK(listen(fd, 8) == 0);
	return fd;
}

static pid_t start_tcp(enum behaviour behaviour)
{
	int listener = listen_on(SOCK_STREAM, 80);
	pid_t pid = fork();
	while (pid == 0) {
		struct linger now = {.l_onoff = 1};
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (behaviour == RESETS)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		if (behaviour == ANSWERS)
			(void)!write(fd, "x", 1);
		if (behaviour != SILENT)
			close(fd);
	}
	close(listener);
	return pid;
}

/* Answers with this rcode; 16: not at all. */
static pid_t start_names(unsigned rcode)
{
	int sock = listen_on(SOCK_DGRAM, 53);
	pid_t pid = fork();
	while (pid == 0) {
		uint8_t bytes[512];
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(sock, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &len);
		bytes[2] = 0x81;
		bytes[3] = (uint8_t)(0x80 | rcode);
		if (n > 0 && rcode < 16)
			(void)!sendto(sock, bytes, (size_t)n, 0, (struct sockaddr *)&from, len);
	}
	close(sock);
	return pid;
}

static int probe(enum behaviour behaviour, unsigned rcode)
{
	struct err err = {0};
	pid_t servers[] = {start_tcp(behaviour), start_names(rcode)};
	int r = probe_run(FORBIDDEN, 80, "p1.cloche.invalid", RESOLVER, &err);
	for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
		kill(servers[i], SIGKILL);
		waitpid(servers[i], NULL, 0);
	}
	return r;
}

TEST(only_a_refusal_proves_it)
{
	if (!set_up())
		SKIP("no network namespace");
	CHECK_INT(probe(RESETS, 3), 0);
	CHECK_INT(probe(ANSWERS, 3), -1);
	CHECK_INT(probe(ENDS, 3), -1);
	CHECK_INT(probe(SILENT, 3), -1);
	CHECK_INT(probe(RESETS, 0), -1);
	CHECK_INT(probe(RESETS, 2), -1);
	CHECK_INT(probe(RESETS, 16), -1);
}

TEST(without_a_gateway_there_is_no_proof)
{
	struct err err = {0};
	if (!own_ns(CLONE_NEWNET))
		SKIP("no network namespace");
	CHECK_INT(probe_run(FORBIDDEN, 80, "p1.cloche.invalid", RESOLVER, &err), -1);
}
