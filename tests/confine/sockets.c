/*
 * E16, E20, E21: sockets and the network. Arguments: abstract=NAME (an abstract socket of the
 * host), port=N (a listener on the host's loopback), address=IP (an address of the host).
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"

enum { MANY_FDS = 16 };

#define SOCKET(name, family, type, protocol)                                                       \
	static struct verdict name(void)                                                           \
	{                                                                                          \
		return REFUSED(socket(family, (type) | SOCK_CLOEXEC, protocol), EPERM, EACCES,     \
		               EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT, ENOSYS);            \
	}

SOCKET(vsock, 40, SOCK_STREAM, 0)
SOCKET(packet, AF_PACKET, SOCK_RAW, 0x300)
SOCKET(crypto, AF_ALG, SOCK_SEQPACKET, 0)
SOCKET(raw_icmp, AF_INET, SOCK_RAW, IPPROTO_ICMP)
SOCKET(raw_any, AF_INET, SOCK_RAW, IPPROTO_RAW)
SOCKET(raw_six, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6)
SOCKET(key_management, AF_KEY, SOCK_RAW, 2)
SOCKET(bluetooth, AF_BLUETOOTH, SOCK_RAW, 1)
SOCKET(express_data, 44, SOCK_RAW, 0)
SOCKET(tipc, AF_TIPC, SOCK_STREAM, 0)
SOCKET(can_bus, AF_CAN, SOCK_RAW, 1)
SOCKET(rds, AF_RDS, SOCK_SEQPACKET, 0)
SOCKET(netlink_uevent, AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT)
SOCKET(netlink_audit, AF_NETLINK, SOCK_RAW, NETLINK_AUDIT)
SOCKET(netlink_netfilter, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER)
SOCKET(netlink_generic, AF_NETLINK, SOCK_RAW, NETLINK_GENERIC)
SOCKET(netlink_diag, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG)
SOCKET(sctp, AF_INET, SOCK_SEQPACKET, 132)
SOCKET(dccp, AF_INET, 6, 33)
SOCKET(sctp_stream, AF_INET6, SOCK_STREAM, 132)
SOCKET(mptcp, AF_INET, SOCK_STREAM, 262)
SOCKET(smc, AF_INET, SOCK_STREAM, 256)
SOCKET(l2tp, AF_INET, SOCK_DGRAM, 115)
SOCKET(udplite, AF_INET, SOCK_DGRAM, 136)

static struct verdict tcp_upper_layer(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return REFUSED(setsockopt(fd, IPPROTO_TCP, 31 /* TCP_ULP */, "tls", 3), ENOENT, EPERM);
}

static struct verdict abstract_of_host(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *name = probe_arg("abstract");
	size_t len = strlen(name);
	memcpy(addr.sun_path + 1, name, len);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
	return REFUSED(connect(fd, (struct sockaddr *)&addr, size), ECONNREFUSED, EPERM, EACCES);
}

/* Names of sockets of the host would show in the table of ours if we shared its namespace. */
static struct verdict abstract_table(void)
{
	FILE *file = fopen("/proc/net/unix", "re");
	if (!file)
		return held(errno, "no table");
	char line[512];
	struct verdict verdict = held(0, "the host's name is not listed");
	while (fgets(line, sizeof(line), file))
		if (strstr(line, probe_arg("abstract")))
			verdict = broken("the host's name is listed");
	fclose(file);
	return verdict;
}

/* The gateway of a sandbox takes every connection and datagram, and resets or refuses what its
 * policy does not allow: what counts is that nobody answers. Silence is right for a datagram that
 * is no question, and for nothing else. */
static struct verdict unanswered(int fd, int type)
{
	char byte;
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int n = poll(&ready, 1, type == SOCK_STREAM ? 5000 : 100);
	if (n == 0)
		return type == SOCK_STREAM ? broken("the connection stands") : held(0, "silence");
	return REFUSED(recv(fd, &byte, 1, MSG_DONTWAIT), ECONNRESET, ECONNREFUSED, EHOSTUNREACH,
	               ENETUNREACH, EACCES);
}

static struct verdict dial(const char *address, unsigned port, int type)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	bool is_six = inet_pton(AF_INET6, address, &six.sin6_addr) == 1;
	if (!is_six && inet_pton(AF_INET, address, &four.sin_addr) != 1)
		return broken("bad address %s", address);
	int fd = socket(is_six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return REFUSED(fd, EPERM, EACCES, EAFNOSUPPORT);
	struct timeval patience = {.tv_sec = 2};
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	long result =
		is_six ? sendto(fd, "x", 1, MSG_NOSIGNAL | (type == SOCK_STREAM ? MSG_FASTOPEN : 0),
	                        (struct sockaddr *)&six, sizeof(six))
		       : sendto(fd, "x", 1, MSG_NOSIGNAL | (type == SOCK_STREAM ? MSG_FASTOPEN : 0),
	                        (struct sockaddr *)&four, sizeof(four));
	if (result < 0 && errno == EOPNOTSUPP)
		result = connect(fd, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four,
		                 is_six ? sizeof(six) : sizeof(four));
	if (result >= 0)
		return unanswered(fd, type);
	return REFUSED(result, ECONNREFUSED, ENETUNREACH, EHOSTUNREACH, EPERM, EACCES,
	               EADDRNOTAVAIL, EINVAL);
}

static struct verdict host_loopback(void)
{
	return dial("127.0.0.1", (unsigned)probe_number("port", 0), SOCK_STREAM);
}

static struct verdict host_loopback_six(void)
{
	return dial("::1", (unsigned)probe_number("port", 0), SOCK_STREAM);
}

static struct verdict host_loopback_mapped(void)
{
	return dial("::ffff:127.0.0.1", (unsigned)probe_number("port", 0), SOCK_STREAM);
}

static struct verdict host_address(void)
{
	return dial(probe_arg("address"), (unsigned)probe_number("port", 80), SOCK_STREAM);
}

/* Addresses of the documentation ranges and the well-known ones of cloud machines: with no route
 * nothing can leave, and nothing real is ever asked. */
static struct verdict everywhere(int type, unsigned port)
{
	static const char *const addresses[] = {
		"192.0.2.1",   "198.51.100.7",  "169.254.169.254", "10.0.0.1",
		"172.17.0.1",  "192.168.0.1",   "100.64.0.1",      "224.0.0.251",
		"2001:db8::1", "fd00:ec2::254", "fe80::1",         "64:ff9b::c000:201",
	};
	for (size_t i = 0; i < ATTEMPT_COUNT(addresses); i++) {
		struct verdict verdict = dial(addresses[i], port, type);
		if (!verdict.held)
			return broken("%s: %s", addresses[i], verdict.detail);
	}
	return held(ENETUNREACH, "%zu addresses unreachable", ATTEMPT_COUNT(addresses));
}

static struct verdict everywhere_tcp(void)
{
	return everywhere(SOCK_STREAM, 80);
}

static struct verdict everywhere_dns(void)
{
	return everywhere(SOCK_DGRAM, 53);
}

static struct verdict only_loopback(void)
{
	struct if_nameindex *all = if_nameindex();
	if (!all)
		return held(errno, "interfaces cannot be listed");
	struct verdict verdict = held(0, "lo only");
	for (struct if_nameindex *one = all; one->if_index; one++)
		if (strcmp(one->if_name, "lo") != 0)
			verdict = broken("interface %s", one->if_name);
	if_freenameindex(all);
	return verdict;
}

/* A wall that also breaks what is allowed would pass every other line of this table. */
static struct verdict own_loopback_works(void)
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof(addr);
	if (bind(listener, (struct sockaddr *)&addr, size) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&addr, &size) < 0)
		return broken("no listener on our own loopback: %s", strerror(errno));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return broken("our own loopback: %s", strerror(errno));
	return held(0, "works");
}

/* E16: an address that changes while somebody looks at it: our own loopback, which is allowed, and
 * one outside, which is not, written over each other by another thread all the time. */
struct moving {
	struct sockaddr_in addr; /* what connect is given */
	struct sockaddr_in inside, outside;
	atomic_bool is_over;
};

static void *keep_moving(void *arg)
{
	struct moving *moving = arg;
	while (!atomic_load_explicit(&moving->is_over, memory_order_relaxed)) {
		*(volatile struct sockaddr_in *)&moving->addr = moving->outside;
		*(volatile struct sockaddr_in *)&moving->addr = moving->inside;
	}
	return NULL;
}

/* True when somebody answers who is not our own listener, which never does. */
static bool is_answered(int fd)
{
	char byte;
	return recv(fd, &byte, 1, MSG_DONTWAIT) > 0;
}

static uint64_t try_tcp(const struct moving *moving, uint64_t tries)
{
	struct linger at_once = {.l_onoff = 1}; /* no ports left waiting */
	uint64_t bad = 0;
	for (uint64_t i = 0; i < tries; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		connect(fd, (const struct sockaddr *)&moving->addr, sizeof(moving->addr));
		send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		bad += is_answered(fd);
		close(fd);
	}
	return bad;
}

/* One that is not a stream may be connected again and again. */
static uint64_t try_udp(const struct moving *moving, uint64_t tries)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t bad = 0;
	for (uint64_t i = 0; i < tries; i++) {
		connect(fd, (const struct sockaddr *)&moving->addr, sizeof(moving->addr));
		if (i % 16 == 0)
			send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		bad += is_answered(fd);
	}
	close(fd);
	return bad;
}

static struct verdict race_address(int type, uint64_t tries)
{
	static struct moving all;
	struct moving *moving = &all;
	pthread_t mover;
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof(own);
	const char *outside = probe_arg("address") ? probe_arg("address") : "192.0.2.1";
	int listener = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&own, size) < 0 ||
	    (type == SOCK_STREAM && listen(listener, 1) < 0) ||
	    getsockname(listener, (struct sockaddr *)&own, &size) < 0)
		return broken("no listener on our own loopback: %s", strerror(errno));
	moving->addr = moving->inside = moving->outside = own;
	moving->outside.sin_port = htons((uint16_t)probe_number("port", 80));
	if (inet_pton(AF_INET, outside, &moving->outside.sin_addr) != 1)
		return broken("bad address %s", outside);
	if (pthread_create(&mover, NULL, keep_moving, moving) != 0)
		return broken("no second thread");
	uint64_t bad = type == SOCK_STREAM ? try_tcp(moving, tries) : try_udp(moving, tries);
	atomic_store(&moving->is_over, true);
	pthread_join(mover, NULL);
	return bad ? broken("%llu of %llu reached %s", (unsigned long long)bad,
	                    (unsigned long long)tries, outside)
	           : held(0, "%llu tries", (unsigned long long)tries);
}

static struct verdict race_tcp(void)
{
	return race_address(SOCK_STREAM, probe_number("races", 20 * 1000));
}

static struct verdict race_udp(void)
{
	return race_address(SOCK_DGRAM, probe_number("races", 1000 * 1000));
}

/* A descriptor that arrives although nobody asked for one would be a gift from outside. */
static bool receives_descriptor(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	if (poll(&ready, 1, 300) <= 0)
		return false;
	char byte, control[CMSG_SPACE(MANY_FDS * sizeof(int))];
	struct iovec part = {&byte, 1};
	struct msghdr msg = {.msg_iov = &part,
	                     .msg_iovlen = 1,
	                     .msg_control = control,
	                     .msg_controllen = sizeof(control)};
	if (recvmsg(fd, &msg, MSG_DONTWAIT) < 0)
		return false;
	for (struct cmsghdr *part_of = CMSG_FIRSTHDR(&msg); part_of;
	     part_of = CMSG_NXTHDR(&msg, part_of))
		if (part_of->cmsg_level == SOL_SOCKET && part_of->cmsg_type == SCM_RIGHTS)
			return true;
	return false;
}

static struct verdict try_offered(const char *folder, const char *name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%.40s/%.60s", folder, name);
	static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
	for (size_t i = 0; i < ATTEMPT_COUNT(types); i++) {
		int fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0) {
			bool got = receives_descriptor(fd);
			close(fd);
			return got ? broken("%s gave a descriptor", addr.sun_path)
			           : held(0, "no descriptor from %s", addr.sun_path);
		}
		close(fd);
	}
	return held(errno, "%s does not answer", addr.sun_path);
}

static struct verdict offered_sockets(void)
{
	static const char *const folders[] = {"/run", "/run/cloche", "/tmp", "/var/run", "/dev"};
	for (size_t i = 0; i < ATTEMPT_COUNT(folders); i++) {
		DIR *dir = opendir(folders[i]);
		if (!dir)
			continue;
		struct verdict verdict = held(0, "nothing");
		for (struct dirent *entry = readdir(dir); entry && verdict.held;
		     entry = readdir(dir))
			if (entry->d_type == DT_SOCK)
				verdict = try_offered(folders[i], entry->d_name);
		closedir(dir);
		if (!verdict.held)
			return verdict;
	}
	return held(0, "no descriptor from any socket in sight");
}

static const struct attempt attempts[] = {
	{"E20", "abstract socket of the host", abstract_of_host, NEEDS_ARG, "abstract"},
	{"E20", "table of sockets", abstract_table, NEEDS_ARG, "abstract"},
	{"E20", "vsock", vsock, 0, NULL},
	{"E20", "packet", packet, 0, NULL},
	{"E20", "kernel crypto", crypto, 0, NULL},
	{"E20", "raw icmp", raw_icmp, 0, NULL},
	{"E20", "raw ip", raw_any, 0, NULL},
	{"E20", "raw icmp6", raw_six, 0, NULL},
	{"E20", "key management", key_management, 0, NULL},
	{"E20", "bluetooth", bluetooth, 0, NULL},
	{"E20", "xdp", express_data, 0, NULL},
	{"E20", "tipc", tipc, 0, NULL},
	{"E20", "can", can_bus, 0, NULL},
	{"E20", "rds", rds, 0, NULL},
	{"E20", "sctp", sctp, 0, NULL},
	{"E20", "dccp", dccp, 0, NULL},
	{"E20", "sctp, stream", sctp_stream, 0, NULL},
	{"E20", "mptcp", mptcp, 0, NULL},
	{"E20", "smc", smc, 0, NULL},
	{"E20", "l2tp", l2tp, 0, NULL},
	{"E20", "udplite", udplite, 0, NULL},
	{"E20", "a protocol on top of TCP", tcp_upper_layer, 0, NULL},
	{"E20", "netlink uevent", netlink_uevent, 0, NULL},
	{"E20", "netlink audit", netlink_audit, 0, NULL},
	{"E20", "netlink netfilter", netlink_netfilter, 0, NULL},
	{"E20", "netlink generic", netlink_generic, 0, NULL},
	{"E20", "netlink sock_diag", netlink_diag, 0, NULL},
	{"X01", "host's loopback", host_loopback, NEEDS_ARG, "port"},
	{"X01", "host's loopback, IPv6", host_loopback_six, NEEDS_ARG, "port"},
	{"X01", "host's loopback, mapped", host_loopback_mapped, NEEDS_ARG, "port"},
	{"X01", "an address of the host", host_address, NEEDS_ARG, "address"},
	{"X01", "other addresses, TCP", everywhere_tcp, 0, NULL},
	{"X03", "other addresses, UDP", everywhere_dns, 0, NULL},
	{"X02", "only loopback", only_loopback, 0, NULL},
	{"X02", "own loopback works", own_loopback_works, 0, NULL},
	{"E16", "an address that changes, TCP", race_tcp, 0, NULL},
	{"E16", "an address that changes, UDP", race_udp, 0, NULL},
	{"E21", "offered sockets", offered_sockets, 0, NULL},
};

const struct topic topic_sockets = {"sockets", attempts, ATTEMPT_COUNT(attempts)};
