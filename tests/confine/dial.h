/*
 * How the network probes dial and ask: places, questions, and what counts as no answer. Used by
 * those topics alone.
 */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "probe.h"

enum { PATIENCE_MS = 3000, QUIET_MS = 200, NXDOMAIN = 3 };

struct place {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t len;
};

static inline struct place at(const char *address, unsigned port)
{
	struct place place = {.len = sizeof(place.v4)};
	place.v4.sin_port = htons((uint16_t)port);
	if (inet_pton(AF_INET, address, &place.v4.sin_addr) == 1) {
		place.v4.sin_family = AF_INET;
		return place;
	}
	place.v6 =
		(struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	place.len = inet_pton(AF_INET6, address, &place.v6.sin6_addr) == 1 ? sizeof(place.v6) : 0;
	return place;
}

static inline int open_to(const struct place *place, int type)
{
	return socket(place->any.sa_family, type | SOCK_CLOEXEC, 0);
}

/* Nobody answers: an error, a reset, or for datagrams silence. */
static inline struct verdict unanswered(int fd, int type)
{
	char bytes[512];
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int n = poll(&ready, 1, type == SOCK_STREAM ? PATIENCE_MS : QUIET_MS);
	if (n == 0)
		return type == SOCK_STREAM ? broken("the connection stands, in silence")
		                           : held(0, "silence");
	ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (got > 0)
		return broken("an answer of %zd bytes", got);
	return got == 0 ? broken("a proper end") : held(errno, "refused");
}

static inline size_t question(const char *name, unsigned type, unsigned char *out)
{
	static const unsigned char head[] = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
	size_t len = sizeof(head);
	memcpy(out, head, sizeof(head));
	while (*name) {
		size_t label = strcspn(name, ".");
		out[len++] = (unsigned char)label;
		memcpy(out + len, name, label);
		len += label;
		name += label + (name[label] == '.');
	}
	out[len++] = 0;
	out[len++] = (unsigned char)(type >> 8);
	out[len++] = (unsigned char)type;
	out[len++] = 0;
	out[len++] = 1;
	return len;
}

/* The rcode and number of answers, or -1. */
static inline int ask(const char *server, const char *name, unsigned type, int *ret_answers)
{
	unsigned char bytes[1500];
	struct place place = at(server, 53);
	int fd = open_to(&place, SOCK_DGRAM);
	size_t len = question(name, type, bytes);
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	ssize_t got = -1;
	if (sendto(fd, bytes, len, 0, &place.any, place.len) >= 0 &&
	    poll(&ready, 1, PATIENCE_MS) == 1)
		got = recv(fd, bytes, sizeof(bytes), 0);
	close(fd);
	if (got < 12)
		return -1;
	*ret_answers = bytes[6] << 8 | bytes[7];
	return bytes[3] & 15;
}

/* The allowed name, asked for in the family of the allowed address: afterwards it leads there. */
static inline bool is_led_there(void)
{
	struct place good = at(probe_arg("address"), 0);
	int answers = 0;
	unsigned type = good.any.sa_family == AF_INET6 ? 28 : 1;
	return ask("192.0.0.1", probe_arg("name"), type, &answers) == 0;
}

/* A connection to the allowed address, after the allowed name led there. */
static inline int to_allowed(unsigned port)
{
	struct place good = at(probe_arg("address"), port);
	int fd = open_to(&good, SOCK_STREAM);
	if (!is_led_there() || connect(fd, &good.any, good.len) < 0)
		return -1;
	return fd;
}
