/*
 * X: ways around a network policy, tried under one that allows a single name. Arguments:
 * name=HOST (allowed), address=IPv4 (where it leads), other=IPv4 and other6=IPv6 (not allowed, but
 * answering), unlisted=HOST. The driver sees every packet that leaves the machine's namespace; here
 * an attempt holds when nobody answers it.
 */
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "dial.h"
#include "probe.h"

enum { RACES = 20000 };

static struct verdict try_stream(const char *address, unsigned port, const char *say)
{
	struct place place = at(address, port);
	int fd = open_to(&place, SOCK_STREAM);
	if (fd < 0 || connect(fd, &place.any, place.len) < 0)
		return held(errno, "refused");
	bool is_sent = !say || send(fd, say, strlen(say), MSG_NOSIGNAL) >= 0;
	struct verdict verdict = is_sent ? unanswered(fd, SOCK_STREAM) : held(errno, "refused");
	close(fd);
	return verdict;
}

#define GET "GET / HTTP/1.1\r\nHost: example.test\r\n\r\n"

static struct verdict all_streams(const char *const *addresses, size_t count, unsigned port)
{
	for (size_t i = 0; i < count; i++) {
		struct verdict verdict = try_stream(addresses[i], port, GET);
		if (!verdict.held)
			return broken("%s: %s", addresses[i], verdict.detail);
	}
	return held(0, "%zu addresses", count);
}

/* --- X01, X02 --- */

static struct verdict unlisted_addresses(void)
{
	const char *const addresses[] = {probe_arg("other"), probe_arg("other6"),
	                                 "8.8.8.8",          "::ffff:8.8.8.8",
	                                 "64:ff9b::808:808", "2002:808:808::1"};
	return all_streams(addresses, ATTEMPT_COUNT(addresses), 80);
}

static struct verdict special_addresses(void)
{
	static const char *const addresses[] = {
		"169.254.169.254",
		"fd00:ec2::254",
		"10.0.0.5",
		"172.16.0.1",
		"192.168.0.1",
		"100.64.0.1",
		"100.100.100.200",
		"224.0.0.1",
		"255.255.255.255",
		"240.0.0.1",
		"0.0.0.0",
		"198.18.0.1",
		"192.0.2.1",
		"fe80::1",
		"ff02::1",
		"::",
		"::ffff:169.254.169.254",
		"64:ff9b::a9fe:a9fe",
		"2002:a9fe:a9fe::1",
	};
	return all_streams(addresses, ATTEMPT_COUNT(addresses), 80);
}

static struct verdict every_port(void)
{
	static const unsigned ports[] = {1,    21,   25,   53,   110,  143,  445,  853,  993,
	                                 3128, 3306, 5432, 6379, 8080, 8443, 9999, 65535};
	for (size_t i = 0; i < ATTEMPT_COUNT(ports); i++) {
		struct verdict verdict = try_stream(probe_arg("other"), ports[i], GET);
		if (!verdict.held && ports[i] != 53) /* which waits for a question */
			return broken("port %u: %s", ports[i], verdict.detail);
	}
	return held(0, "%zu ports", ATTEMPT_COUNT(ports));
}

/* X08: an address that is allowed, but that no name led this process to. */
static struct verdict never_resolved(void)
{
	return try_stream(probe_arg("address"), 443, GET);
}

/* --- X03 --- */

static struct verdict fast_open(void)
{
	struct place place = at(probe_arg("other"), 80);
	int fd = open_to(&place, SOCK_STREAM);
	ssize_t n = sendto(fd, GET, sizeof(GET) - 1, MSG_FASTOPEN | MSG_NOSIGNAL, &place.any,
	                   place.len);
	if (n < 0)
		return held(errno, "refused");
	return unanswered(fd, SOCK_STREAM);
}

static struct verdict datagram(const char *address, unsigned port)
{
	struct place place = at(address, port);
	int fd = open_to(&place, SOCK_DGRAM);
	if (sendto(fd, "x", 1, 0, &place.any, place.len) < 0)
		return held(errno, "refused");
	struct verdict verdict = unanswered(fd, SOCK_DGRAM);
	close(fd);
	return verdict;
}

static struct verdict datagrams(void)
{
	static const unsigned ports[] = {9999, 443, 123, 5353, 5355, 4500, 853, 8853, 51820};
	const char *const addresses[] = {probe_arg("address"), probe_arg("other"),
	                                 probe_arg("other6")};
	for (size_t a = 0; a < ATTEMPT_COUNT(addresses); a++) {
		for (size_t i = 0; i < ATTEMPT_COUNT(ports); i++) {
			struct verdict verdict = datagram(addresses[a], ports[i]);
			if (!verdict.held)
				return broken("%s port %u: %s", addresses[a], ports[i],
				              verdict.detail);
		}
	}
	return held(0, "silence or refusals");
}

/* A connected socket hears of the refusal at once. */
static struct verdict datagram_error(void)
{
	struct place place = at(probe_arg("other"), 9999);
	int fd = open_to(&place, SOCK_DGRAM);
	char byte;
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	if (connect(fd, &place.any, place.len) < 0 || send(fd, "x", 1, 0) < 0)
		return held(errno, "refused");
	if (poll(&ready, 1, PATIENCE_MS) != 1)
		return broken("nothing says that it was refused");
	return recv(fd, &byte, 1, 0) < 0 ? held(errno, "refused") : broken("answered");
}

static struct verdict many_messages(void)
{
	struct place place = at(probe_arg("other"), 9999);
	int fd = open_to(&place, SOCK_DGRAM);
	struct iovec part = {.iov_base = "x", .iov_len = 1};
	struct mmsghdr messages[8];
	memset(messages, 0, sizeof(messages));
	for (size_t i = 0; i < ATTEMPT_COUNT(messages); i++)
		messages[i].msg_hdr = (struct msghdr){.msg_name = &place.any,
		                                      .msg_namelen = place.len,
		                                      .msg_iov = &part,
		                                      .msg_iovlen = 1};
	if (sendmmsg(fd, messages, ATTEMPT_COUNT(messages), 0) < 0)
		return held(errno, "refused");
	return unanswered(fd, SOCK_DGRAM);
}

/* --- X02: groups, everybody, and links --- */

/* With the loopback interface as its link, where the address needs one. */
static struct place on_link(const char *address, unsigned port, unsigned link)
{
	struct place place = at(address, port);
	if (place.any.sa_family == AF_INET6)
		place.v6.sin6_scope_id = link;
	return place;
}

/* Sent as it is, from an address of its own, and on a connected socket: an error of the call. */
static struct verdict group_datagram(const struct place *to, const char *from)
{
	int fd = open_to(to, SOCK_DGRAM), on = 1;
	struct place source = at(from, 0);
	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	struct verdict verdict = REFUSED(sendto(fd, "x", 1, 0, &to->any, to->len), EPERM);
	if (verdict.held && connect(fd, &to->any, to->len) == 0)
		verdict = REFUSED(send(fd, "x", 1, 0), EPERM);
	close(fd);
	fd = open_to(to, SOCK_DGRAM);
	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	if (verdict.held && bind(fd, &source.any, source.len) == 0)
		verdict = REFUSED(sendto(fd, "x", 1, 0, &to->any, to->len), EPERM);
	close(fd);
	return verdict;
}

static struct verdict multicast(void)
{
	const struct {
		struct place to;
		const char *from;
	} all[] = {
		{at("224.0.0.251", 5353), "192.0.0.2"},
		{at("224.0.0.252", 5355), "127.0.0.1"},
		{at("239.255.255.250", 1900), "192.0.0.2"},
		{on_link("ff02::fb", 5353, 1), "fd00:c10c:e::2"},
		{on_link("ff05::2", 9999, 0), "::1"},
		{on_link("ff0e::1", 53, 0), "fd00:c10c:e::2"},
	};
	for (size_t i = 0; i < ATTEMPT_COUNT(all); i++) {
		struct verdict verdict = group_datagram(&all[i].to, all[i].from);
		if (!verdict.held)
			return broken("%zu: %s", i + 1, verdict.detail);
	}
	return held(EPERM, "refused at once");
}

static struct verdict broadcast(void)
{
	struct place to = at("255.255.255.255", 67);
	return group_datagram(&to, "192.0.0.2");
}

/* What no kernel takes, wherever it runs: the call fails before there is a packet. */
static struct verdict impossible_groups(void)
{
	const struct place streams[] = {at("224.0.0.1", 80), at("255.255.255.255", 80),
	                                on_link("ff02::1", 80, 1)};
	for (size_t i = 0; i < ATTEMPT_COUNT(streams); i++) {
		int fd = open_to(&streams[i], SOCK_STREAM);
		struct verdict verdict =
			REFUSED(connect(fd, &streams[i].any, streams[i].len), ENETUNREACH);
		close(fd);
		if (!verdict.held)
			return broken("stream %zu: %s", i + 1, verdict.detail);
	}
	struct place all = at("255.255.255.255", 9999); /* without SO_BROADCAST */
	return REFUSED(sendto(open_to(&all, SOCK_DGRAM), "x", 1, 0, &all.any, all.len), EACCES);
}

/* The link named beside a datagram (IP_PKTINFO). */
static struct verdict beside_a_datagram(void)
{
	struct place to = at(probe_arg("other"), 9999);
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
	struct iovec part = {.iov_base = "x", .iov_len = 1};
	bool is_v4 = to.any.sa_family == AF_INET;
	struct in_pktinfo info = {.ipi_ifindex = 9};
	struct in6_pktinfo info6 = {.ipi6_ifindex = 9};
	struct msghdr msg = {.msg_name = &to.any,
	                     .msg_namelen = to.len,
	                     .msg_iov = &part,
	                     .msg_iovlen = 1,
	                     .msg_control = control,
	                     .msg_controllen =
	                             is_v4 ? CMSG_SPACE(sizeof(info)) : CMSG_SPACE(sizeof(info6))};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	head->cmsg_level = is_v4 ? IPPROTO_IP : IPPROTO_IPV6;
	head->cmsg_type = is_v4 ? IP_PKTINFO : IPV6_PKTINFO;
	head->cmsg_len = is_v4 ? CMSG_LEN(sizeof(info)) : CMSG_LEN(sizeof(info6));
	if (is_v4)
		memcpy(CMSG_DATA(head), &info, sizeof(info));
	else
		memcpy(CMSG_DATA(head), &info6, sizeof(info6));
	return REFUSED(sendmsg(open_to(&to, SOCK_DGRAM), &msg, 0), ENODEV, ENETUNREACH);
}

/* A link there is none of: in the address, or beside the datagram. */
static struct verdict missing_links(void)
{
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
	static const unsigned links[] = {0, 2, 9, 0x7fffffff};
	for (size_t i = 0; i < ATTEMPT_COUNT(types) * ATTEMPT_COUNT(links); i++) {
		struct place to = on_link("fe80::1", 80, links[i / 2]);
		int fd = open_to(&to, types[i % 2]);
		if (links[i / 2] == 0 && types[i % 2] == SOCK_DGRAM)
			continue; /* it goes to the only one there is */
		struct verdict verdict = REFUSED(connect(fd, &to.any, to.len), EINVAL, ENODEV,
		                                 ENETUNREACH, EHOSTUNREACH);
		close(fd);
		if (!verdict.held)
			return broken("link %u: %s", links[i / 2], verdict.detail);
	}
	return beside_a_datagram();
}

/* The only link there is leads to the gateway, as everything does. */
static struct verdict only_link(void)
{
	struct place to = on_link("fe80::1", 80, 1);
	int fd = open_to(&to, SOCK_STREAM);
	if (connect(fd, &to.any, to.len) < 0)
		return broken("it is not told: %s", strerror(errno));
	bool is_sent = send(fd, GET, sizeof(GET) - 1, MSG_NOSIGNAL) >= 0;
	return is_sent ? unanswered(fd, SOCK_STREAM) : held(errno, "refused");
}

static struct verdict ring(void)
{
	struct io_uring_params params = {0};
	return REFUSED(syscall(SYS_io_uring_setup, 4, &params), ENOSYS, EPERM);
}

static struct verdict ping_socket(void)
{
	return REFUSED(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP), EACCES, EPERM,
	               EPROTONOSUPPORT);
}

/* --- X04, X05 --- */

static struct verdict unlisted_names(void)
{
	static const unsigned types[] = {1, 28, 16, 10, 255, 33, 12, 5, 65, 15, 2, 6, 35, 48};
	static const char *const servers[] = {"192.0.0.1", "8.8.8.8", "1.1.1.1",
	                                      "2001:4860:4860::8888"};
	for (size_t s = 0; s < ATTEMPT_COUNT(servers); s++) {
		for (size_t i = 0; i < ATTEMPT_COUNT(types); i++) {
			int answers = 0;
			int rcode = ask(servers[s], probe_arg("unlisted"), types[i], &answers);
			if (rcode != NXDOMAIN || answers != 0)
				return broken("type %u at %s: rcode %d, %d answers", types[i],
				              servers[s], rcode, answers);
		}
	}
	return held(0, "no such name");
}

/* Other types of an allowed name have no answer either: they could carry anything. */
static struct verdict other_types(void)
{
	static const unsigned types[] = {16, 10, 255, 33, 12, 5, 65, 64, 15, 2};
	for (size_t i = 0; i < ATTEMPT_COUNT(types); i++) {
		int answers = 0;
		int rcode = ask("192.0.0.1", probe_arg("name"), types[i], &answers);
		if (rcode != 0 || answers != 0)
			return broken("type %u: rcode %d, %d answers", types[i], rcode, answers);
	}
	return held(0, "no answers");
}

static struct verdict odd_questions(void)
{
	struct place place = at("192.0.0.1", 53);
	int fd = open_to(&place, SOCK_DGRAM);
	unsigned char bytes[600];
	for (size_t i = 0; i < 2000; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (unsigned char)(i * 31 + k * (i + 7));
		(void)!sendto(fd, bytes, i % sizeof(bytes), MSG_DONTWAIT, &place.any, place.len);
	}
	int answers = 0, rcode = -1;
	for (int i = 0; i < 5 && rcode < 0; i++) /* one may be lost among the others */
		rcode = ask("192.0.0.1", probe_arg("name"), 1, &answers);
	return rcode == 0 && answers > 0 ? held(0, "it answers on") : broken("rcode %d", rcode);
}

/* --- X17 --- */

static struct verdict socket_option(int level, int option)
{
	int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return REFUSED(setsockopt(fd, level, option, &on, sizeof(on)), EPERM, EACCES, ENOPROTOOPT);
}

static struct verdict transparent(void)
{
	return socket_option(SOL_IP, IP_TRANSPARENT);
}

static struct verdict mark(void)
{
	return socket_option(SOL_SOCKET, SO_MARK);
}

/* Bound to an address that is not the sandbox's own: refused like any other, and at once. */
static struct verdict from_elsewhere(const char *source, const char *address, int type)
{
	struct place from = at(source, 0), to = at(address, 80);
	int fd = open_to(&to, type);
	struct timeval soon = {.tv_sec = PATIENCE_MS / 1000};
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char byte;
	int on = 1;
	if (to.any.sa_family == AF_INET6)
		setsockopt(fd, SOL_IPV6, IPV6_FREEBIND, &on, sizeof(on));
	if (bind(fd, &from.any, from.len) < 0)
		return broken("bind to %s: %s", source, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
	if (connect(fd, &to.any, to.len) < 0) {
		/* The refusal may be here before we are told that there was a connection. */
		if (errno != ECONNRESET)
			return broken("from %s: %s", source, strerror(errno));
		close(fd);
		return held(ECONNRESET, "refused at once");
	}
	bool is_sent = send(fd, GET, sizeof(GET) - 1, MSG_NOSIGNAL) >= 0;
	if (is_sent && poll(&ready, 1, PATIENCE_MS) != 1)
		return broken("from %s: nothing says that it was refused", source);
	if (is_sent && recv(fd, &byte, 1, MSG_DONTWAIT) >= 0)
		return broken("from %s: answered", source);
	close(fd);
	return held(0, "refused at once");
}

static struct verdict spoofed_source(void)
{
	const struct {
		const char *source, *address;
	} ways[] = {{"8.8.4.4", probe_arg("address")},
	            {"127.0.0.1", probe_arg("address")},
	            {"2001:4860:4860::8844", probe_arg("other6")},
	            {"::1", probe_arg("other6")}};
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
	for (size_t i = 0; i < ATTEMPT_COUNT(ways) * ATTEMPT_COUNT(types); i++) {
		if (at(ways[i / 2].source, 0).len != at(ways[i / 2].address, 0).len)
			continue; /* of the other family this time */
		struct verdict verdict =
			from_elsewhere(ways[i / 2].source, ways[i / 2].address, types[i % 2]);
		if (!verdict.held)
			return verdict;
	}
	return held(0, "refused at once");
}

/* Loose source routing towards somewhere else. */
static struct verdict source_route(void)
{
	unsigned char options[] = {IPOPT_NOP, IPOPT_LSRR, 7, 4, 10, 0, 0, 5};
	struct place to = at(probe_arg("other"), 80);
	int fd = open_to(&to, SOCK_STREAM);
	struct timeval soon = {.tv_sec = 1};
	if (setsockopt(fd, SOL_IP, IP_OPTIONS, options, sizeof(options)) < 0)
		return held(errno, "refused");
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
	if (connect(fd, &to.any, to.len) < 0)
		return held(errno, "refused");
	if (send(fd, GET, sizeof(GET) - 1, MSG_NOSIGNAL) < 0)
		return held(errno, "refused");
	return unanswered(fd, SOCK_STREAM);
}

/* The gateway's own listener, taken away from it or talked to directly. */
static struct verdict steal_gateway(void)
{
	struct place place = at("192.0.0.1", 1);
	int fd = open_to(&place, SOCK_STREAM), on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	return REFUSED(bind(fd, &place.any, place.len), EADDRINUSE, EACCES, EPERM);
}

static struct verdict talk_to_gateway(void)
{
	return try_stream("192.0.0.1", 1, GET);
}

/* A socket that is connected and then connected anew. */
static struct verdict reconnect(void)
{
	struct place good = at(probe_arg("address"), 80), bad = at(probe_arg("other"), 80);
	int fd = open_to(&good, SOCK_STREAM);
	struct sockaddr nothing = {.sa_family = AF_UNSPEC};
	if (!is_led_there())
		return broken("the allowed name does not resolve");
	if (connect(fd, &good.any, good.len) < 0 || send(fd, GET, sizeof(GET) - 1, 0) < 0)
		return broken("the allowed address: %s", strerror(errno));
	if (connect(fd, &nothing, sizeof(nothing)) < 0 || connect(fd, &bad.any, bad.len) < 0)
		return held(errno, "refused");
	if (send(fd, GET, sizeof(GET) - 1, MSG_NOSIGNAL) < 0)
		return held(errno, "refused");
	return unanswered(fd, SOCK_STREAM);
}

/* --- E16 --- */

struct moving {
	struct place now, good, bad;
	atomic_bool is_over;
};

static void *keep_moving(void *arg)
{
	struct moving *moving = arg;
	while (!atomic_load_explicit(&moving->is_over, memory_order_relaxed)) {
		*(volatile struct place *)&moving->now = moving->bad;
		*(volatile struct place *)&moving->now = moving->good;
	}
	return NULL;
}

/* Written over by a second thread: what is connected to may be either; what answers may be the good
 * one alone. */
static struct verdict race(void)
{
	static struct moving all;
	struct moving *moving = &all;
	pthread_t mover;
	if (!is_led_there())
		return broken("the allowed name does not resolve");
	moving->good = moving->now = at(probe_arg("address"), 22);
	moving->bad = at(probe_arg("other"), 22);
	if (pthread_create(&mover, NULL, keep_moving, moving) != 0)
		return broken("no second thread");
	unsigned good = 0, bad = 0, refused = 0;
	uint64_t tries = probe_number("races", RACES);
	for (uint64_t i = 0; i < tries; i++) {
		char line[64] = "";
		int fd = open_to(&moving->good, SOCK_STREAM);
		struct linger at_once = {.l_onoff = 1};
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		ssize_t n = connect(fd, &moving->now.any, moving->good.len) < 0
		                    ? -1
		                    : recv(fd, line, sizeof(line) - 1, 0);
		refused += n <= 0;
		good += n > 0 && strstr(line, probe_arg("address")) != NULL;
		bad += n > 0 && strstr(line, probe_arg("address")) == NULL;
		close(fd);
	}
	atomic_store(&moving->is_over, true);
	pthread_join(mover, NULL);
	if (bad > 0 || good == 0 || refused == 0)
		return broken("%u allowed, %u refused, %u reached the other", good, refused, bad);
	return held(0, "%u allowed, %u refused", good, refused);
}

/* --- X10: TLS hellos --- */

/* A hello for name ("" for none), with one more extension unless it is 0. */
static size_t put_hello(unsigned char *out, const char *name, unsigned more)
{
	static const unsigned char middle[] = {0, 0, 2, 0x13, 1, 1, 0};
	unsigned char body[400], extensions[300];
	size_t n = strlen(name), extensions_len = 0, len = 0;
	if (n > 0) {
		const unsigned char head[] = {0,
		                              0,
		                              0,
		                              (unsigned char)(n + 5),
		                              0,
		                              (unsigned char)(n + 3),
		                              0,
		                              0,
		                              (unsigned char)n};
		memcpy(extensions, head, sizeof(head));
		memcpy(extensions + sizeof(head), name, n);
		extensions_len = sizeof(head) + n;
	}
	if (more != 0) {
		const unsigned char head[] = {
			(unsigned char)(more >> 8), (unsigned char)more, 0, 2, 0, 0};
		memcpy(extensions + extensions_len, head, sizeof(head));
		extensions_len += sizeof(head);
	}
	body[len++] = 3;
	body[len++] = 3;
	memset(body + len, 7, 32);
	len += 32;
	memcpy(body + len, middle, sizeof(middle));
	len += sizeof(middle);
	body[len++] = 0;
	body[len++] = (unsigned char)extensions_len;
	memcpy(body + len, extensions, extensions_len);
	len += extensions_len;
	const unsigned char head[] = {
		22, 3, 1, 0, (unsigned char)(len + 4), 1, 0, 0, (unsigned char)len};
	memcpy(out, head, sizeof(head));
	memcpy(out + sizeof(head), body, len);
	return sizeof(head) + len;
}

static struct verdict hello_is_refused(const char *name, unsigned more)
{
	unsigned char bytes[1024];
	int fd = to_allowed(443);
	size_t len = put_hello(bytes, name, more);
	if (fd < 0)
		return broken("the allowed address: %s", strerror(errno));
	if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		return held(errno, "refused");
	return unanswered(fd, SOCK_STREAM);
}

static struct verdict unnamed_hello(void)
{
	return hello_is_refused("", 43);
}

static struct verdict encrypted_hello(void)
{
	return hello_is_refused(probe_arg("name"), 0xfe0d);
}

static struct verdict other_hello(void)
{
	return hello_is_refused(probe_arg("unlisted"), 0);
}

/* What is allowed works, also when it comes byte by byte: the server says what is wrong with it. */
static struct verdict slow_hello(void)
{
	unsigned char bytes[1024];
	int fd = to_allowed(443), now = 1;
	size_t len = put_hello(bytes, probe_arg("name"), 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
	for (size_t i = 0; fd >= 0 && i < len; i++) {
		if (send(fd, bytes + i, 1, MSG_NOSIGNAL) != 1)
			return broken("cut after %zu bytes: %s", i, strerror(errno));
		usleep(200);
	}
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	if (poll(&ready, 1, PATIENCE_MS) != 1 || recv(fd, bytes, 1, 0) != 1)
		return broken("the server does not answer");
	return bytes[0] == 21 || bytes[0] == 22 ? held(0, "answered") : broken("no TLS");
}

static struct verdict second_hello(void)
{
	static const unsigned char change[] = {20, 3, 3, 0, 1, 1};
	unsigned char bytes[1024];
	int fd = to_allowed(443);
	if (fd < 0)
		return broken("the allowed address: %s", strerror(errno));
	size_t len = put_hello(bytes, probe_arg("name"), 0);
	memcpy(bytes + len, change, sizeof(change));
	len += sizeof(change);
	len += put_hello(bytes + len, probe_arg("unlisted"), 0);
	if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		return held(errno, "refused");
	for (;;) {
		/* What the server says to the first is for us to hear; then it must end badly. */
		ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
		if (got < 0)
			return held(errno, "cut");
		if (got == 0)
			return broken("a proper end");
	}
}

static const struct attempt attempts[] = {
	{"X08", "an address no name led to", never_resolved, NEEDS_ARG, "address"},
	{"X01", "unlisted addresses", unlisted_addresses, 0, NULL},
	{"X01", "unlisted ports", every_port, 0, NULL},
	{"X02", "special addresses", special_addresses, 0, NULL},
	{"X02", "multicast", multicast, 0, NULL},
	{"X02", "broadcast", broadcast, 0, NULL},
	{"X02", "groups no kernel sends to", impossible_groups, 0, NULL},
	{"X02", "links that are not there", missing_links, 0, NULL},
	{"X02", "the only link", only_link, 0, NULL},
	{"X03", "TCP fast open", fast_open, 0, NULL},
	{"X03", "datagrams", datagrams, 0, NULL},
	{"X03", "a refused datagram says so", datagram_error, 0, NULL},
	{"X03", "sendmmsg", many_messages, 0, NULL},
	{"X03", "io_uring", ring, 0, NULL},
	{"X03", "ping socket", ping_socket, 0, NULL},
	{"X04", "names by other resolvers", unlisted_names, NEEDS_ARG, "unlisted"},
	{"X05", "other types", other_types, 0, NULL},
	{"X05", "odd questions", odd_questions, 0, NULL},
	{"X10", "a hello for another", other_hello, 0, NULL},
	{"X10", "a hello for nobody", unnamed_hello, 0, NULL},
	{"X10", "an encrypted hello", encrypted_hello, 0, NULL},
	{"X10", "a second hello", second_hello, 0, NULL},
	{"X10", "a slow hello works", slow_hello, 0, NULL},
	{"X17", "transparent socket", transparent, 0, NULL},
	{"X17", "mark", mark, 0, NULL},
	{"X17", "a source of one's own choice", spoofed_source, 0, NULL},
	{"X17", "source route", source_route, 0, NULL},
	{"X17", "the gateway's port", steal_gateway, 0, NULL},
	{"X17", "the gateway itself", talk_to_gateway, 0, NULL},
	{"X17", "connected anew", reconnect, 0, NULL},
	{"E16", "an address that changes, allowed or not", race, 0, NULL},
};

const struct topic topic_egress = {"egress", attempts, ATTEMPT_COUNT(attempts)};
