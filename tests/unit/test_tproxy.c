#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "harness/test.h"
#include "os/anyip.h"
#include "os/nflog.h"
#include "os/nft.h"
#include "os/transparent.h"
#include "own_ns.h"

enum { PORT = 1 };

static struct addr parse(const char *text)
{
	struct addr addr;
	CHECK(addr_parse(text, &addr));
	return addr;
}

static struct transparent_end end(const char *text, uint16_t port)
{
	return (struct transparent_end){parse(text), port};
}

struct fixture {
	bool has_v6;
	struct nft_tproxy tproxies[2];
	int tcp[2], udp[2], raw[2];
	uint16_t log_group; /* 0: nobody is told of groups */
	int groups;
};

static bool set_up(struct fixture *f)
{
	if (!own_ns(CLONE_NEWNET))
		return false;
	struct anyip anyip = {parse("192.0.0.2"), parse("fd00:c10c::2")};
	CHECK_INT(anyip_set_up(&anyip, &f->has_v6), 0);
	f->groups = f->log_group ? nflog_open(f->log_group) : -1;
	CHECK(f->log_group == 0 || f->groups >= 0);
	f->tproxies[0] = (struct nft_tproxy){anyip.v4, parse("192.0.0.1"), PORT, f->log_group};
	f->tproxies[1] = (struct nft_tproxy){anyip.v6, parse("fd00:c10c::1"), PORT, f->log_group};
	CHECK_INT(nft_tproxy_load(f->tproxies, f->has_v6 ? 2 : 1), 0);
	for (int i = 0; i < (f->has_v6 ? 2 : 1); i++) {
		struct transparent_end at = {f->tproxies[i].gateway, PORT};
		f->tcp[i] = transparent_listen(&at, 16);
		f->udp[i] = transparent_datagrams(&at);
		f->raw[i] = transparent_raw(i == 1);
		CHECK(f->tcp[i] >= 0 && f->udp[i] >= 0 && f->raw[i] >= 0);
	}
	return true;
}

static void tear_down(struct fixture *f)
{
	for (int i = 0; i < (f->has_v6 ? 2 : 1); i++) {
		close(f->tcp[i]);
		close(f->udp[i]);
		close(f->raw[i]);
	}
	if (f->groups >= 0)
		close(f->groups);
}

/* A socket whose calls give up instead of hanging, bound to `from` unless that is NULL. */
static int client(const char *to, int type, const char *from)
{
	struct addr addr = parse(to);
	int fd = socket(addr_is_v4(&addr) ? AF_INET : AF_INET6, type | SOCK_CLOEXEC, 0);
	struct timeval soon = {.tv_usec = 300000};
	CHECK(fd >= 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)) == 0);
	if (from) {
		struct addr source = parse(from);
		struct sockaddr_in v4 = {.sin_family = AF_INET};
		struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
		memcpy(&v4.sin_addr, source.bytes + 12, 4);
		memcpy(&v6.sin6_addr, source.bytes, 16);
		int on = 1;
		if (!addr_is_v4(&source))
			CHECK(setsockopt(fd, SOL_IPV6, IPV6_FREEBIND, &on, sizeof(on)) == 0);
		CHECK((addr_is_v4(&source) ? bind(fd, (struct sockaddr *)&v4, sizeof(v4))
		                           : bind(fd, (struct sockaddr *)&v6, sizeof(v6))) == 0);
	}
	return fd;
}

static int reach(int fd, const char *to, uint16_t port)
{
	struct addr addr = parse(to);
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	memcpy(&v4.sin_addr, addr.bytes + 12, 4);
	memcpy(&v6.sin6_addr, addr.bytes, 16);
	int r = addr_is_v4(&addr) ? connect(fd, (struct sockaddr *)&v4, sizeof(v4))
	                          : connect(fd, (struct sockaddr *)&v6, sizeof(v6));
	return r < 0 ? -errno : 0;
}

static void check_end(const struct transparent_end *got, const char *addr, uint16_t port)
{
	char text[ADDR_TEXT];
	addr_format(text, sizeof(text), &got->addr);
	CHECK_STR(text, addr);
	if (port)
		CHECK_INT(got->port, port);
}

static void check_tcp(struct fixture *f, int family, const char *to, uint16_t port)
{
	int fd = client(to, SOCK_STREAM, NULL);
	CHECK_INT(reach(fd, to, port), 0);
	int got = accept4(f->tcp[family], NULL, NULL, SOCK_CLOEXEC);
	CHECK(got >= 0);
	struct transparent_end local, peer;
	CHECK_INT(transparent_local(got, &local), 0);
	CHECK_INT(transparent_peer(got, &peer), 0);
	check_end(&local, to, port);
	check_end(&peer, family ? "fd00:c10c::2" : "192.0.0.2", 0);
	char byte = 0;
	CHECK(write(got, "x", 1) == 1 && read(fd, &byte, 1) == 1 && byte == 'x');
	CHECK(write(fd, "y", 1) == 1 && read(got, &byte, 1) == 1 && byte == 'y');
	close(fd);
	close(got);
}

TEST(every_connection_arrives)
{
	struct fixture f = {0};
	if (!set_up(&f))
		SKIP("no network namespace");
	check_tcp(&f, 0, "93.184.216.34", 443);
	check_tcp(&f, 0, "169.254.169.254", 80);
	check_tcp(&f, 0, "192.0.0.1", 65535);
	if (f.has_v6) {
		check_tcp(&f, 1, "2606:2800:220:1::1", 443);
		check_tcp(&f, 1, "fd00:ec2::254", 80);
	}
	tear_down(&f);
}

static void check_udp(struct fixture *f, int family, const char *to, uint16_t port)
{
	int fd = client(to, SOCK_DGRAM, NULL);
	char bytes[64];
	struct transparent_end from, where;
	CHECK_INT(reach(fd, to, port), 0);
	CHECK(send(fd, "ask", 3, 0) == 3);
	CHECK_INT(transparent_receive(f->udp[family], bytes, sizeof(bytes), &from, &where), 3);
	check_end(&where, to, port);
	check_end(&from, family ? "fd00:c10c::2" : "192.0.0.2", 0);
	CHECK_INT(transparent_send_udp(f->raw[family], &where, &from, "answer", 6), 0);
	CHECK_INT(recv(fd, bytes, sizeof(bytes), 0), 6);
	CHECK(memcmp(bytes, "answer", 6) == 0);
	CHECK(send(fd, "ask", 3, 0) == 3);
	CHECK_INT(transparent_receive(f->udp[family], bytes, sizeof(bytes), &from, &where), 3);
	CHECK_INT(transparent_refuse_udp(f->raw[family], &from, &where), 0);
	CHECK(recv(fd, bytes, sizeof(bytes), 0) < 0);
	CHECK_INT(errno, family ? EACCES : EHOSTUNREACH);
	close(fd);
}

TEST(every_datagram_arrives_and_is_answered)
{
	struct fixture f = {0};
	if (!set_up(&f))
		SKIP("no network namespace");
	check_udp(&f, 0, "8.8.8.8", 53);
	check_udp(&f, 0, "192.0.0.1", 53);
	if (f.has_v6)
		check_udp(&f, 1, "2001:4860:4860::8888", 53);
	tear_down(&f);
}

TEST(long_answers_fit)
{
	struct fixture f = {0};
	static uint8_t bytes[60000], got[60000];
	if (!set_up(&f))
		SKIP("no network namespace");
	int fd = client("8.8.8.8", SOCK_DGRAM, NULL);
	struct transparent_end from, where;
	CHECK_INT(reach(fd, "8.8.8.8", 1000), 0);
	CHECK(send(fd, "ask", 3, 0) == 3);
	CHECK_INT(transparent_receive(f.udp[0], got, sizeof(got), &from, &where), 3);
	memset(bytes, 7, sizeof(bytes));
	CHECK_INT(transparent_send_udp(f.raw[0], &where, &from, bytes, sizeof(bytes)), 0);
	CHECK_INT(recv(fd, got, sizeof(got), 0), (int)sizeof(got));
	CHECK(memcmp(bytes, got, sizeof(got)) == 0);
	close(fd);
	tear_down(&f);
}

TEST(loopback_stays_the_sandbox_s_own)
{
	struct fixture f = {0};
	if (!set_up(&f))
		SKIP("no network namespace");
	static const char *const own[] = {"127.0.0.1", "127.1.2.3", "192.0.0.2"};
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		int fd = client(own[i], SOCK_STREAM, NULL);
		CHECK_INT(reach(fd, own[i], 443), -ECONNREFUSED);
		close(fd);
	}
	struct transparent_end everywhere = end("0.0.0.0", 8080);
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(everywhere.port)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0 &&
	      listen(listener, 4) == 0);
	int fd = client("127.0.0.1", SOCK_STREAM, NULL);
	CHECK_INT(reach(fd, "127.0.0.1", 8080), 0);
	close(fd);
	/* A listener of the sandbox's own at every address does not take what is meant for outside.
	 */
	fd = client("93.184.216.34", SOCK_STREAM, NULL);
	CHECK_INT(reach(fd, "93.184.216.34", 8080), 0);
	int got = accept4(f.tcp[0], NULL, NULL, SOCK_CLOEXEC);
	CHECK(got >= 0);
	close(got);
	close(fd);
	close(listener);
	tear_down(&f);
}

/* It arrives like any other, and hears what we answer. */
static void check_made_up(struct fixture *f, int family, const char *to, const char *source)
{
	char bytes[8];
	struct transparent_end from, where;
	int fd = client(to, SOCK_STREAM, source);
	CHECK_INT(reach(fd, to, 443), 0);
	int got = accept4(f->tcp[family], NULL, NULL, SOCK_CLOEXEC);
	CHECK(got >= 0);
	CHECK_INT(transparent_peer(got, &from), 0);
	check_end(&from, source, 0);
	struct linger now = {.l_onoff = 1};
	CHECK(setsockopt(got, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
	close(got);
	CHECK(recv(fd, bytes, sizeof(bytes), 0) < 0);
	CHECK_INT(errno, ECONNRESET);
	close(fd);
	fd = client(to, SOCK_DGRAM, source);
	CHECK_INT(reach(fd, to, 53), 0);
	CHECK(send(fd, "ask", 3, 0) == 3);
	CHECK_INT(transparent_receive(f->udp[family], bytes, sizeof(bytes), &from, &where), 3);
	check_end(&from, source, 0);
	CHECK_INT(transparent_refuse_udp(f->raw[family], &from, &where), 0);
	CHECK(recv(fd, bytes, sizeof(bytes), 0) < 0);
	CHECK_INT(errno, family ? EACCES : EHOSTUNREACH);
	close(fd);
}

TEST(a_made_up_source_is_seen_and_answered)
{
	struct fixture f = {0};
	if (!set_up(&f))
		SKIP("no network namespace");
	check_made_up(&f, 0, "93.184.216.34", "8.8.4.4");
	check_made_up(&f, 0, "93.184.216.34", "127.0.0.1");
	check_made_up(&f, 0, "93.184.216.34", "192.0.0.1");
	if (f.has_v6) {
		check_made_up(&f, 1, "2606:2800:220:1::1", "2001:4860:4860::8844");
		check_made_up(&f, 1, "2606:2800:220:1::1", "::1");
	}
	tear_down(&f);
}

/* One datagram to many: an error at once, and both ends of it are told. */
static void check_group(struct fixture *f, int family, const char *to, unsigned link)
{
	struct addr addr = parse(to);
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(5353)};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(5353), .sin6_scope_id = link};
	struct transparent_end from, where;
	int fd = client(to, SOCK_DGRAM, NULL), on = 1;
	memcpy(&v4.sin_addr, addr.bytes + 12, 4);
	memcpy(&v6.sin6_addr, addr.bytes, 16);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) == 0);
	ssize_t n = family ? sendto(fd, "ask", 3, 0, (struct sockaddr *)&v6, sizeof(v6))
	                   : sendto(fd, "ask", 3, 0, (struct sockaddr *)&v4, sizeof(v4));
	CHECK(n < 0);
	CHECK_INT(errno, EPERM);
	CHECK_INT(nflog_next(f->groups, &from, &where), 0);
	check_end(&from, family ? "fd00:c10c::2" : "192.0.0.2", 0);
	CHECK(from.port != 0);
	check_end(&where, to, 5353);
	CHECK_INT(nflog_next(f->groups, &from, &where), -EAGAIN);
	close(fd);
}

TEST(multicast_and_broadcast_are_refused_at_once_and_told)
{
	struct fixture f = {.log_group = 1};
	if (!set_up(&f))
		SKIP("no network namespace");
	check_group(&f, 0, "224.0.0.251", 0);
	check_group(&f, 0, "239.1.2.3", 0);
	check_group(&f, 0, "255.255.255.255", 0);
	if (f.has_v6) {
		check_group(&f, 1, "ff02::fb", 1);
		check_group(&f, 1, "ff0e::1", 0);
	}
	tear_down(&f);
}

TEST(without_a_log_they_are_refused_all_the_same)
{
	struct fixture f = {0};
	if (!set_up(&f))
		SKIP("no network namespace");
	int fd = client("224.0.0.251", SOCK_DGRAM, NULL);
	CHECK_INT(reach(fd, "224.0.0.251", 5353), 0);
	CHECK(send(fd, "ask", 3, 0) < 0);
	CHECK_INT(errno, EPERM);
	close(fd);
	tear_down(&f);
}

/* More than its socket holds are lost, and it is told of later ones. */
TEST(a_flood_of_them_does_not_stop_the_telling)
{
	struct fixture f = {.log_group = 1};
	struct transparent_end from, where;
	unsigned told = 0;
	int r;
	if (!set_up(&f))
		SKIP("no network namespace");
	int fd = client("224.0.0.251", SOCK_DGRAM, NULL);
	CHECK_INT(reach(fd, "224.0.0.251", 5353), 0);
	for (int i = 0; i < 5000; i++)
		CHECK(send(fd, "ask", 3, 0) < 0);
	while ((r = nflog_next(f.groups, &from, &where)) != -EAGAIN)
		told += r == 0;
	CHECK(told > 0 && told < 5000);
	CHECK(send(fd, "ask", 3, 0) < 0);
	CHECK_INT(nflog_next(f.groups, &from, &where), 0);
	close(fd);
	tear_down(&f);
}

TEST(without_a_socket_behind_it_nothing_is_reached)
{
	struct fixture f = {0};
	if (!set_up(&f))
		SKIP("no network namespace");
	tear_down(&f);
	int fd = client("93.184.216.34", SOCK_STREAM, NULL);
	CHECK_INT(reach(fd, "93.184.216.34", 443), -EINPROGRESS);
	close(fd);
}
