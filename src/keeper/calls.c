#include "keeper/calls.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { SOCK_TYPE = 15, SOCK_PACKED = 10 };

/* A name of a table; the first column is 0 where a table has one key. */
struct name {
	uint32_t level, number;
	const char *text;
};

static const struct name families[] = {
#define FAMILY(number, text) {0, number, text},
#define NETLINK(number, text)
#define PROTOCOL(number, text)
#define OPTION(level, number, text)
#include "keeper/calls.def"
#undef FAMILY
#undef NETLINK
#undef PROTOCOL
#undef OPTION
};

static const struct name netlinks[] = {
#define FAMILY(number, text)
#define NETLINK(number, text) {0, number, text},
#define PROTOCOL(number, text)
#define OPTION(level, number, text)
#include "keeper/calls.def"
#undef FAMILY
#undef NETLINK
#undef PROTOCOL
#undef OPTION
};

static const struct name protocols[] = {
#define FAMILY(number, text)
#define NETLINK(number, text)
#define PROTOCOL(number, text) {0, number, text},
#define OPTION(level, number, text)
#include "keeper/calls.def"
#undef FAMILY
#undef NETLINK
#undef PROTOCOL
#undef OPTION
};

static const struct name options[] = {
#define FAMILY(number, text)
#define NETLINK(number, text)
#define PROTOCOL(number, text)
#define OPTION(level, number, text) {level, number, text},
#include "keeper/calls.def"
#undef FAMILY
#undef NETLINK
#undef PROTOCOL
#undef OPTION
};

/* The kernel takes 32 bits of each of these, and so did the filter. Numbers without a name are one
 * kind: there are many, and a program that tries them all has one thing in mind. */
static const char *find(const struct name *names, size_t count, uint64_t level, uint64_t number)
{
	for (size_t i = 0; i < count; i++) {
		if (names[i].level == (uint32_t)level && names[i].number == (uint32_t)number)
			return names[i].text;
	}
	return "no name is known";
}

#define FIND(names, level, number) find(names, ARRAY_LEN(names), level, number)

static void describe_socket(const uint64_t *args, char *out, size_t size)
{
	uint32_t family = (uint32_t)args[0], type = (uint32_t)args[1] & SOCK_TYPE;
	if (family == AF_NETLINK)
		(void)snprintf(out, size, "netlink sockets but for routes (%s)",
		               FIND(netlinks, 0, args[2]));
	else if (family != AF_INET && family != AF_INET6)
		(void)snprintf(out, size, "sockets of this family (%s)", FIND(families, 0, family));
	else if (type == SOCK_RAW || type == SOCK_PACKED)
		(void)snprintf(out, size, "raw sockets");
	else
		(void)snprintf(out, size, "IP sockets but for TCP and UDP (%s)",
		               FIND(protocols, 0, args[2]));
}

void calls_describe(uint64_t call, const uint64_t args[CALLS_ARGS], struct judgement *ret)
{
	char what[64] = "such call";
	const char *remedy = "use TCP, UDP or local sockets";
	if (call == SYS_socket || call == SYS_socketpair)
		describe_socket(args, what, sizeof(what));
	else if (call == SYS_setsockopt) {
		(void)snprintf(what, sizeof(what), "socket options of this kind (%s)",
		               FIND(options, args[1], args[2]));
		remedy = "leave the option out";
	} else if (call == SYS_io_uring_setup) {
		(void)snprintf(what, sizeof(what), "io_uring");
		remedy = "use the calls it stands for";
	}
	*ret = (struct judgement){.answer = POLICY_DENY};
	(void)snprintf(ret->rule, sizeof(ret->rule), "a sandbox has no %s", what);
	(void)snprintf(ret->remedy, sizeof(ret->remedy), "%s", remedy);
}

bool calls_is_common(uint64_t call)
{
	return call == SYS_io_uring_setup;
}
