/*
 * A whole gateway: this process is the keeper, in the network namespace of a sandbox; a forked
 * client inside uses the network; another namespace has servers, a name server and the real dialer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "broker/dialer.h"
#include "harness/test.h"
#include "keeper/gateway.h"
#include "net/dns.h"
#include "os/anyip.h"
#include "own_ns.h"

#define BOX     "sb_00000000000000000001"
#define ORIGIN  "93.184.216.34"
#define OTHER   "93.184.216.35"
#define PRIVATE "10.0.0.5"
#define NAMES   "93.184.216.53"

enum { BULK = 8 * 1024 * 1024, DECISIONS = 64 };

struct fixture {
	struct loop *loop;
	struct uplink uplink;
	struct gateway gateway;
	struct dialer dialer;
	pid_t servers[2];
	struct decision decisions[DECISIONS];
	size_t decision_count;
	uint64_t asked; /* of a person */
};

static struct transparent_end end(const char *text, uint16_t port)
{
	struct transparent_end at = {.port = port};
	CHECK(addr_parse(text, &at.addr));
	return at;
}

static struct sockaddr_in to_v4(const char *address, uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	CHECK(inet_pton(AF_INET, address, &at.sin_addr) == 1);
	return at;
}

/* --- outside --- */

/* Says where it was reached, then sends back what it gets; "bulk" brings a lot instead. */
static void serve_one(int fd)
{
	static char bytes[65536];
	struct transparent_end local;
	char text[ADDR_TEXT];
	if (transparent_local(fd, &local) < 0)
		return;
	addr_format(text, sizeof(text), &local.addr);
	dprintf(fd, "%s", text);
	ssize_t n;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
		size_t left = n == 4 && memcmp(bytes, "bulk", 4) == 0 ? BULK : (size_t)n;
		while (left > 0) {
			ssize_t done = write(fd, bytes, MIN(left, sizeof(bytes)));
			if (done < 0)
				return;
			left -= (size_t)done;
		}
	}
}

static pid_t start_server(uint16_t port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0 &&
	      listen(listener, 64) == 0);
	pid_t pid = fork();
	while (pid == 0) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fork() == 0) {
			serve_one(fd);
			_exit(0);
		}
		close(fd);
	}
	close(listener);
	return pid;
}

static void answer_name(const struct dns_query *query, struct dns_answer *answer)
{
	static const struct {
		const char *name, *address;
	} zone[] = {{"good.test", ORIGIN}, {"other.test", OTHER}, {"private.test", PRIVATE}};
	*answer = (struct dns_answer){.rcode = DNS_NO_NAME, .ttl_s = 60};
	for (size_t i = 0; i < ARRAY_LEN(zone); i++) {
		if (!str_eq(zone[i].name, query->name))
			continue;
		answer->rcode = DNS_OK;
		answer->count = addr_parse(zone[i].address, &answer->addrs[0]) ? 1 : 0;
	}
}

static pid_t start_names(void)
{
	struct sockaddr_in at = to_v4(NAMES, 53);
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(bind(sock, (struct sockaddr *)&at, sizeof(at)) == 0);
	pid_t pid = fork();
	while (pid == 0) {
		uint8_t asked[512], out[512];
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		struct dns_query query;
		struct dns_answer answer;
		enum dns_rcode rcode;
		ssize_t n = recvfrom(sock, asked, sizeof(asked), 0, (struct sockaddr *)&from, &len);
		if (n < 0 || dns_parse_query(asked, (size_t)n, &query, &rcode) < 0)
			continue;
		answer_name(&query, &answer);
		size_t size = dns_write_answer(&query, asked, (size_t)n, &answer, out, sizeof(out));
		(void)!sendto(sock, out, size, 0, (struct sockaddr *)&from, len);
	}
	close(sock);
	return pid;
}

static void tell_dialer(struct fixture *f, struct wire_out *out)
{
	CHECK_INT(wire_send(f->dialer.sock, out), 0);
	wire_done(out);
}

/* The machine's own addresses are closed unless granted, and here everything is on one machine. */
static void open_dialer(struct fixture *f, uint64_t generation, bool has_private)
{
	struct wire_out out;
	wire_begin(&out, WIRE_D_POLICY, 0);
	wire_put_str(&out, FIELD_SANDBOX, BOX);
	wire_put_u64(&out, FIELD_GENERATION, generation);
	wire_put_str(&out, FIELD_CIDR, "93.184.216.0/24");
	if (has_private)
		wire_put_str(&out, FIELD_CIDR, "10.0.0.0/24");
	tell_dialer(f, &out);
}

static int start_dialer(struct fixture *f)
{
	struct err err = {0};
	int pair[2];
	struct wire_out out;
	dialer_init(&f->dialer);
	CHECK_INT(dialer_start(&f->dialer, &err), 0);
	wire_begin(&out, WIRE_D_RESOLVERS, 0);
	wire_put_str(&out, FIELD_ENTRY, NAMES "\t53");
	tell_dialer(f, &out);
	CHECK_INT(wire_pair(pair), 0);
	wire_begin(&out, WIRE_D_KEEPER, 0);
	wire_put_str(&out, FIELD_SANDBOX, BOX);
	wire_put_fd(&out, pair[1]);
	tell_dialer(f, &out);
	close(pair[1]);
	return pair[0];
}

/* --- the keeper --- */

static void on_tell(void *ctx, const struct decision *decision)
{
	struct fixture *f = ctx;
	if (f->decision_count < DECISIONS)
		f->decisions[f->decision_count++] = *decision;
	if (decision->verdict != DECISION_ASK)
		return;
	f->asked = decision->ask;
	gateway_answer(&f->gateway, decision->ask, str_eq(decision->host, "good.test"));
}

static bool on_who(void *ctx, uint64_t token, const struct decision *decision)
{
	return false;
}

static bool setup(struct fixture *f)
{
	*f = (struct fixture){0};
	if (!own_ns(CLONE_NEWNET))
		return false;
	struct anyip outside = {end("93.184.1.1", 0).addr, end("2a00:93::1", 0).addr};
	bool has_v6;
	CHECK_INT(anyip_set_up(&outside, &has_v6), 0);
	f->servers[0] = start_server(22);
	f->servers[1] = start_names();
	int sock = start_dialer(f);
	uplink_init(&f->uplink);
	CHECK_INT(uplink_set_up(&f->uplink), 0);
	CHECK(f->uplink.is_up);
	CHECK_INT(loop_new(&f->loop), 0);
	struct gateway_hooks hooks = {.ctx = f, .tell = on_tell, .who = on_who};
	CHECK_INT(gateway_start(&f->gateway, f->loop, &f->uplink, &hooks), 0);
	dials_take(&f->gateway.dials, sock);
	return true;
}

static void teardown(struct fixture *f)
{
	gateway_done(&f->gateway);
	uplink_done(&f->uplink);
	loop_free(f->loop);
	dialer_stop(&f->dialer);
	for (size_t i = 0; i < ARRAY_LEN(f->servers); i++) {
		kill(f->servers[i], SIGKILL);
		waitpid(f->servers[i], NULL, 0);
	}
}

static void set_policy(struct fixture *f, uint64_t generation, const char *network,
                       const char *allow, enum environment_mode mode)
{
	struct strings domains = {0};
	struct policy_extra extra = {.domains = &domains, .mode = &mode};
	struct policy policy;
	struct err err = {0};
	if (allow)
		strings_add(&domains, allow);
	policy_init(&policy);
	CHECK_INT(policy_compile(environment_builtin(network), &extra, &policy, &err), 0);
	strings_done(&domains);
	open_dialer(f, generation, false);
	gateway_set_policy(&f->gateway, generation, &policy);
}

/* Runs fn as a program inside while the gateway serves it; its exit status. */
static int inside(struct fixture *f, int (*fn)(void))
{
	pid_t pid = fork();
	int status = 0;
	if (pid == 0) {
		alarm(15);
		_exit(fn());
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		CHECK_INT(loop_step(f->loop, 20), 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const struct decision *find(const struct fixture *f, enum decision_verdict verdict,
                                   const char *host)
{
	for (size_t i = 0; i < f->decision_count; i++) {
		if (f->decisions[i].verdict == verdict && str_eq(f->decisions[i].host, host))
			return &f->decisions[i];
	}
	return NULL;
}

/* --- programs inside: 0 is what a test wants --- */

static int resolve(const char *name, struct sockaddr_in *ret)
{
	uint8_t bytes[512];
	struct sockaddr_in server = to_v4("8.8.8.8", 53); /* any will do */
	struct dns_answer answer;
	auto_close int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	size_t len = dns_write_query(7, name, DNS_A, bytes);
	if (sendto(sock, bytes, len, 0, (struct sockaddr *)&server, sizeof(server)) < 0)
		return -1;
	ssize_t n = recv(sock, bytes, sizeof(bytes), 0);
	if (n < 0 || dns_parse_answer(bytes, (size_t)n, 7, name, DNS_A, &answer) < 0)
		return -1;
	*ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(22)};
	if (answer.count > 0)
		memcpy(&ret->sin_addr, answer.addrs[0].bytes + 12, 4);
	return (int)answer.count;
}

static int reach(const struct sockaddr_in *to, const char *wanted)
{
	char text[64] = "";
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0)
		return -1;
	if (read(fd, text, strlen(wanted)) != (ssize_t)strlen(wanted) || !str_eq(text, wanted)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int good_is_reached(void)
{
	struct sockaddr_in to;
	char echo[5] = "";
	if (resolve("good.test", &to) != 1)
		return 1;
	int fd = reach(&to, ORIGIN);
	if (fd < 0 || write(fd, "ping", 4) != 4 || read(fd, echo, 4) != 4 || !str_eq(echo, "ping"))
		return 2;
	/* a half-closed connection still brings the rest */
	return shutdown(fd, SHUT_WR) < 0 || read(fd, echo, 4) != 0 ? 3 : 0;
}

static int good_is_not_reached(void)
{
	struct sockaddr_in to = to_v4(ORIGIN, 22);
	(void)resolve("good.test", &to);
	return reach(&to, ORIGIN) < 0 ? 0 : 1;
}

static int bulk_arrives(void)
{
	static char bytes[65536];
	struct sockaddr_in to;
	if (resolve("good.test", &to) != 1)
		return 1;
	int fd = reach(&to, ORIGIN);
	size_t got = 0;
	if (fd < 0 || write(fd, "bulk", 4) != 4)
		return 2;
	while (got < BULK) {
		ssize_t n = read(fd, bytes, sizeof(bytes));
		if (n <= 0)
			return 3;
		got += (size_t)n;
		if (got < 300000)
			usleep(2000); /* a slow reader holds the sender back */
	}
	return 0;
}

static int others_are_refused(void)
{
	struct sockaddr_in to, other = to_v4(OTHER, 22), closed = to_v4(PRIVATE, 22);
	if (resolve("other.test", &to) != 0 || resolve("private.test", &to) != 0 ||
	    resolve("no such name", &to) > 0)
		return 1;
	return reach(&other, OTHER) < 0 && reach(&closed, PRIVATE) < 0 ? 0 : 2;
}

TEST(nothing_leaves_without_a_policy)
{
	struct fixture f;
	if (!setup(&f))
		SKIP("no network namespace");
	CHECK_INT(inside(&f, others_are_refused), 0);
	CHECK_INT(f.gateway.resolver.asked, 0);
	CHECK_INT(f.gateway.connections, 0);
	CHECK(find(&f, DECISION_DENY, "other.test") != NULL);
	teardown(&f);
}

TEST(an_allowed_name_is_reached)
{
	struct fixture f;
	if (!setup(&f))
		SKIP("no network namespace");
	set_policy(&f, 1, "none", "good.test", ENVIRONMENT_ENFORCE);
	CHECK_INT(inside(&f, good_is_reached), 0);
	CHECK_INT(inside(&f, others_are_refused), 0);
	CHECK_INT(f.gateway.resolver.asked, 1);
	const struct decision *allowed = find(&f, DECISION_ALLOW, "good.test");
	CHECK(allowed != NULL);
	CHECK_INT(allowed->generation, 1);
	const struct decision *closed = find(&f, DECISION_CLOSED, "good.test");
	CHECK(closed != NULL);
	CHECK_INT(closed->sent, 4);
	CHECK_INT(closed->received, strlen(ORIGIN) + 4);
	teardown(&f);
}

TEST(many_bytes_come_whole)
{
	struct fixture f;
	if (!setup(&f))
		SKIP("no network namespace");
	set_policy(&f, 1, "none", "good.test", ENVIRONMENT_ENFORCE);
	CHECK_INT(inside(&f, bulk_arrives), 0);
	CHECK_INT(f.gateway.received, BULK + strlen(ORIGIN));
	teardown(&f);
}

static int stays_connected(void)
{
	struct sockaddr_in to;
	char byte;
	if (resolve("good.test", &to) != 1)
		return 1;
	int fd = reach(&to, ORIGIN);
	if (fd < 0)
		return 2;
	return read(fd, &byte, 1) < 0 && errno == ECONNRESET ? 0 : 3;
}

struct later {
	struct fixture *f;
	struct loop_timer timer;
};

static void on_later(struct loop_timer *timer, void *ctx)
{
	struct later *later = ctx;
	if (later->f->gateway.received < strlen(ORIGIN)) {
		loop_timer_in(later->f->loop, timer, 20, on_later, later);
		return;
	}
	set_policy(later->f, 2, "none", "other.test", ENVIRONMENT_ENFORCE);
}

TEST(a_new_policy_cuts_what_it_forbids)
{
	struct fixture f;
	struct later later = {.f = &f};
	if (!setup(&f))
		SKIP("no network namespace");
	set_policy(&f, 1, "none", "good.test", ENVIRONMENT_ENFORCE);
	loop_timer_in(f.loop, &later.timer, 20, on_later, &later);
	CHECK_INT(inside(&f, stays_connected), 0);
	CHECK_INT(inside(&f, good_is_not_reached), 0);
	CHECK_INT(f.gateway.flow_count, 0);
	teardown(&f);
}

static int refused_is_refused(void)
{
	struct sockaddr_in to;
	if (resolve("other.test", &to) != 1)
		return 1;
	return reach(&to, OTHER) < 0 ? 0 : 2;
}

TEST(a_person_is_asked_before_anything_leaves)
{
	struct fixture f;
	if (!setup(&f))
		SKIP("no network namespace");
	/* Something must be allowed, or there is no network to ask about. */
	set_policy(&f, 1, "none", "first.test", ENVIRONMENT_ASK);
	CHECK_INT(inside(&f, refused_is_refused), 0);
	CHECK_INT(f.gateway.resolver.asked, 0); /* the name stood for itself */
	CHECK_INT(inside(&f, good_is_reached), 0);
	CHECK(f.asked >= 2);
	teardown(&f);
}

static int echo_datagrams(void)
{
	struct sockaddr_in to = to_v4(ORIGIN, 9);
	char byte;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct timeval soon = {.tv_usec = 300000};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 || send(fd, "x", 1, 0) < 0)
		return 1;
	return recv(fd, &byte, 1, 0) < 0 ? 0 : 2;
}

TEST(datagrams_that_may_leave_do)
{
	struct fixture f;
	if (!setup(&f))
		SKIP("no network namespace");
	CHECK_INT(inside(&f, echo_datagrams), 0);
	CHECK_INT(f.gateway.exchange_count, 0);
	set_policy(&f, 1, "full", NULL, ENVIRONMENT_ENFORCE);
	CHECK_INT(inside(&f, echo_datagrams), 0); /* nobody is there, but it was sent */
	CHECK_INT(f.gateway.sent, 1);
	CHECK_INT(f.gateway.exchange_count, 1);
	set_policy(&f, 2, "none", NULL, ENVIRONMENT_ENFORCE);
	CHECK_INT(f.gateway.exchange_count, 0);
	teardown(&f);
}

/* Garbage to every door, and then it still works. */
static int make_noise(void)
{
	uint8_t bytes[700];
	struct sockaddr_in names = to_v4("9.9.9.9", 53), web = to_v4(ORIGIN, 22);
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (unsigned i = 0; i < 3000; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)(i * 37 + k * (i + 3));
		(void)!sendto(udp, bytes, i % sizeof(bytes), MSG_DONTWAIT,
		              (struct sockaddr *)&names, sizeof(names));
		if (i % 100 != 0)
			continue;
		int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		struct sockaddr_in *to = i % 200 ? &names : &web;
		if (connect(tcp, (struct sockaddr *)to, sizeof(*to)) == 0)
			(void)!send(tcp, bytes, sizeof(bytes), MSG_NOSIGNAL);
		close(tcp);
	}
	usleep(300000);
	return good_is_reached();
}

TEST(noise_does_no_harm)
{
	struct fixture f;
	if (!setup(&f))
		SKIP("no network namespace");
	set_policy(&f, 1, "none", "good.test", ENVIRONMENT_ENFORCE);
	CHECK_INT(inside(&f, make_noise), 0);
	teardown(&f);
}

TEST(without_a_dialer_nothing_is_reached)
{
	struct fixture f;
	if (!setup(&f))
		SKIP("no network namespace");
	set_policy(&f, 1, "none", "good.test", ENVIRONMENT_ENFORCE);
	CHECK_INT(inside(&f, good_is_reached), 0);
	kill(f.dialer.pid, SIGKILL);
	waitpid(f.dialer.pid, NULL, 0);
	CHECK_INT(inside(&f, good_is_not_reached), 0);
	teardown(&f);
}
