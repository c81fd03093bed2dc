/*
 * X: ways to say something to somebody who may be reached that must not be said, or to go on when
 * it may not be any more. Arguments: name=HOST (allowed), address=IPv4 (where it leads),
 * unlisted=HOST; zone=HOST (below which every name is allowed), rebind=HOST (allowed, leads to
 * private addresses), echo=SERVICE (repeats what it is sent), flood=1 (a policy with a cap on
 * bytes), hold=1 (the driver changes the policy when it sees "open"), changing=SECONDS,
 * neighbour=PORT.
 */
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dial.h"
#include "probe.h"

enum { LABELS = 400, SOCKETS = 200, BLOCK = 64 * 1024 };

#define PLACEHOLDER "cloche_placeholder_llm"

/* Said to the allowed host, in one piece or two. */
static struct verdict say(const char *first, const char *then)
{
	int fd = to_allowed(80), now = 1;
	if (fd < 0)
		return broken("the allowed address: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
	bool is_sent = send(fd, first, strlen(first), MSG_NOSIGNAL) >= 0;
	if (is_sent && then) {
		usleep(50 * 1000);
		is_sent = send(fd, then, strlen(then), MSG_NOSIGNAL) >= 0;
	}
	struct verdict verdict = is_sent ? unanswered(fd, SOCK_STREAM) : held(errno, "refused");
	close(fd);
	return verdict;
}

static struct verdict say_each(const char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct verdict verdict = say(texts[i], NULL);
		if (!verdict.held)
			return broken("%zu: %s", i + 1, verdict.detail);
	}
	return held(0, "%zu of %zu refused", count, count);
}

/* --- X06, X07 --- */

static struct verdict labels_below_a_wildcard(void)
{
	unsigned refused = 0, answered = 0;
	char name[250];
	for (unsigned i = 0; i < LABELS; i++) {
		int answers = 0;
		unsigned seed = i * 2654435761U;
		snprintf(name, sizeof(name), "%08x%08x%08x%08x%08x%08x.%08x%08x%08x.%s", seed,
		         ~seed, seed ^ 0x5a5a5a5a, i, seed >> 3, seed * 7, ~i, seed * 13, seed * 17,
		         probe_arg("zone"));
		if (ask("192.0.0.1", name, 1, &answers) == 0)
			answered++;
		else
			refused++;
	}
	return refused > LABELS / 2 ? held(0, "%u answered, %u refused", answered, refused)
	                            : broken("%u of %u names left", answered, LABELS);
}

static struct verdict name_of_private_addresses(void)
{
	static const char *const addresses[] = {"10.0.0.5", "169.254.169.254", "fd00:ec2::254"};
	static const unsigned types[] = {1, 28};
	for (size_t i = 0; i < ATTEMPT_COUNT(types); i++) {
		int answers = 0;
		int rcode = ask("192.0.0.1", probe_arg("rebind"), types[i], &answers);
		if (rcode == 0 && answers > 0)
			return broken("type %u: %d answers", types[i], answers);
	}
	for (size_t i = 0; i < ATTEMPT_COUNT(addresses); i++) {
		struct place place = at(addresses[i], 80);
		int fd = open_to(&place, SOCK_STREAM);
		if (connect(fd, &place.any, place.len) < 0)
			continue;
		struct verdict verdict = unanswered(fd, SOCK_STREAM);
		if (!verdict.held)
			return broken("%s: %s", addresses[i], verdict.detail);
		close(fd);
	}
	return held(0, "no answer, and nobody there");
}

/* --- X10, X11 --- */

static struct verdict other_hosts(void)
{
	char texts[5][256];
	const char *list[ATTEMPT_COUNT(texts)];
	const char *good = probe_arg("name"), *bad = probe_arg("unlisted");
	snprintf(texts[0], sizeof(texts[0]), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", bad);
	snprintf(texts[1], sizeof(texts[1]), "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", bad,
	         good);
	snprintf(texts[2], sizeof(texts[2]), "GET / HTTP/1.1\r\nHost: %s\r\nHost: %s\r\n\r\n", good,
	         bad);
	snprintf(texts[3], sizeof(texts[3]), "CONNECT %s:443 HTTP/1.1\r\nHost: %s\r\n\r\n", bad,
	         good);
	snprintf(texts[4], sizeof(texts[4]), "GET / HTTP/1.1\r\nHost: %s@%s\r\n\r\n", good, bad);
	for (size_t i = 0; i < ATTEMPT_COUNT(texts); i++)
		list[i] = texts[i];
	return say_each(list, ATTEMPT_COUNT(texts));
}

#define HEAD(method) method " / HTTP/1.1\r\nHost: example.test\r\n"

static struct verdict smuggled(void)
{
	static const char *const texts[] = {
		HEAD("POST") "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
		HEAD("POST") "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		HEAD("POST") "Content-Length: +1\r\n\r\na",
		HEAD("POST") "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		HEAD("POST") "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		HEAD("POST") "Transfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n",
		HEAD("GET") " folded: yes\r\n\r\n",
		HEAD("GET") "A: b\rc: d\r\n\r\n",
		"GET / HTTP/1.1\nHost: example.test\n\n",
		"GET / HTTP/1.1\r\nHost: example.test\n\r\n\r\n",
		"GET /a b HTTP/1.1\r\nHost: example.test\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/0.9\r\nHost: example.test\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"\r\n\r\nGET / HTTP/1.1\r\nHost: example.test\r\n\r\n",
	};
	return say_each(texts, ATTEMPT_COUNT(texts));
}

/* One proper request, then chunks or a request that must not go on: one answer at most. */
static struct verdict behind_a_good_one(void)
{
	static const char *const texts[] = {
		HEAD("GET") "\r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
		HEAD("POST") "Content-Length: 2\r\n\r\nhi"
			     "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
		HEAD("POST") "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n0\r\n\r\n",
		HEAD("POST") "Transfer-Encoding: chunked\r\n\r\n0\r\nHost: other.test\r\n\r\n",
		HEAD("POST") "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
		HEAD("POST") "Transfer-Encoding: chunked\r\n\r\n2\nhi\n0\n\n",
	};
	for (size_t i = 0; i < ATTEMPT_COUNT(texts); i++) {
		char bytes[4096] = "";
		size_t len = 0;
		int fd = to_allowed(80);
		if (fd < 0 || send(fd, texts[i], strlen(texts[i]), MSG_NOSIGNAL) < 0)
			return broken("the allowed address: %s", strerror(errno));
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		ssize_t got = 1;
		while (got > 0 && len < sizeof(bytes) - 1 && poll(&ready, 1, PATIENCE_MS) == 1) {
			got = recv(fd, bytes + len, sizeof(bytes) - 1 - len, 0);
			len += got > 0 ? (size_t)got : 0;
		}
		close(fd);
		if (got >= 0)
			return broken("%zu: not cut", i + 1);
		if (strstr(bytes, "other.test"))
			return broken("%zu: the other answered", i + 1);
	}
	return held(ECONNRESET, "cut");
}

/* --- X18, X19 --- */

static struct verdict placeholders(void)
{
	static const char *const texts[] = {
		HEAD("GET") "Authorization: Bearer " PLACEHOLDER "\r\n\r\n",
		"GET /?key=" PLACEHOLDER " HTTP/1.1\r\nHost: example.test\r\n\r\n",
		HEAD("POST") "Content-Length: 22\r\n\r\n" PLACEHOLDER,
		HEAD("POST") "Transfer-Encoding: chunked\r\n\r\n16\r\n" PLACEHOLDER "\r\n0\r\n\r\n",
		HEAD("GET") "Connection: Upgrade\r\nUpgrade: websocket\r\nX: " PLACEHOLDER
			    "\r\n\r\n",
	};
	return say_each(texts, ATTEMPT_COUNT(texts));
}

static struct verdict placeholder_in_pieces(void)
{
	struct verdict verdict =
		say(HEAD("GET") "Authorization: Bearer cloche_place", "holder_llm\r\n\r\n");
	if (!verdict.held)
		return verdict;
	return say(HEAD("POST") "Content-Length: 22\r\n\r\ncloche_place", "holder_llm");
}

/* A service that repeats what it was sent: what it was sent must not be in there. */
static struct verdict secret_comes_back(void)
{
	char bytes[8192] = "";
	size_t len = 0;
	ssize_t got = 1;
	struct place gateway = at("192.0.0.1", 80);
	int fd = open_to(&gateway, SOCK_STREAM);
	int n = snprintf(bytes, sizeof(bytes),
	                 "GET / HTTP/1.1\r\nHost: %s.cloche.internal\r\nX-Key: "
	                 "cloche_placeholder_%s\r\nConnection: close\r\n\r\n",
	                 probe_arg("echo"), probe_arg("echo"));
	if (connect(fd, &gateway.any, gateway.len) < 0 || send(fd, bytes, (size_t)n, 0) != n)
		return broken("the service: %s", strerror(errno));
	memset(bytes, 0, sizeof(bytes));
	while (got > 0 && len < sizeof(bytes) - 1) {
		got = recv(fd, bytes + len, sizeof(bytes) - 1 - len, 0);
		len += got > 0 ? (size_t)got : 0;
	}
	if (!strstr(bytes, " 200 "))
		return broken("no answer");
	if (!strstr(bytes, "********"))
		return broken("what came back is not masked");
	printf("answer: %s\n", strstr(bytes, "\r\n\r\n") + 4); /* the driver knows the secret */
	return held(0, "masked");
}

/* --- X14, X15 --- */

/* An open connection ends when a newer policy forbids it. */
static struct verdict cut_while_open(void)
{
	char bytes[64];
	int fd = to_allowed(22);
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	if (fd < 0 || recv(fd, bytes, sizeof(bytes), 0) <= 0)
		return broken("the allowed address: %s", strerror(errno));
	printf("open\n");
	fflush(stdout);
	/* However fast the other side answers, the policy has its time to change. */
	for (int i = 0; i < 3000; i++) {
		(void)!send(fd, "x", 1, MSG_NOSIGNAL);
		if (poll(&ready, 1, 10) == 1 && recv(fd, bytes, sizeof(bytes), 0) <= 0)
			return held(errno, "cut");
		(void)poll(NULL, 0, 10);
	}
	return broken("it stays open");
}

/* Connects as fast as it can while the policy changes; which one decided is the driver's to say. */
static struct verdict while_it_changes(void)
{
	struct place places[] = {at(probe_arg("address"), 22), at(probe_arg("other"), 22)};
	time_t until = time(NULL) + (time_t)probe_number("changing", 5);
	unsigned reached[2] = {0}, refused = 0;
	while (time(NULL) < until) {
		for (size_t i = 0; i < ATTEMPT_COUNT(places); i++) {
			char line[64];
			int answers = 0, fd = open_to(&places[i], SOCK_STREAM);
			(void)ask("192.0.0.1", probe_arg(i ? "unlisted" : "name"), 1, &answers);
			bool is_good = connect(fd, &places[i].any, places[i].len) == 0 &&
			               recv(fd, line, sizeof(line), 0) > 0;
			reached[i] += is_good;
			refused += !is_good;
			close(fd);
		}
	}
	if (reached[0] == 0 || reached[1] == 0 || refused == 0)
		return broken("%u and %u reached, %u refused", reached[0], reached[1], refused);
	return held(0, "%u and %u reached, %u refused", reached[0], reached[1], refused);
}

/* --- X20, X21 --- */

static struct verdict flood(void)
{
	static char block[BLOCK];
	int fds[SOCKETS];
	struct place place = at(probe_arg("address"), 22);
	unsigned alive = 0;
	(void)is_led_there(); /* or connect says so */
	for (size_t i = 0; i < SOCKETS; i++) {
		fds[i] = open_to(&place, SOCK_STREAM);
		if (connect(fds[i], &place.any, place.len) < 0)
			return broken("connect: %s", strerror(errno));
	}
	for (int round = 0; round < 2000; round++) {
		alive = 0;
		for (size_t i = 0; i < SOCKETS; i++) {
			ssize_t n = send(fds[i], block, sizeof(block), MSG_NOSIGNAL | MSG_DONTWAIT);
			while (recv(fds[i], block, sizeof(block), MSG_DONTWAIT) > 0)
				;
			alive += n >= 0 || errno == EAGAIN;
		}
		if (alive == 0)
			return held(EPIPE, "all %d are cut", SOCKETS);
		usleep(5000);
	}
	return broken("%u of %d go on", alive, SOCKETS);
}

static struct verdict neighbour(void)
{
	static const char *const addresses[] = {"192.0.0.2",      "127.0.0.1", "192.0.0.1",
	                                        "fd00:c10c:e::2", "::1",       "93.184.1.2"};
	unsigned port = (unsigned)probe_number("neighbour", 0);
	for (size_t i = 0; i < ATTEMPT_COUNT(addresses); i++) {
		struct place place = at(addresses[i], port);
		int fd = open_to(&place, SOCK_STREAM);
		if (fd < 0 || connect(fd, &place.any, place.len) < 0)
			continue;
		struct verdict verdict = unanswered(fd, SOCK_STREAM);
		if (!verdict.held)
			return broken("%s: %s", addresses[i], verdict.detail);
		close(fd);
	}
	return held(0, "nobody there");
}

static const struct attempt attempts[] = {
	{"X06", "labels below a wildcard", labels_below_a_wildcard, NEEDS_ARG, "zone"},
	{"X07", "a name of private addresses", name_of_private_addresses, NEEDS_ARG, "rebind"},
	{"X10", "another host in a request", other_hosts, NEEDS_ARG, "rebind"},
	{"X11", "smuggled requests", smuggled, NEEDS_ARG, "rebind"},
	{"X11", "behind a good request", behind_a_good_one, NEEDS_ARG, "rebind"},
	{"X14", "cut while open", cut_while_open, NEEDS_ARG, "hold"},
	{"X15", "while the policy changes", while_it_changes, NEEDS_ARG, "changing"},
	{"X18", "placeholders", placeholders, NEEDS_ARG, "rebind"},
	{"X18", "a placeholder in pieces", placeholder_in_pieces, NEEDS_ARG, "rebind"},
	{"X19", "a secret that comes back", secret_comes_back, NEEDS_ARG, "echo"},
	{"X20", "a flood from 200 sockets", flood, NEEDS_ARG, "flood"},
	{"X21", "the ports of a neighbour", neighbour, NEEDS_ARG, "neighbour"},
};

const struct topic topic_web = {"web", attempts, ATTEMPT_COUNT(attempts)};
