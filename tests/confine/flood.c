/*
 * X: wearing the gateway out, and questions and connections of the odd kinds. Arguments as for
 * egress.c; also patient=1 for those that take seconds. After each the allowed name must still be
 * reached: a wall that falls closed for good has been broken, too.
 */
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "dial.h"
#include "probe.h"

enum {
	HALF_OPEN = 3000,
	SLOW_CLIENTS = 300,
	QUESTIONS = 20000,
	PATIENCE_S = 30,
	HELLO_NAME_MOST = 60,
};

/* The allowed server speaks on port 22 as soon as it is reached. */
static bool is_reached(void)
{
	char byte;
	int fd = to_allowed(22);
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	bool is_good = fd >= 0 && poll(&ready, 1, PATIENCE_MS) == 1 && recv(fd, &byte, 1, 0) == 1;
	if (fd >= 0)
		close(fd);
	return is_good;
}

static struct verdict still_works(const char *what)
{
	time_t until = time(NULL) + PATIENCE_S;
	while (time(NULL) < until) {
		if (is_reached())
			return held(0, "%s; it works on", what);
		usleep(100 * 1000);
	}
	return broken("%s; the allowed name is not reached any more", what);
}

static void allow_many_files(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit); /* as many as we may have */
	}
}

/* --- connections --- */

/* As many as can be had, each having said `say`; how many are open in the end. */
static unsigned open_many(const struct place *place, unsigned most, const char *say, int *fds)
{
	unsigned open = 0;
	for (unsigned i = 0; i < most; i++) {
		int fd =
			socket(place->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			break;
		int r = connect(fd, &place->any, place->len);
		struct pollfd ready = {.fd = fd, .events = POLLOUT};
		if ((r < 0 && errno != EINPROGRESS) || poll(&ready, 1, 100) != 1 ||
		    (say && send(fd, say, strlen(say), MSG_NOSIGNAL) < 0)) {
			close(fd);
			continue;
		}
		fds[open++] = fd;
	}
	return open;
}

static struct verdict wear_out(const char *address, unsigned port, unsigned most, const char *say)
{
	int *fds = calloc(most, sizeof(*fds));
	struct place place = at(address, port);
	allow_many_files();
	if (!fds || !is_led_there())
		return broken("the allowed name does not resolve");
	unsigned open = open_many(&place, most, say, fds), whole = 0;
	char what[80];
	/* One that is told to wait must be told something sooner or later, so none is answered. */
	for (unsigned i = 0; i < open; i++) {
		char byte;
		whole += recv(fds[i], &byte, 1, MSG_DONTWAIT) > 0;
		close(fds[i]);
	}
	free(fds);
	snprintf(what, sizeof(what), "%u of %u were open, %u answered", open, most, whole);
	return still_works(what);
}

static struct verdict half_open_tls(void)
{
	return wear_out(probe_arg("address"), 443, HALF_OPEN, NULL);
}

static struct verdict half_a_hello(void)
{
	return wear_out(probe_arg("address"), 443, HALF_OPEN, "\x16\x03\x01");
}

static struct verdict half_a_request(void)
{
	return wear_out(probe_arg("address"), 80, HALF_OPEN, "GET / HTTP/1.1\r\nHost: exam");
}

static struct verdict denied_many(void)
{
	return wear_out(probe_arg("other"), 443, HALF_OPEN, NULL);
}

static struct verdict slow_service(void)
{
	return wear_out("192.0.0.1", 80, SLOW_CLIENTS, "GET / HTTP/1.1\r\nHost: echo.cloche.int");
}

static struct verdict slow_names(void)
{
	return wear_out("9.9.9.9", 53, SLOW_CLIENTS, "\x01");
}

/* Refused calls that are told wait for their turn; whoever makes them at the highest rate is slow,
 * and nobody else. Some are killed while they wait. */
static struct verdict refused_calls(void)
{
	enum { CALLERS = 8, CALLS = 60 };
	pid_t callers[CALLERS], killed = fork();
	if (killed == 0) {
		for (;;)
			(void)!socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	}
	for (int i = 0; i < CALLERS; i++) {
		callers[i] = fork();
		for (int k = 0; callers[i] == 0 && k < CALLS; k++) {
			if (socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ||
			    errno != EAFNOSUPPORT)
				_exit(1);
		}
		if (callers[i] == 0)
			_exit(0);
	}
	struct verdict verdict = still_works("refused all the time");
	kill(killed, SIGKILL);
	waitpid(killed, NULL, 0);
	for (int i = 0; i < CALLERS; i++) {
		int status = -1;
		waitpid(callers[i], &status, 0);
		if (status != 0)
			return broken("a caller got another answer: %d", status);
	}
	return verdict;
}

/* While they are held: who knocks then is answered, or refused, and never left standing. */
static struct verdict full_house(void)
{
	int *fds = calloc(HALF_OPEN, sizeof(*fds));
	struct place place = at(probe_arg("address"), 443);
	allow_many_files();
	if (!fds || !is_led_there())
		return broken("the allowed name does not resolve");
	unsigned open = open_many(&place, HALF_OPEN, "\x16", fds);
	for (int i = 0; i < 20; i++) {
		char byte;
		int fd = to_allowed(22);
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		if (fd < 0)
			continue; /* refused */
		if (poll(&ready, 1, 10 * PATIENCE_MS) != 1)
			return broken("with %u open, one more is left standing", open);
		(void)!recv(fd, &byte, 1, MSG_DONTWAIT); /* an answer or a reset: both are words */
		close(fd);
	}
	for (unsigned i = 0; i < open; i++)
		close(fds[i]);
	free(fds);
	return still_works("nobody was left standing");
}

/* --- names --- */

static struct verdict many_questions(void)
{
	struct place place = at("192.0.0.1", 53);
	int fd = open_to(&place, SOCK_DGRAM);
	for (unsigned i = 0; i < QUESTIONS; i++) {
		unsigned char bytes[600];
		char name[80];
		snprintf(name, sizeof(name), "n%u.%u.unlisted.test", i, i * 2654435761U);
		size_t len = question(name, i % 3 ? 1 : 16, bytes);
		(void)!sendto(fd, bytes, len, MSG_DONTWAIT, &place.any, place.len);
	}
	close(fd);
	return still_works("a flood of questions");
}

/* Over TCP: the prefix of the length, then the question. */
static int ask_tcp(const char *server, const char *name, unsigned type, int *ret_answers)
{
	unsigned char bytes[1500];
	struct place place = at(server, 53);
	int fd = open_to(&place, SOCK_STREAM);
	size_t len = question(name, type, bytes + 2), got = 0;
	bytes[0] = (unsigned char)(len >> 8);
	bytes[1] = (unsigned char)len;
	if (connect(fd, &place.any, place.len) < 0 ||
	    send(fd, bytes, len + 2, MSG_NOSIGNAL) != (ssize_t)(len + 2)) {
		close(fd);
		return -1;
	}
	while (got < 14) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		ssize_t n = poll(&ready, 1, PATIENCE_MS) == 1
		                    ? recv(fd, bytes + got, sizeof(bytes) - got, 0)
		                    : 0;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(fd);
	if (got < 14)
		return -1;
	*ret_answers = bytes[8] << 8 | bytes[9];
	return bytes[5] & 15;
}

static struct verdict names_over_tcp(void)
{
	static const char *const servers[] = {"192.0.0.1", "8.8.8.8", "2001:4860:4860::8888"};
	for (size_t i = 0; i < ATTEMPT_COUNT(servers); i++) {
		int answers = 0;
		int rcode = ask_tcp(servers[i], probe_arg("unlisted"), 1, &answers);
		if (rcode != NXDOMAIN || answers != 0)
			return broken("%s: rcode %d, %d answers", servers[i], rcode, answers);
		rcode = ask_tcp(servers[i], probe_arg("name"), 1, &answers);
		if (rcode != 0 || answers == 0)
			return broken("%s: the allowed name: rcode %d", servers[i], rcode);
	}
	return held(0, "answered by the gateway, whoever was asked");
}

/* Pointers that lead in circles, labels without end, names too long, two questions, answers. */
static struct verdict broken_questions(void)
{
	static const struct {
		unsigned char bytes[40];
		size_t len;
	} all[] = {
		{{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}, 18},
		{{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0xc0, 12, 0, 1, 0, 1}, 20},
		{{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 14, 0xc0, 12, 0, 1, 0, 1}, 20},
		{{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 63, 'a', 'b'}, 15},
		{{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80, 'a', 0, 0, 1, 0, 1}, 19},
		{{0x12, 0x34, 1, 0, 0, 2, 0, 0,   0, 0, 0, 0, 1,
	          'a',  0,    0, 1, 0, 1, 1, 'b', 0, 0, 1, 0, 1},
	         26},
		{{0x12, 0x34, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1}, 19},
		{{0x12, 0x34, 0x28, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 6, 0, 1}, 19},
		{{0x12, 0x34, 1, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 1, 0, 1}, 17},
	};
	struct place place = at("192.0.0.1", 53);
	for (size_t i = 0; i < ATTEMPT_COUNT(all); i++) {
		unsigned char answer[600];
		int fd = open_to(&place, SOCK_DGRAM);
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		(void)!sendto(fd, all[i].bytes, all[i].len, 0, &place.any, place.len);
		ssize_t n =
			poll(&ready, 1, QUIET_MS) == 1 ? recv(fd, answer, sizeof(answer), 0) : 0;
		close(fd);
		if (n >= 12 && ((answer[3] & 15) == 0 || (answer[6] << 8 | answer[7]) > 0))
			return broken("%zu: answered", i + 1);
	}
	return still_works("errors or silence");
}

/* X01: numbers that some take for addresses are no names here. */
static struct verdict numbers_as_names(void)
{
	static const char *const names[] = {"1572395043",    "0x5db8d823",  "0135.0270.0330.043",
	                                    "93.184.216.35", "93.12114979", "127.1"};
	for (size_t i = 0; i < ATTEMPT_COUNT(names); i++) {
		int answers = 0;
		int rcode = ask("192.0.0.1", names[i], 1, &answers);
		struct place place = at(probe_arg("other"), 80);
		if (rcode != NXDOMAIN || answers != 0)
			return broken("%s: rcode %d, %d answers", names[i], rcode, answers);
		if (inet_aton(names[i], &place.v4.sin_addr) == 0 || i == 5)
			continue;
		int fd = open_to(&place, SOCK_STREAM);
		if (connect(fd, &place.any, place.len) == 0) {
			struct verdict verdict = unanswered(fd, SOCK_STREAM);
			if (!verdict.held)
				return broken("%s: %s", names[i], verdict.detail);
		}
		close(fd);
	}
	return held(0, "no names, and refused as addresses");
}

/* X05: an allowed name that leads over one that is denied, or whose answer is broken. */
static struct verdict leads_nowhere(const char *name)
{
	int answers = 0;
	int rcode = ask("192.0.0.1", name, 1, &answers);
	return rcode == 0 && answers > 0 ? broken("%s: %d answers", name, answers)
	                                 : held(0, "rcode %d", rcode);
}

static struct verdict alias_of_denied(void)
{
	return leads_nowhere(probe_arg("alias"));
}

static struct verdict broken_answer(void)
{
	struct verdict verdict = leads_nowhere(probe_arg("circle"));
	return verdict.held ? still_works("no answer") : verdict;
}

/* --- sockets of the odd kinds --- */

static struct verdict one_option(int family, int level, int option, const void *value,
                                 socklen_t len)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return REFUSED(setsockopt(fd, level, option, value, len), EPERM, EACCES, ENOPROTOOPT,
	               ENODEV, EINVAL);
}

/* By name or number, one that is there or not. */
static struct verdict bound_to_device(void)
{
	static const char *const names[] = {"eth0", "lo"};
	static const uint32_t numbers[] = {9, 1};
	for (size_t i = 0; i < ATTEMPT_COUNT(names); i++) {
		uint32_t number = numbers[i], wire = htonl(numbers[i]);
		const struct verdict verdicts[] = {
			one_option(AF_INET, SOL_SOCKET, SO_BINDTODEVICE, names[i],
		                   (socklen_t)strlen(names[i]) + 1),
			one_option(AF_INET, SOL_SOCKET, 62 /* SO_BINDTOIFINDEX */, &number,
		                   sizeof(number)),
			one_option(AF_INET, IPPROTO_IP, 50 /* IP_UNICAST_IF */, &wire,
		                   sizeof(wire)),
			one_option(AF_INET6, IPPROTO_IPV6, 76 /* IPV6_UNICAST_IF */, &wire,
		                   sizeof(wire)),
		};
		for (size_t k = 0; k < ATTEMPT_COUNT(verdicts); k++) {
			if (!verdicts[k].held || verdicts[k].err != EPERM)
				return broken("%s, %zu: %s", names[i], k + 1, verdicts[k].detail);
		}
	}
	return held(EPERM, "refused");
}

static struct verdict routing_header(void)
{
	static const unsigned char header[24] = {0, 2, 0, 1};
	return one_option(AF_INET6, IPPROTO_IPV6, IPV6_RTHDR, header, sizeof(header));
}

/* On the only device there is, and from an address that is not ours. */
static struct verdict on_loopback(void)
{
	struct place to = at(probe_arg("other"), 80);
	int fd = open_to(&to, SOCK_STREAM), on = 1;
	(void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3);
	(void)setsockopt(fd, SOL_IP, IP_FREEBIND, &on, sizeof(on));
	if (connect(fd, &to.any, to.len) < 0 ||
	    send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) < 0)
		return held(errno, "refused");
	return unanswered(fd, SOCK_STREAM);
}

/* A datagram whose ancillary data names another source; one that is cut into many. */
static struct verdict odd_datagrams(void)
{
	struct place to = at(probe_arg("other"), 443);
	static char bytes[60000];
	int segment = 1000, discover = IP_PMTUDISC_PROBE;
	char control[CMSG_SPACE(sizeof(struct in_pktinfo))] = {0};
	struct iovec part = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_name = &to.any,
	                     .msg_namelen = to.len,
	                     .msg_iov = &part,
	                     .msg_iovlen = 1,
	                     .msg_control = control,
	                     .msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	struct in_pktinfo info = {.ipi_spec_dst = {htonl(0x08080808)}};
	head->cmsg_level = IPPROTO_IP;
	head->cmsg_type = IP_PKTINFO;
	head->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(head), &info, sizeof(info));
	for (int i = 0; i < 3; i++) {
		int fd = open_to(&to, SOCK_DGRAM);
		(void)setsockopt(fd, SOL_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
		if (i == 1)
			(void)setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
		msg.msg_control = i == 2 ? NULL : control;
		msg.msg_controllen = i == 2 ? 0 : sizeof(control);
		if (sendmsg(fd, &msg, 0) >= 0) {
			struct verdict verdict = unanswered(fd, SOCK_DGRAM);
			if (!verdict.held)
				return verdict;
		}
		close(fd);
	}
	return held(0, "refused or silence");
}

/* Connected to one and sent to another; AF_UNSPEC in between. */
static struct verdict datagram_elsewhere(void)
{
	struct place good = at("192.0.0.1", 53), bad = at(probe_arg("other"), 9999);
	struct sockaddr nothing = {.sa_family = AF_UNSPEC};
	int fd = open_to(&good, SOCK_DGRAM);
	if (connect(fd, &good.any, good.len) < 0)
		return broken("the resolver: %s", strerror(errno));
	if (sendto(fd, "x", 1, 0, &bad.any, bad.len) >= 0) {
		struct verdict verdict = unanswered(fd, SOCK_DGRAM);
		if (!verdict.held)
			return verdict;
	}
	if (connect(fd, &nothing, sizeof(nothing)) < 0 || connect(fd, &bad.any, bad.len) < 0 ||
	    send(fd, "x", 1, 0) < 0)
		return held(errno, "refused");
	return unanswered(fd, SOCK_DGRAM);
}

/* --- X10, X11: hellos in crumbs, heads without end --- */

/* A hello of one extension in handshake records of `crumb` bytes each. */
static size_t put_crumbs(unsigned char *out, const char *name, size_t crumb)
{
	unsigned char hello[200] = {1, 0, 0};
	size_t n = strlen(name), len = 4, size = 0;
	const unsigned char extension[] = {0,
	                                   (unsigned char)(n + 9),
	                                   0,
	                                   0,
	                                   0,
	                                   (unsigned char)(n + 5),
	                                   0,
	                                   (unsigned char)(n + 3),
	                                   0,
	                                   0,
	                                   (unsigned char)n};
	hello[len++] = 3;
	hello[len++] = 3;
	memset(hello + len, 7, 32);
	len += 32;
	memcpy(hello + len, "\0\0\2\x13\1\1\0", 7);
	len += 7;
	memcpy(hello + len, extension, sizeof(extension));
	len += sizeof(extension);
	memcpy(hello + len, name, n);
	len += n;
	hello[3] = (unsigned char)(len - 4);
	for (size_t i = 0; i < len; i += crumb) {
		size_t here = len - i < crumb ? len - i : crumb;
		const unsigned char head[] = {22, 3, 1, 0, (unsigned char)here};
		memcpy(out + size, head, sizeof(head));
		memcpy(out + size + sizeof(head), hello + i, here);
		size += sizeof(head) + here;
	}
	return size;
}

static struct verdict crumbs_of(const char *name, bool is_allowed)
{
	static const size_t sizes[] = {1, 2, 3, 7, 40};
	if (strlen(name) > HELLO_NAME_MOST)
		return broken("the name is too long for this");
	for (size_t i = 0; i < ATTEMPT_COUNT(sizes); i++) {
		unsigned char bytes[2000];
		size_t len = put_crumbs(bytes, name, sizes[i]);
		int fd = to_allowed(443), now = 1;
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		if (fd < 0)
			return broken("the allowed address: %s", strerror(errno));
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
		for (size_t k = 0; k < len; k += 50)
			(void)!send(fd, bytes + k, len - k < 50 ? len - k : 50, MSG_NOSIGNAL);
		int n = poll(&ready, 1, PATIENCE_MS);
		ssize_t got = n == 1 ? recv(fd, bytes, 1, 0) : -1;
		close(fd);
		if (n != 1)
			return broken("records of %zu: left standing", sizes[i]);
		if (!is_allowed && got >= 0)
			return broken("records of %zu: got through", sizes[i]);
	}
	return held(0, "%zu ways to cut it", ATTEMPT_COUNT(sizes));
}

static struct verdict crumbs_of_other(void)
{
	return crumbs_of(probe_arg("unlisted"), false);
}

static struct verdict crumbs_of_allowed(void)
{
	return crumbs_of(probe_arg("name"), true);
}

/* A head that does not end is cut, not kept. */
static struct verdict endless_head(void)
{
	int fd = to_allowed(80);
	char line[1000];
	if (fd < 0)
		return broken("the allowed address: %s", strerror(errno));
	memset(line, 'a', sizeof(line));
	memcpy(line, "X: ", 3);
	memcpy(line + sizeof(line) - 2, "\r\n", 2);
	(void)!send(fd, "GET / HTTP/1.1\r\nHost: example.test\r\n", 36, MSG_NOSIGNAL);
	for (int i = 0; i < 2000; i++) {
		if (send(fd, line, sizeof(line), MSG_NOSIGNAL) < 0)
			return held(errno, "cut after %d kB", i);
	}
	return unanswered(fd, SOCK_STREAM);
}

static const struct attempt attempts[] = {
	{"X01", "numbers as names", numbers_as_names, NEEDS_ARG, "other"},
	{"X03", "bound to a device", bound_to_device, 0, NULL},
	{"X03", "on the only device", on_loopback, NEEDS_ARG, "other"},
	{"X03", "odd datagrams", odd_datagrams, NEEDS_ARG, "other"},
	{"X03", "a datagram elsewhere", datagram_elsewhere, NEEDS_ARG, "other"},
	{"X04", "names over TCP", names_over_tcp, NEEDS_ARG, "unlisted"},
	{"X05", "broken questions", broken_questions, NEEDS_ARG, "address"},
	{"X05", "an alias of a denied name", alias_of_denied, NEEDS_ARG, "alias"},
	{"X05", "an answer in circles", broken_answer, NEEDS_ARG, "circle"},
	{"X05", "a flood of questions", many_questions, NEEDS_ARG, "address"},
	{"X10", "another's hello in crumbs", crumbs_of_other, NEEDS_ARG, "unlisted"},
	{"X10", "a hello in crumbs works", crumbs_of_allowed, NEEDS_ARG, "name"},
	{"X11", "a head without end", endless_head, NEEDS_ARG, "address"},
	{"X17", "routing header", routing_header, 0, NULL},
	{"X20", "connections that say nothing", half_open_tls, NEEDS_ARG, "patient"},
	{"X20", "half a hello each", half_a_hello, NEEDS_ARG, "patient"},
	{"X20", "half a request each", half_a_request, NEEDS_ARG, "patient"},
	{"X20", "many that are denied", denied_many, NEEDS_ARG, "patient"},
	{"X20", "half a call of a service each", slow_service, NEEDS_ARG, "patient"},
	{"X20", "half a question each", slow_names, NEEDS_ARG, "patient"},
	{"X20", "calls that are refused", refused_calls, NEEDS_ARG, "patient"},
	{"X20", "one more in a full house", full_house, NEEDS_ARG, "patient"},
};

const struct topic topic_flood = {"flood", attempts, ATTEMPT_COUNT(attempts)};
